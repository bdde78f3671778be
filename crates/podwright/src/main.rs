//! The `podwright` binary.

use std::process::ExitCode;

use clap::Parser;

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
