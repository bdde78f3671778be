//! AdmissionReview in, the core's decision, answer out.
//!
//! This crate speaks HTTP and the review's wire format, and bounds what one review may cost: its size, its time, how many
//! run at once, and that a panic is one failed review. It decides nothing about pods and writes nothing to the cluster.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod facts;
mod fault;
mod metrics;
mod review;
mod server;
#[cfg(test)]
mod tests;

pub use facts::{FactError, FactSource, Finding, NoFacts};
pub use metrics::AdmissionMetrics;
pub use server::{AdmissionOptions, MAX_BODY, router};
