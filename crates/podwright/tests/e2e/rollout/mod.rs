//! ExtendedDaemonSets on a real API server, with the invariants of a rollout watched beside every test.

mod canary;
mod definitions;
mod faults;
mod holds;
mod invariants;
mod migration;
mod overrides;
mod overview;
mod rolling;
mod scene;
mod taints;
mod takeover;
mod written;
