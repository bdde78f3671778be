//! A real Kubernetes control plane on this machine, with fake nodes, and Podwright in it.
//!
//! `podwright-lab` gives it to people; tests get the same as a value:
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let lab = podwright_lab::Lab::start(podwright_lab::LabOptions { nodes: 3, ..Default::default() }).await?;
//! let client = lab.client()?;
//! let namespace = lab.namespace("demo").await?;
//! # drop((client, namespace));
//! # Ok(())
//! # }
//! ```
//!
//! Everything here may be used by tests and by nothing else: no other crate's product code depends on the lab.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod balancer;
pub mod binaries;
mod controlplane;
pub mod demo;
mod dump;
mod gobuild;
mod kubeconfig;
mod lab;
mod layout;
pub mod manifests;
pub mod nodes;
mod pki;
mod podwright;
pub mod ports;
mod probe;
pub mod process;
pub mod progress;
pub mod registry;
mod roster;
mod settings;
pub mod state;
mod supervisor;
mod wait;

pub use lab::{Lab, LabOptions, Replica};
pub use layout::Layout;
pub use nodes::NodeShape;
pub use podwright::{NAME as PODWRIGHT_NAME, NAMESPACE as PODWRIGHT_NAMESPACE, ReplicaPorts};
pub use progress::Progress;
pub use state::Endpoints;
pub use wait::eventually;
