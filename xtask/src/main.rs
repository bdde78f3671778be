//! Chores of the repository: `cargo xtask gen`, `cargo xtask layers`, `cargo xtask bench`.

mod bench;
mod layers;
mod reference;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Write the generated files
    Gen {
        /// Write nothing; fail if a file is not up to date
        #[arg(long)]
        check: bool,
    },
    /// Check which crate uses which, that every crate has the lints, and that every file belongs to a module
    Layers,
    /// Measure
    Bench(bench::BenchArgs),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().chore {
        Chore::Gen { check } => reference::generate(&root(), check),
        Chore::Layers => layers::check(&root()),
        Chore::Bench(arguments) => bench::run(&arguments),
    }
}

/// The workspace's directory, from where this was built.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}
