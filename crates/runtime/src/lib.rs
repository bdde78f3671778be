//! What any long-running service in a Kubernetes cluster needs, free of this product's domain.
//!
//! | module | what it holds |
//! |---|---|
//! | [`telemetry`] | logs, as text or JSON |
//! | [`shutdown`] | the two phases between a signal and the exit |
//! | [`probes`] | `/healthz` and `/readyz` |
//! | [`metrics`] | the registry and `/metrics` |
//! | [`http`] | bound-first listeners; plain and TLS serving that drains |
//! | [`tls`] | protocol policy, the swappable certificate, and where it comes from |
//! | [`lease`] | leader election whose claim expires |
//!
//! Decisions are functions of values with time as an argument; tasks around them do the I/O. Nothing here may know
//! what the service serves: no CRDs, no pods, no admission.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod http;
pub mod lease;
pub mod metrics;
pub mod probes;
pub mod shutdown;
pub mod telemetry;
pub mod tls;
