//! The planner, rule by rule, and over random clusters.

mod canary;
mod cluster;
mod failures;
mod mapping;
mod properties;
mod roles;
mod rolling;
mod simulation;
mod status;
