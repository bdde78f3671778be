//! Building the control plane with Go, and telling a person how far it is.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::binaries::{KUBERNETES_VERSION, Program};
use crate::process::{on_path, tied_to_this_thread};
use crate::progress::{say, seconds};

/// How often a line is printed where there is no terminal to draw on.
const PLAIN_INTERVAL: Duration = Duration::from_secs(15);

/// What `go build` is told besides what to build: part of the cache key.
pub(crate) fn flags() -> [String; 3] {
    [
        "-trimpath".to_owned(),
        "-ldflags".to_owned(),
        // Without the version the server calls itself v0.0.0, and version checks misbehave.
        format!("-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}"),
    ]
}

/// Builds the programs from the module in `source` into `target`. Each appears there whole or not at all.
pub(crate) fn build(source: &Path, target: &Path, programs: &[Program]) -> Result<()> {
    if on_path("go").is_none() {
        bail!(
            "Go is needed to build the control plane ({}), and there is no `go` on PATH: install Go 1.26 or newer \
             (https://go.dev/dl, or your system's package `golang`), or set KUBEBUILDER_ASSETS to a directory that \
             holds these programs",
            names(programs)
        );
    }
    remove_unfinished(target)?;
    let started = Instant::now();
    say(&format!(
        "building {} into {} (once; about ten minutes on 2 cores when nothing is cached)",
        names(programs),
        target.display()
    ));
    let mut display = Display::new();
    display.phase("fetching modules");
    let packages = run_go(source, &list_args(programs), &mut display, Display::download)?;
    display.expect(packages.lines().count());
    for program in programs {
        display.phase(program.name);
        let temporary = target.join(format!(".{}.{}.tmp", program.name, std::process::id()));
        let mut args = vec!["build".to_owned(), "-v".to_owned()];
        args.extend(flags());
        args.extend(["-o".to_owned(), temporary.to_string_lossy().into_owned(), program.package.to_owned()]);
        run_go(source, &args, &mut display, Display::package)
            .with_context(|| format!("failed to build {}", program.name))?;
        let finished = target.join(program.name);
        fs::rename(&temporary, &finished)
            .with_context(|| format!("failed to put {} in place", finished.display()))?;
    }
    display.finish();
    say(&format!("built {} in {}", names(programs), seconds(started.elapsed())));
    Ok(())
}

fn names(programs: &[Program]) -> String {
    programs.iter().map(|program| program.name).collect::<Vec<_>>().join(", ")
}

/// All packages that go into the programs: how long the bar is.
fn list_args(programs: &[Program]) -> Vec<String> {
    let packages = programs.iter().map(|program| program.package.to_owned());
    ["list", "-deps"].map(str::to_owned).into_iter().chain(packages).collect()
}

/// What a killed build left behind. We hold the lock, so nobody is writing it.
fn remove_unfinished(target: &Path) -> Result<()> {
    let entries = fs::read_dir(target).with_context(|| format!("failed to read {}", target.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "tmp") {
            fs::remove_file(&path).with_context(|| format!("failed to remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Runs Go in the module, feeds its messages to `on_line`, and gives back its output.
fn run_go(
    source: &Path,
    args: &[String],
    display: &mut Display,
    on_line: fn(&mut Display, &str),
) -> Result<String> {
    let mut child = go(source, args)?.spawn().context("failed to run go")?;
    let (output, lines) = read_both(&mut child)?;
    let mut last = VecDeque::new();
    loop {
        match lines.recv_timeout(Duration::from_millis(500)) {
            Ok(line) => {
                on_line(display, &line);
                if last.len() == 20 {
                    last.pop_front();
                }
                last.push_back(line);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        display.tick();
    }
    let status = child.wait().context("failed to wait for go")?;
    if !status.success() {
        display.finish();
        bail!("go {} failed ({status}):\n{}", args.join(" "), Vec::from(last).join("\n"));
    }
    output.recv().context("go's output was lost")
}

fn go(source: &Path, args: &[String]) -> Result<Command> {
    let mut command = tied_to_this_thread("go".as_ref())?;
    command
        .args(args)
        .current_dir(source)
        // A static binary that depends on nothing of this machine, from exactly the pinned modules.
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=readonly")
        .env("GO111MODULE", "on")
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
}

/// Both pipes are read at once, or Go could block on the one that is not.
fn read_both(child: &mut Child) -> Result<(mpsc::Receiver<String>, mpsc::Receiver<String>)> {
    let stdout = child.stdout.take().context("go has no stdout")?;
    let stderr = child.stderr.take().context("go has no stderr")?;
    let (send_output, output) = mpsc::channel();
    let (send_line, lines) = mpsc::channel();
    std::thread::spawn(move || send_output.send(std::io::read_to_string(stdout).unwrap_or_default()));
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if send_line.send(line).is_err() {
                break;
            }
        }
    });
    Ok((output, lines))
}

const FETCHING: &str = "{spinner} [{elapsed_precise}] {wide_msg}";
const BUILDING: &str = "{spinner} [{elapsed_precise}] {msg:24} [{bar:36}] {pos}/{len} packages";

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A bar on a terminal, a line now and then elsewhere.
struct Display {
    bar: Option<ProgressBar>,
    phase: String,
    done: usize,
    expected: usize,
    last_line: Instant,
    started: Instant,
}

impl Display {
    fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style(FETCHING))
        });
        let now = Instant::now();
        Self { bar, phase: String::new(), done: 0, expected: 0, last_line: now, started: now }
    }

    fn phase(&mut self, phase: &str) {
        phase.clone_into(&mut self.phase);
        match &self.bar {
            Some(bar) => bar.set_message(phase.to_owned()),
            None => self.line(),
        }
    }

    fn expect(&mut self, packages: usize) {
        self.expected = packages;
        if let Some(bar) = &self.bar {
            bar.set_style(style(BUILDING));
            bar.set_length(u64::try_from(packages).unwrap_or(u64::MAX));
        }
    }

    /// `go list` says what it downloads.
    fn download(&mut self, line: &str) {
        if let (Some(bar), Some(module)) = (&self.bar, line.strip_prefix("go: downloading ")) {
            bar.set_message(format!("{} {module}", self.phase));
        }
    }

    /// `go build -v` names each package that it compiles, and says what it downloads.
    fn package(&mut self, line: &str) {
        if line.starts_with("go: ") {
            return;
        }
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    fn tick(&mut self) {
        match &self.bar {
            Some(bar) => bar.tick(),
            None if self.last_line.elapsed() >= PLAIN_INTERVAL => self.line(),
            None => {}
        }
    }

    fn line(&mut self) {
        self.last_line = Instant::now();
        let count = if self.expected == 0 {
            String::new()
        } else {
            format!(", {} of at most {} packages compiled", self.done, self.expected)
        };
        say(&format!("  {}{count}, {}", self.phase, seconds(self.started.elapsed())));
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
