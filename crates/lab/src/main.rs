//! `podwright-lab`: a real control plane on this machine, for people, scripts and benchmarks.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser, Subcommand};
use podwright_lab::progress::say;
use podwright_lab::state::{self, Claim};
use podwright_lab::{Endpoints, Lab, LabOptions, Layout, Progress, binaries, demo, eventually, process};
use tokio::signal::unix::{SignalKind, signal};

/// A real Kubernetes control plane on 127.0.0.1 with fake nodes, and Podwright in it.
#[derive(Parser)]
#[command(name = "podwright-lab", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Start a lab; prints one JSON line when it is ready.
    ///
    /// Runs until SIGINT or SIGTERM, then stops everything. The first start on a machine builds the control plane
    /// with Go, which takes minutes; later ones take seconds.
    Up(UpArgs),
    /// Stop the lab in a directory. Its logs are kept.
    Down(DownArgs),
    /// Build the control plane's programs, if they are not in the cache yet.
    Build,
    /// Play every feature on the examples, with checks.
    Demo(DemoArgs),
    /// The process behind `up --detach`.
    #[command(hide = true)]
    Supervise(UpArgs),
    /// Become a program that cannot outlive the lab.
    #[command(hide = true)]
    ExecChild(ExecChildArgs),
}

#[derive(Args)]
struct UpArgs {
    /// Where the lab keeps its files; created if need be.
    #[arg(long)]
    dir: PathBuf,
    /// How many fake nodes to create.
    #[arg(long, default_value_t = 10)]
    nodes: usize,
    /// Leave the lab running in the background and return when it is ready.
    #[arg(long)]
    detach: bool,
    /// The control plane and the nodes only.
    #[arg(long, conflicts_with_all = ["config", "replicas"])]
    without_podwright: bool,
    /// Podwright's config file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How many Podwrights to run behind one webhook address.
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    replicas: u8,
}

#[derive(Args)]
struct DownArgs {
    /// The directory that was given to `up`.
    #[arg(long)]
    dir: PathBuf,
}

#[derive(Args)]
struct DemoArgs {
    /// End when the last scene is over, instead of keeping the cluster up to look around in.
    #[arg(long)]
    once: bool,
}

#[derive(Args)]
struct ExecChildArgs {
    /// The process whose end is the program's end.
    #[arg(long)]
    parent: u32,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Up(args) if args.detach => detach(&args),
        Task::Up(args) => up(&args),
        Task::Down(args) => down(&args),
        Task::Build => binaries::control_plane().map(drop),
        Task::Demo(args) => block_on(play(args.once)),
        Task::Supervise(args) => supervise(&args),
        Task::ExecChild(args) => {
            let never: Infallible = process::exec_child(args.parent, &args.command)?;
            match never {}
        }
    }
}

fn up(args: &UpArgs) -> Result<()> {
    if let Some(endpoints) = running(args)? {
        return print(&endpoints);
    }
    block_on(keep(args, print))
}

fn down(args: &DownArgs) -> Result<()> {
    let layout = Layout::new(&args.dir)?;
    if state::down(&layout)? {
        say(&format!("stopped; the logs are in {}", layout.logs().display()));
    } else {
        say(&format!("no lab runs in {}", layout.root().display()));
    }
    Ok(())
}

/// The lab that runs in the directory already, if one does.
fn running(args: &UpArgs) -> Result<Option<Endpoints>> {
    let layout = Layout::create(&args.dir)?;
    match state::claim(&layout)? {
        Claim::Ours(_) => Ok(None),
        Claim::Running(endpoints) => {
            say(&format!("a lab runs in {} already", layout.root().display()));
            Ok(Some(endpoints))
        }
        Claim::Busy => bail!(
            "another lab is starting or stopping in {}; wait for it, or stop it with `podwright-lab down`",
            layout.root().display()
        ),
    }
}

