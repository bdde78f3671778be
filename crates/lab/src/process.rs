//! Child processes that cannot outlive the lab.
//!
//! Each child is started through a launcher that asks the kernel to kill it when its parent *thread* ends, makes sure
//! that the parent is still there, and then becomes the program. So all children are started from one thread that lives
//! as long as the lab does ([`crate::supervisor`]), and not even SIGKILL on the lab leaves one behind.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::{Pid, Signal};
use tokio::sync::watch;

use crate::layout::tail;

/// The environment variable that names the `podwright-lab` binary, for programs that are not it.
pub const LAB_BINARY_ENV: &str = "PODWRIGHT_LAB_BIN";
const BINARY: &str = "podwright-lab";

/// A program to be run, with all that it needs.
#[derive(Clone, Debug)]
pub(crate) struct ChildSpec {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) log: PathBuf,
}

/// A running (or finished) child.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) log: PathBuf,
    exit: watch::Receiver<Option<ExitStatus>>,
}

impl Child {
    /// Starts the program. Must be called on the lab's own thread, inside its runtime.
    pub(crate) fn spawn(spec: &ChildSpec) -> Result<Self> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(&spec.log)
            .with_context(|| format!("failed to open {}", spec.log.display()))?;
        let mut command = tied_to_this_thread(spec.program.as_os_str())?;
        command
            .args(&spec.args)
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stderr(log.try_clone().context("failed to share the log file")?)
            .stdout(log)
            // A Ctrl-C on the terminal is for the lab, which stops its children in order.
            .process_group(0);
        let mut child = tokio::process::Command::from(command)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("failed to start {} ({})", spec.name, spec.program.display()))?;
        let pid = child.id().with_context(|| format!("{} was gone before it had begun", spec.name))?;
        let (sender, exit) = watch::channel(None);
        tokio::spawn(async move {
            if let Ok(status) = child.wait().await {
                sender.send_replace(Some(status));
            }
        });
        Ok(Self { name: spec.name.clone(), pid, log: spec.log.clone(), exit })
    }

    /// How it ended, if it has. A child whose keeper is gone was killed with it.
    pub(crate) fn exited(&self) -> bool {
        self.exit.borrow().is_some() || self.exit.has_changed().is_err()
    }

    /// Waits for the end; `None` when the status is not known.
    pub(crate) async fn wait(&self) -> Option<ExitStatus> {
        self.exit.clone().wait_for(Option::is_some).await.ok().and_then(|status| *status)
    }

    /// Sends a signal; nothing to do when the child has ended.
    ///
    /// On the lab's thread, where children are also reaped, so that the pid cannot have passed to somebody else.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        if self.exited() {
            return Ok(());
        }
        signal_pid(self.pid, signal).with_context(|| format!("failed to signal {}", self.name))
    }

    /// An error that says how the child ended and what it said last.
    pub(crate) fn failure(&self, what: &str) -> anyhow::Error {
        let ended = self.exit.borrow().map(|status| format!(" ({status})")).unwrap_or_default();
        anyhow!("{} {what}{ended}; the end of {}:\n{}", self.name, self.log.display(), tail(&self.log, 25))
    }
}

/// Sends a signal to a process; one that is gone already is no error.
pub(crate) fn signal_pid(pid: u32, signal: Signal) -> Result<()> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).with_context(|| format!("{pid} is no pid"))?;
    match rustix::process::kill_process(raw, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(anyhow!("failed to send {signal:?} to process {pid}: {error}")),
    }
}

/// A command that runs `program` and is killed by the kernel when the calling thread ends.
pub(crate) fn tied_to_this_thread(program: &OsStr) -> Result<Command> {
    let mut command = match launcher()? {
        Launcher::Lab(path) => {
            let mut command = Command::new(path);
            command.args(["exec-child", "--parent", &std::process::id().to_string(), "--"]);
            command
        }
        Launcher::Setpriv(path) => {
            let mut command = Command::new(path);
            command.args(["--pdeathsig", "KILL", "--"]);
            command
        }
    };
    command.arg(program);
    Ok(command)
}

/// The body of the hidden `exec-child` subcommand: ties this process to its parent, then becomes `command`.
/// Returns only if that failed.
pub fn exec_child(parent: u32, command: &[OsString]) -> Result<std::convert::Infallible> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .context("failed to set the parent-death signal")?;
    // The parent may have died before the signal was set; then nobody would ever end this process.
    let actual = rustix::process::getppid().map(Pid::as_raw_nonzero).map(std::num::NonZero::get);
    if actual.and_then(|pid| u32::try_from(pid).ok()) != Some(parent) {
        bail!("the lab (process {parent}) is gone");
    }
    let [program, args @ ..] = command else { bail!("no program given") };
    Err(Command::new(program).args(args).exec())
        .with_context(|| format!("failed to run {}", Path::new(program).display()))
}

enum Launcher {
    Lab(PathBuf),
    Setpriv(PathBuf),
}

/// Is this process `podwright-lab` itself (rather than a test that uses the library)?
pub(crate) fn is_lab_binary() -> bool {
    std::env::current_exe().is_ok_and(|exe| {
        // The kernel marks the name of a binary that has been rebuilt under us.
        exe.file_name()
            .and_then(OsStr::to_str)
            .is_some_and(|name| name.trim_end_matches(" (deleted)") == BINARY)
    })
}

fn launcher() -> Result<Launcher> {
    if let Some(path) = std::env::var_os(LAB_BINARY_ENV) {
        let path = PathBuf::from(path);
        if path.is_file() {
            return Ok(Launcher::Lab(path));
        }
        bail!("{LAB_BINARY_ENV} names {}, which is not a file", path.display());
    }
    if is_lab_binary() {
        return Ok(Launcher::Lab(PathBuf::from("/proc/self/exe")));
    }
    let exe = std::env::current_exe().context("failed to find this program's own path")?;
    if let Some(path) = beside(&exe, BINARY) {
        return Ok(Launcher::Lab(path));
    }
    match on_path("setpriv") {
        Some(path) => Ok(Launcher::Setpriv(path)),
        None => bail!(
            "neither {BINARY} (beside {}, or named by {LAB_BINARY_ENV}) nor setpriv (util-linux) was found; \
             the lab needs one of them to start processes that cannot outlive it",
            exe.display()
        ),
    }
}

/// `name` in the directory of `exe` or the one above (tests live in `deps/`, one below the binaries).
pub(crate) fn beside(exe: &Path, name: &str) -> Option<PathBuf> {
    exe.ancestors().skip(1).take(2).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Where a shell would find `name`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| {
        fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_finds_the_binaries_one_directory_up() {
        let dir = tempfile::tempdir().unwrap();
        let deps = dir.path().join("deps");
        fs::create_dir(&deps).unwrap();
        fs::write(dir.path().join("podwright"), "").unwrap();
        assert_eq!(beside(&deps.join("test-1"), "podwright"), Some(dir.path().join("podwright")));
        assert_eq!(
            beside(&dir.path().join("podwright-lab"), "podwright"),
            Some(dir.path().join("podwright"))
        );
        assert_eq!(beside(&deps.join("test-1"), "other"), None);
    }
}
