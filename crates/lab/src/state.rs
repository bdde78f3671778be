//! Who runs in a lab's directory: the lock that a living lab holds, and the pids it wrote down.

use std::fs::{self, File, TryLockError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::layout::{Layout, write_private};
use crate::process::signal_pid;

/// How to reach the lab: the line that `podwright-lab up` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    /// The administrator's kubeconfig.
    pub kubeconfig: String,
    /// Address of the dashboard; none yet.
    pub dashboard: Option<String>,
    /// Address of each replica's metrics.
    pub metrics: Vec<String>,
    /// Address of each replica's admission server. The API server reaches them through one balanced address.
    pub webhook: Vec<String>,
}

/// One process, so that it cannot be taken for another that got its pid later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessRecord {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// When the kernel started it, in ticks since boot.
    started: u64,
    /// What its command line holds.
    marker: String,
}

impl ProcessRecord {
    /// The record of a process that runs now.
    pub(crate) fn of(name: &str, pid: u32, marker: &str) -> Result<Self> {
        let started = start_ticks(pid).with_context(|| format!("{name} (process {pid}) is not running"))?;
        Ok(Self { name: name.to_owned(), pid, started, marker: marker.to_owned() })
    }

    /// Does that very process still run?
    fn runs(&self) -> bool {
        start_ticks(self.pid) == Some(self.started)
            && fs::read(format!("/proc/{}/cmdline", self.pid))
                .is_ok_and(|cmdline| String::from_utf8_lossy(&cmdline).contains(&self.marker))
    }
}

/// Field 22 of `/proc/PID/stat`; nothing for a process that is gone or waits to be reaped.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the name in brackets, may hold spaces and brackets.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// What `lab.json` holds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LabState {
    /// The process that holds the lab; none where a test does, which `down` must not end.
    pub(crate) supervisor: Option<ProcessRecord>,
    pub(crate) processes: Vec<ProcessRecord>,
    /// Once it is up.
    pub(crate) endpoints: Option<Endpoints>,
}

impl LabState {
    pub(crate) fn write(&self, layout: &Layout) -> Result<()> {
        write_private(&layout.state(), &serde_json::to_string_pretty(self)?)
    }

    fn read(layout: &Layout) -> Result<Option<Self>> {
        let path = layout.state();
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map(Some).with_context(|| {
                format!("{} is damaged; stop what runs there by hand and remove it", path.display())
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
        }
    }
}

/// Taking possession of a directory.
#[derive(Debug)]
pub enum Claim {
    /// It is ours for as long as the file is open.
    Ours(File),
    /// Another lab runs there.
    Running(Endpoints),
    /// Another lab is starting or stopping there.
    Busy,
}

/// Takes the directory, unless a living lab has it. What a dead one left behind is cleared away.
pub fn claim(layout: &Layout) -> Result<Claim> {
    let path = layout.lock();
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("failed to open {}", path.display()))?;
    match lock.try_lock() {
        Ok(()) => {
            if let Some(state) = LabState::read(layout)? {
                kill_leftovers(&state)?;
            }
            layout.remove_runtime_data()?;
            Ok(Claim::Ours(lock))
        }
        Err(TryLockError::WouldBlock) => {
            Ok(LabState::read(layout)?.and_then(|state| state.endpoints).map_or(Claim::Busy, Claim::Running))
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("failed to lock {}", path.display()))
        }
    }
}

/// Stops the lab in the directory; returns whether there was one. Doing it again is no error.
pub fn down(layout: &Layout) -> Result<bool> {
    let Some(state) = LabState::read(layout)? else {
        return Ok(false);
    };
    if let Some(supervisor) = state.supervisor.as_ref().filter(|process| process.runs()) {
        signal_pid(supervisor.pid, Signal::TERM)?;
        // Podwright may take its time to drain; everything else is killed.
        if !gone(supervisor, Duration::from_secs(30)) {
            signal_pid(supervisor.pid, Signal::KILL)?;
            if !gone(supervisor, Duration::from_secs(5)) {
                bail!("process {} of the lab does not end, even when killed", supervisor.pid);
            }
        }
    }
    // The supervisor may have started more since we looked.
    if let Some(state) = LabState::read(layout)? {
        kill_leftovers(&state)?;
    }
    layout.remove_runtime_data()?;
    Ok(true)
}

fn kill_leftovers(state: &LabState) -> Result<()> {
    for process in state.processes.iter().filter(|process| process.runs()) {
        signal_pid(process.pid, Signal::KILL)?;
    }
    for process in &state.processes {
        if !gone(process, Duration::from_secs(5)) {
            bail!("{} (process {}) does not end, even when killed", process.name, process.pid);
        }
    }
    Ok(())
}

fn gone(process: &ProcessRecord, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    while process.runs() {
        if Instant::now() > deadline {
            return false;
        }
        // Not our child: there is nothing to wait on but time.
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_process_is_known_by_pid_start_time_and_command_line() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "echo up; read line; : this-lab"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The kernel shows the command line a moment after the process is there.
        child.stdout.take().unwrap().read_exact(&mut [0; 3]).unwrap();
        let record = ProcessRecord::of("sh", child.id(), "this-lab").unwrap();
        assert!(record.runs());
        assert!(!ProcessRecord { marker: "other-lab".to_owned(), ..record.clone() }.runs());
        assert!(!ProcessRecord { started: record.started + 1, ..record.clone() }.runs());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!record.runs());
    }

    #[test]
    fn a_directory_has_one_lab_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::create(dir.path()).unwrap();
        let Claim::Ours(lock) = claim(&layout).unwrap() else { panic!("nobody else is there") };
        assert!(matches!(claim(&layout).unwrap(), Claim::Busy));
        let endpoints = Endpoints {
            kubeconfig: "k".to_owned(),
            dashboard: None,
            metrics: Vec::new(),
            webhook: Vec::new(),
        };
        let state = LabState { endpoints: Some(endpoints.clone()), ..LabState::default() };
        state.write(&layout).unwrap();
        assert!(matches!(claim(&layout).unwrap(), Claim::Running(found) if found == endpoints));
        drop(lock);
        assert!(matches!(claim(&layout).unwrap(), Claim::Ours(_)));
    }

    #[test]
    fn down_twice_is_as_good_as_once() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::create(dir.path()).unwrap();
        LabState::default().write(&layout).unwrap();
        assert!(down(&layout).unwrap());
        assert!(!down(&layout).unwrap());
    }
}