/// Starts the background process, shows what it says until it is ready, and leaves it.
fn detach(args: &UpArgs) -> Result<()> {
    if let Some(endpoints) = running(args)? {
        return print(&endpoints);
    }
    // Here, where there may be a terminal to show the progress of a long build on.
    binaries::control_plane()?;
    let mut command =
        Command::new(std::env::current_exe().context("failed to find this program's own path")?);
    command
        .arg("supervise")
        .arg("--dir")
        .arg(Layout::new(&args.dir)?.root())
        .args(["--nodes", &args.nodes.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if args.without_podwright {
        command.arg("--without-podwright");
    } else {
        command.args(["--replicas", &args.replicas.to_string()]);
    }
    if let Some(config) = &args.config {
        command.arg("--config").arg(config);
    }
    let mut child = command.spawn().context("failed to start the background process")?;
    let stderr = child.stderr.take().context("the background process has no stderr")?;
    let relay =
        std::thread::spawn(move || std::io::copy(&mut BufReader::new(stderr), &mut std::io::stderr()));
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("the background process has no stdout")?)
        .read_line(&mut line)
        .context("failed to hear from the background process")?;
    // Ends when the background process turns to its log file, or ends itself.
    drop(relay.join());
    if line.is_empty() {
        let status = child.wait().context("failed to wait for the background process")?;
        bail!("the lab did not come up ({status})");
    }
    print(
        &serde_json::from_str(&line)
            .context("the background process said something else than the endpoints")?,
    )
}

/// The background process: a session of its own, so that nothing that happens to the terminal reaches it.
fn supervise(args: &UpArgs) -> Result<()> {
    rustix::process::setsid().context("failed to leave the terminal's session")?;
    let log = Layout::new(&args.dir)?.log("supervisor");
    block_on(keep(args, move |endpoints| {
        print(endpoints)?;
        let log = File::create(&log).with_context(|| format!("failed to create {}", log.display()))?;
        rustix::stdio::dup2_stdout(&log).context("failed to turn to the log file")?;
        rustix::stdio::dup2_stderr(&log).context("failed to turn to the log file")
    }))
}

fn block_on(future: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start a runtime")?
        .block_on(future)
}

/// Starts the lab, announces it, and keeps it until a signal comes or it breaks.
async fn keep(args: &UpArgs, announce: impl FnOnce(&Endpoints) -> Result<()>) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    let lab = tokio::select! {
        lab = Lab::start(options(args)?) => lab?,
        _ = interrupt.recv() => return given_up(&args.dir).await,
        _ = terminate.recv() => return given_up(&args.dir).await,
    };
    if let Err(error) = announce(lab.endpoints()) {
        lab.stop().await?;
        return Err(error);
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        reason = lab.broken() => {
            lab.stop().await?;
            bail!("the lab is broken: {reason}");
        }
    }
    say("stopping");
    lab.stop().await
}

/// Plays the demo and, unless that is all that was wanted, keeps its cluster until a signal comes.
async fn play(once: bool) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?;
    // The registry ends with its value.
    let (lab, _registry) = tokio::select! {
        played = demo::play() => played?,
        _ = interrupt.recv() => bail!("interrupted"),
    };
    if !once {
        demo::invite(&lab)?;
        interrupt.recv().await;
        say("stopping");
    }
    Ok(())
}

/// Nobody waits for the lab any more: its thread clears the directory and lets go of it. If that takes long, because Go
/// is building, ending the process does as well.
async fn given_up(dir: &Path) -> Result<()> {
    let layout = Layout::new(dir)?;
    let cleared = eventually(Duration::from_secs(3), || async {
        match state::claim(&layout)? {
            Claim::Ours(_) => Ok(()),
            Claim::Running(_) | Claim::Busy => bail!("the lab has not let go of its directory"),
        }
    });
    match cleared.await {
        Ok(()) => bail!("stopped while starting"),
        Err(error) => Err(error.context("stopped while starting")),
    }
}

fn options(args: &UpArgs) -> Result<LabOptions> {
    let config = match &args.config {
        Some(path) => Some(
            std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?,
        ),
        None => None,
    };
    Ok(LabOptions {
        dir: Some(args.dir.clone()),
        nodes: args.nodes,
        podwright: !args.without_podwright,
        replicas: usize::from(args.replicas),
        config,
        progress: Progress::Steps,
        ..LabOptions::default()
    })
}

fn print(endpoints: &Endpoints) -> Result<()> {
    let line = serde_json::to_string(endpoints).context("failed to render the endpoints")?;
    writeln!(std::io::stdout(), "{line}").context("nobody reads the endpoints")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
