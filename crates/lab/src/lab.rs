//! The lab as a value: start it, use it, drop it.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot, watch};

use crate::dump;
use crate::kubeconfig;
use crate::layout::Layout;
use crate::manifests;
use crate::nodes::{self, NodeShape};
use crate::podwright::ReplicaPorts;
use crate::probe;
use crate::process::Child;
use crate::progress::{Progress, say};
use crate::state::{self, Claim, Endpoints};
use crate::supervisor::{self, Action, Channels, Command, Up};
use crate::wait::eventually;

/// What kind of lab to start.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Where it keeps its files; a directory of its own that goes with it if none is given.
    pub dir: Option<PathBuf>,
    /// How many fake nodes of the rotation to create.
    pub nodes: usize,
    /// Whether Podwright is installed and run.
    pub podwright: bool,
    /// How many Podwrights run behind the one webhook address.
    pub replicas: usize,
    /// The text of Podwright's config file.
    pub config: Option<String>,
    /// Further arguments of `podwright manager`.
    pub args: Vec<String>,
    /// Further environment of `podwright manager`.
    pub env: Vec<(String, String)>,
    /// The `podwright` binary; else `PODWRIGHT_BIN`, else the one beside this program.
    pub binary: Option<PathBuf>,
    /// What to tell on stderr.
    pub progress: Progress,
}

impl Default for LabOptions {
    fn default() -> Self {
        Self {
            dir: None,
            nodes: 10,
            podwright: true,
            replicas: 1,
            config: None,
            args: Vec::new(),
            env: Vec::new(),
            binary: None,
            progress: Progress::Quiet,
        }
    }
}

/// A running lab. Dropping it kills all its processes; [`Lab::stop`] lets Podwright drain first.
#[derive(Debug)]
pub struct Lab {
    layout: Layout,
    up: Up,
    config: kube::Config,
    commands: mpsc::UnboundedSender<Command>,
    broken: watch::Receiver<Option<String>>,
    thread: Option<JoinHandle<()>>,
    own_dir: Option<TempDir>,
}

impl Lab {
    /// Starts a lab and returns when it is usable: nodes ready, Podwright ready and registered.
    ///
    /// The first start on a machine builds the control plane, which takes minutes.
    pub async fn start(options: LabOptions) -> Result<Self> {
        ensure!(!options.podwright || options.replicas > 0, "Podwright needs at least one replica");
        let own_dir = if options.dir.is_none() {
            let dir = tempfile::Builder::new().prefix("podwright-lab-").tempdir();
            Some(dir.context("failed to make a temporary directory")?)
        } else {
            None
        };
        let given = options.dir.as_deref();
        let root = given.or_else(|| own_dir.as_ref().map(TempDir::path)).context("no directory")?.to_owned();
        let layout = Layout::create(&root)?;
        let lock = match state::claim(&layout)? {
            Claim::Ours(lock) => lock,
            Claim::Running(_) | Claim::Busy => bail!("a lab runs in {} already", root.display()),
        };
        layout.remove_logs()?;
        // The claim has cleared the directory.
        let layout = Layout::create(&root)?;

        let (commands, receive_commands) = mpsc::unbounded_channel();
        let (send_up, up) = oneshot::channel();
        let (send_broken, broken) = watch::channel(None);
        let channels = Channels { commands: receive_commands, up: send_up, broken: send_broken };
        let thread = std::thread::Builder::new()
            .name("podwright-lab".to_owned())
            .spawn({
                let layout = layout.clone();
                move || supervisor::run(&layout, &options, lock, channels)
            })
            .context("failed to start the lab's thread")?;
        let up = match up.await.context("the lab's thread ended early") {
            Ok(Ok(up)) => up,
            Ok(Err(error)) | Err(error) => return Err(keep_logs(own_dir, error)),
        };
        let config = kubeconfig::client_config(&layout.kubeconfig()).await?;
        Ok(Self { layout, up, config, commands, broken, thread: Some(thread), own_dir })
    }

