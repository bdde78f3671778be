//! The `podwright` binary.

use std::process::ExitCode;

use clap::Parser;

/// A review is a few hundred small allocations: the system's allocator would take a tenth of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = podwright::Cli::parse_from(podwright::Cli::arguments(std::env::args_os())).run();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("podwright: {error:#}");
            ExitCode::FAILURE
        }
    }
}
