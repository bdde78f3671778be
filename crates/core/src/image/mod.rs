//! Images as pods name them, and the platforms that they are built for.
//!
//! Names are read as the container runtime reads them, so that what is looked up is what would be pulled. Platforms are
//! kept in one spelling, so that they can be compared.

mod digest;
mod platform;
mod platforms;
mod policy;
mod reference;

pub use digest::{Algorithm, Digest, DigestError};
pub use platform::{Platform, PlatformError};
pub use platforms::Platforms;
pub use policy::PullPolicy;
pub use reference::{Reference, ReferenceError};
