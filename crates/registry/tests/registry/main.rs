//! The client against a real registry: every kind of image, name, access and answer; the cache; faults.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod access;
mod cache;
mod faults;
mod hosts;
mod isolation;
mod matrix;
mod outage;
mod world;
