//! What can be typed.

use std::{ffi::OsString, io, path::Path};

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::{REVISION, certs, manager, ungate};

/// Makes each pod fit the node it will run on.
#[derive(Debug, Parser)]
#[command(name = "podwright", version, arg_required_else_help = true, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the in-cluster process: admission, controllers, metrics
    Manager(Box<manager::ManagerArgs>),
    /// Write a CA and a serving pair to a directory, for a manager started with --cert-dir
    Certs(certs::CertsArgs),
    /// Let all pods go that wait for the platforms of their images: before Podwright is removed, or in an emergency
    Ungate(ungate::UngateArgs),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Print the version
    Version,
}

impl Cli {
    /// The arguments as they are to be read: a program that is called `manager`, as the replaced projects' images start
    /// theirs, is `podwright manager`. Their flags may have one dash or two, as in Go.
    pub fn arguments(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = arguments.collect();
        let name = arguments.first().and_then(|program| Path::new(program).file_name());
        if name.is_some_and(|name| name == "manager") {
            arguments.insert(1, "manager".into());
        }
        if arguments.get(1).is_some_and(|command| command == "manager") {
            for argument in arguments.iter_mut().skip(2) {
                if let Some(long) = argument.to_str().filter(|text| is_long_with_one_dash(text)) {
                    *argument = format!("-{long}").into();
                }
            }
        }
        arguments
    }

    /// Does it.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Manager(arguments) => manager::run(*arguments),
            Command::Certs(arguments) => certs::write(&arguments),
            Command::Ungate(arguments) => ungate::run(&arguments),
            Command::Completions { shell } => {
                clap_complete::generate(shell, &mut Self::command(), "podwright", &mut io::stdout());
                Ok(())
            }
            Command::Version => {
                println!("podwright {} ({REVISION})", env!("CARGO_PKG_VERSION"));
                Ok(())
            }
        }
    }
}

/// `-loglevel=info`, but not `-h`.
fn is_long_with_one_dash(text: &str) -> bool {
    text.strip_prefix('-')
        .is_some_and(|name| name.len() > 1 && name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_program_called_manager_is_the_manager() {
        let read = |words: &[&str]| Cli::try_parse_from(Cli::arguments(words.iter().map(OsString::from)));
        for words in [
            &[
                "/manager",
                "--leader-elect",
                "--health-probe-bind-address=:8081",
                "--metrics-bind-address=:8443",
            ][..],
            &["podwright", "manager", "--leader-elect=false", "--zap-log-level=debug", "--zap-devel"],
            &[
                "/manager",
                "-loglevel=info",
                "-pprof",
                "--enable-leader-election",
                "-logEncoder=json",
                "-metrics-addr=:1",
            ],
        ] {
            assert!(matches!(read(words).unwrap().command, Command::Manager(_)), "{words:?}");
        }
        assert!(
            read(&["podwright", "manager", "--features", "peer-podz"])
                .unwrap_err()
                .to_string()
                .contains("peer-pods")
        );
    }
}
