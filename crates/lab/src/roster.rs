//! The lab's processes in the order of their start, written down in `lab.json` as they come.
//!
//! Lives on the lab's own thread, the only one that starts processes.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;

use crate::layout::Layout;
use crate::process::{Child, ChildSpec, is_lab_binary};
use crate::progress::say;
use crate::state::{Endpoints, LabState, ProcessRecord};

pub(crate) struct Roster {
    pub(crate) layout: Layout,
    state: RefCell<LabState>,
    children: RefCell<Vec<Child>>,
}

impl Roster {
    pub(crate) fn new(layout: Layout) -> Result<Self> {
        let mut state = LabState::default();
        if is_lab_binary() {
            let marker = std::env::args_os().next().unwrap_or_default();
            let marker = marker.to_string_lossy();
            state.supervisor = Some(ProcessRecord::of("podwright-lab", std::process::id(), &marker)?);
        }
        state.write(&layout)?;
        Ok(Self { layout, state: RefCell::new(state), children: RefCell::default() })
    }

    /// Starts a process whose log is named after it.
    pub(crate) fn spawn(
        &self,
        name: &str,
        program: &Path,
        args: Vec<OsString>,
        env: Vec<(String, String)>,
    ) -> Result<Child> {
        let log = self.layout.log(name);
        let child =
            Child::spawn(&ChildSpec { name: name.to_owned(), program: program.to_owned(), args, env, log })?;
        self.children.borrow_mut().push(child.clone());
        // Each of them is given files of the lab's directory.
        let marker = self.layout.root().to_string_lossy();
        let record = ProcessRecord::of(name, child.pid, &marker)
            .map_err(|error| child.failure(&format!("ended at once ({error})")))?;
        let mut state = self.state.borrow_mut();
        // A replica that was restarted has a new pid.
        state.processes.retain(|process| process.name != name);
        state.processes.push(record);
        state.write(&self.layout)?;
        Ok(child)
    }

    /// Writes down that the lab is up, and where.
    pub(crate) fn announce(&self, endpoints: &Endpoints) -> Result<()> {
        let mut state = self.state.borrow_mut();
        state.endpoints = Some(endpoints.clone());
        state.write(&self.layout)
    }

    /// Lets the processes called `name…` end in good order, for at most `patience`.
    pub(crate) async fn terminate(&self, prefix: &str, patience: Duration) {
        let children: Vec<Child> = self.matching(|child| child.name.starts_with(prefix));
        for child in &children {
            report(child.signal(Signal::TERM));
        }
        let all = futures::future::join_all(children.iter().map(Child::wait));
        if tokio::time::timeout(patience, all).await.is_err() {
            say(&format!("{prefix} did not end within {} s and is killed", patience.as_secs()));
        }
    }

    /// Kills all that still run, the last started first, and waits until they are gone.
    pub(crate) async fn kill_all(&self) {
        let children = self.matching(|_| true);
        for child in children.iter().rev() {
            report(child.signal(Signal::KILL));
        }
        futures::future::join_all(children.iter().map(Child::wait)).await;
        self.children.borrow_mut().clear();
    }

    fn matching(&self, wanted: impl Fn(&Child) -> bool) -> Vec<Child> {
        self.children.borrow().iter().filter(|child| !child.exited() && wanted(child)).cloned().collect()
    }
}

/// While stopping, an error is worth telling but not worth stopping for.
fn report(result: Result<()>) {
    if let Err(error) = result {
        say(&format!("{error:#}"));
    }
}
