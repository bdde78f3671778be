//! The `podwright` program: the command line, and the wiring of the crates that do the work.
//!
//! Nothing is decided here. The command line is a library so that the reference page can be made from it.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod certs;
mod cli;
mod manager;
mod ungate;

pub use cli::{Cli, Command};

/// The commit that this was built from, where the build says so.
const REVISION: &str = match option_env!("PODWRIGHT_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};
