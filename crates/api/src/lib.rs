//! What users write and read: the configuration file, custom resources, annotation and label keys, feature names, defaults and
//! their validation.
//!
//! Values only. Nothing here talks to a cluster, reads a clock or the environment, or decides anything about a
//! pod: decisions live in `podwright-core`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod config;
pub mod distributor;
mod duration;
pub mod eds;
mod feature;
pub mod flex;
pub mod keys;
mod moment;
mod schema;
mod selector;

pub use duration::{BadDuration, LongDuration};
pub use feature::{Feature, UnknownFeature};
pub use moment::Moment;
pub use selector::{NodeSelector, Operator, Requirement};
