//! ExtendedDaemonSets: which pod runs on which node, and how a new template reaches them.

mod fingerprint;
pub mod objects;
pub mod overrides;
pub mod plan;

pub use fingerprint::Fingerprint;
