//! One module a controller: observe what is there, ask the core what to do, do it.
//!
//! Each controller writes only while its replica holds the lease, asks for that at each write, and writes nothing when
//! nothing has changed. Decisions are the core's; HTTP servers and registries are not known here.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod architecture;
pub mod caches;
pub mod capacity;
pub mod distribution;
pub mod lookups;
mod nodes;
mod pace;
pub mod registration;
pub mod rollout;
pub mod sizing;
mod slim;
mod subscription;
pub mod withdrawal;
