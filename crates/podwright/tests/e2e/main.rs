//! The built binary on a real API server, with its own ServiceAccount and the rights that we ship.
//!
//! Tests share labs by configuration; each owns its namespaces and nodes, so they may run side by side. Those that ask how long
//! something takes are in `timed`.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod architecture;
mod audit;
mod bad_input;
mod capacity;
mod distribution;
mod https;
mod injector;
mod labs;
mod peer_pod_options;
mod peer_pods;
mod record;
mod registration;
mod rollout;
mod sizing;