    /// The lab's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.layout.root()
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig()
    }

    /// The kubeconfig that Podwright runs with: its ServiceAccount's token.
    #[must_use]
    pub fn podwright_kubeconfig(&self) -> PathBuf {
        self.layout.podwright_kubeconfig()
    }

    /// The log of a process: `kube-apiserver`, `podwright-0`, …; `audit` is the API server's audit log.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.layout.log(name)
    }

    /// How to reach the lab.
    #[must_use]
    pub fn endpoints(&self) -> &Endpoints {
        &self.up.endpoints
    }

    /// The address in front of all replicas, which the API server calls; none without Podwright.
    #[must_use]
    pub fn webhook_url(&self) -> Option<String> {
        self.up.balancer.map(|port| format!("https://127.0.0.1:{port}"))
    }

    /// The administrator's settings, for clients that need something special.
    #[must_use]
    pub fn client_config(&self) -> kube::Config {
        self.config.clone()
    }

    /// A new client with the administrator's rights, for the runtime that this is called on.
    pub fn client(&self) -> Result<Client> {
        kubeconfig::client(self.client_config())
    }

    /// A fresh namespace whose name begins with `prefix`, ready to take pods.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        let client = self.client()?;
        let namespace = Namespace {
            metadata: ObjectMeta { generate_name: Some(format!("{prefix}-")), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        let name = Api::<Namespace>::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .context("failed to create a namespace")?
            .metadata
            .name
            .context("a namespace without a name")?;
        supervisor::await_account(&client, &name).await?;
        Ok(name)
    }

    /// Applies manifests (YAML, one or more documents) as the administrator.
    pub async fn apply(&self, namespace: &str, yaml: &str) -> Result<()> {
        manifests::apply(&self.client()?, namespace, yaml).await
    }

    /// Adds one node, and waits until all nodes take pods.
    pub async fn add_node(&self, shape: &NodeShape) -> Result<()> {
        let client = self.client()?;
        nodes::create(&client, shape).await?;
        nodes::await_ready(&client, 1, Duration::from_secs(30)).await
    }

    /// How many replicas of Podwright there are.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.up.replicas.len()
    }

    /// One replica of Podwright, to be stopped and started by tests.
    pub fn replica(&self, index: usize) -> Result<Replica<'_>> {
        let ports = *self.up.replicas.get(index).with_context(|| format!("there is no replica {index}"))?;
        Ok(Replica { lab: self, index, ports })
    }

    /// The state of a namespace and of the lab, for the message of a test that failed.
    pub async fn dump(&self, namespace: &str) -> String {
        match self.client() {
            Ok(client) => dump::dump(&client, &self.layout, namespace).await,
            Err(error) => format!("{error:#}"),
        }
    }

    /// Waits until a process of the control plane ends by itself, and says which and why.
    pub async fn broken(&self) -> String {
        let mut broken = self.broken.clone();
        match broken.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => "the lab's thread has ended".to_owned(),
        }
    }

    /// Stops in good order: Podwright gets its SIGTERM and the time to drain, the rest is killed.
    pub async fn stop(mut self) -> Result<()> {
        // A thread that is gone has stopped everything already.
        drop(self.commands.send(Command::Stop));
        if let Some(thread) = self.thread.take() {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            ensure!(matches!(joined, Ok(Ok(()))), "the lab's thread did not end in good order");
        }
        Ok(())
    }

    async fn ask(&self, index: usize, action: Action) -> Result<Child> {
        let (reply, answer) = oneshot::channel();
        let sent = self.commands.send(Command::Replica { index, action, reply });
        ensure!(sent.is_ok(), "the lab has ended");
        answer.await.context("the lab has ended")?
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // The thread ends when nobody can ask it for anything any more.
        let (closed, _) = mpsc::unbounded_channel();
        self.commands = closed;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            say("the lab's thread panicked");
        }
        if std::thread::panicking()
            && let Some(dir) = self.own_dir.take()
        {
            say(&format!("the logs are kept in {}", dir.keep().join("logs").display()));
        }
    }
}

/// The error already holds the end of the log that matters; the rest is kept for who wants to look.
fn keep_logs(own_dir: Option<TempDir>, error: anyhow::Error) -> anyhow::Error {
    match own_dir {
        Some(dir) => error.context(format!("the logs are kept in {}", dir.keep().join("logs").display())),
        None => error,
    }
}

/// One Podwright of the lab.
#[derive(Clone, Copy, Debug)]
pub struct Replica<'a> {
    lab: &'a Lab,
    index: usize,
    ports: ReplicaPorts,
}

impl Replica<'_> {
    /// Its ports, the same after each restart.
    #[must_use]
    pub fn ports(&self) -> ReplicaPorts {
        self.ports
    }

    /// The pid of its current or last process.
    pub async fn pid(&self) -> Result<u32> {
        Ok(self.lab.ask(self.index, Action::Look).await?.pid)
    }

    /// Sends SIGTERM and waits for the end; `None` when its status is not known.
    pub async fn terminate(&self) -> Result<Option<ExitStatus>> {
        Ok(self.lab.ask(self.index, Action::Signal(Signal::TERM)).await?.wait().await)
    }

    /// Sends SIGKILL and waits for the end.
    pub async fn kill(&self) -> Result<()> {
        self.lab.ask(self.index, Action::Signal(Signal::KILL)).await?.wait().await;
        Ok(())
    }

    /// Starts it anew on its old ports; it must have ended. [`Replica::await_ready`] awaits it.
    pub async fn start(&self) -> Result<()> {
        self.lab.ask(self.index, Action::Start).await?;
        Ok(())
    }

    /// Is its `/readyz` 200?
    pub async fn is_ready(&self) -> bool {
        probe::is_ok(self.ports.health, "/readyz").await
    }

    /// Waits until its `/readyz` is 200.
    pub async fn await_ready(&self, timeout: Duration) -> Result<()> {
        eventually(timeout, || async {
            ensure!(self.is_ready().await, "replica {} is not ready", self.index);
            Ok(())
        })
        .await
    }
}
