//! Every decision that Podwright takes, as functions of values.
//!
//! What is observed comes in as arguments, time among it, and what is to be done comes out as a value: a JSON patch, a
//! plan. Admission, controllers, command line, dashboard and tests all call the same functions. There is no async
//! runtime here, no client, no clock, no randomness and no environment.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod architecture;
pub mod capacity;
pub mod distribution;
pub mod image;
pub mod mutate;
pub mod node;
pub mod pod;
pub mod quantity;
pub mod registration;
pub mod rollout;
pub mod sizing;
