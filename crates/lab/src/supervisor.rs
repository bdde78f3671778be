//! The lab's own thread: it starts every process, and they die when it ends.
//!
//! ```text
//! Lab ── Command ──▶ supervisor thread (one runtime) ──▶ control plane, nodes, Podwright
//! ```

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use rustix::process::Signal;
use tokio::sync::{mpsc, oneshot, watch};

use crate::LabOptions;
use crate::binaries;
use crate::controlplane::{self, ControlPlane};
use crate::layout::Layout;
use crate::nodes;
use crate::podwright::{Podwright, ReplicaPorts, find_program};
use crate::process::Child;
use crate::progress::say;
use crate::roster::Roster;
use crate::state::Endpoints;
use crate::wait::eventually;

/// How long Podwright may drain when the lab is stopped in good order.
const DRAIN: Duration = Duration::from_secs(20);
const NODES_TIMEOUT: Duration = Duration::from_mins(3);

/// What the lab is asked to do once it is up.
pub(crate) enum Command {
    Replica {
        index: usize,
        action: Action,
        reply: oneshot::Sender<Result<Child>>,
    },
    /// Podwright's replicas get their SIGTERM; all else is killed.
    Stop,
}

/// What can be done with a replica.
pub(crate) enum Action {
    Look,
    Start,
    Signal(Signal),
}

/// What the world outside needs to know of a lab that is up.
#[derive(Debug)]
pub(crate) struct Up {
    pub(crate) endpoints: Endpoints,
    pub(crate) replicas: Vec<ReplicaPorts>,
    pub(crate) balancer: Option<u16>,
}

/// The ends of the channels that the thread holds.
pub(crate) struct Channels {
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    pub(crate) up: oneshot::Sender<Result<Up>>,
    /// Why the lab is no longer whole.
    pub(crate) broken: watch::Sender<Option<String>>,
}

/// The body of the thread. The lock on the directory is given up when all is over.
pub(crate) fn run(layout: &Layout, options: &LabOptions, lock: File, channels: Channels) {
    let result = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start a runtime")
        .and_then(|runtime| Ok((runtime, Roster::new(layout.clone())?)));
    match result {
        Ok((runtime, roster)) => {
            runtime.block_on(supervise(&roster, options, channels));
            if let Err(error) = layout.remove_runtime_data() {
                say(&format!("{error:#}"));
            }
        }
        // Whoever does not listen any more does not need the answer.
        Err(error) => drop(channels.up.send(Err(error))),
    }
    drop(lock);
}

async fn supervise(roster: &Roster, options: &LabOptions, mut channels: Channels) {
    let started = tokio::select! {
        result = start(roster, options) => result,
        // The only thing that can come before we are up is that nobody wants the lab any more.
        _ = channels.commands.recv() => Err(anyhow!("the start was given up")),
    };
    match started {
        Ok(mut running) => {
            let up = running.up(roster);
            if channels.up.send(up).is_ok() {
                running.serve(roster, &mut channels.commands, &channels.broken).await;
            }
            roster.kill_all().await;
        }
        Err(error) => {
            roster.kill_all().await;
            drop(channels.up.send(Err(error)));
        }
    }
}

struct Running {
    control_plane: ControlPlane,
    podwright: Option<Podwright>,
}

async fn start(roster: &Roster, options: &LabOptions) -> Result<Running> {
    let progress = options.progress;
    let began = Instant::now();
    // What is missing is told before anything is started.
    let program = if options.podwright { Some(find_program(options.binary.as_deref())?) } else { None };
    let binaries = binaries::control_plane()?;
    let control_plane = controlplane::start(roster, &binaries, options.nodes, progress).await?;
    let client = &control_plane.client;
    let podwright = async {
        let Some(program) = program else { return Ok(None) };
        let podwright = Podwright::start(roster, &control_plane, program, options).await?;
        let since = Instant::now();
        podwright.ready(client).await?;
        progress.done(&format!("{} replica(s) of Podwright ready", options.replicas), since);
        Ok(Some(podwright))
    };
    let components = async {
        let since = Instant::now();
        control_plane.components_ready().await?;
        progress.done("kube-controller-manager and kube-scheduler", since);
        Ok(())
    };
    let work = async {
        tokio::try_join!(podwright, components, make_nodes(client, options), default_account(client))
    };
    let (podwright, ..) = tokio::select! {
        result = work => result?,
        error = control_plane.broken() => return Err(error),
    };
    progress.done("up", began);
    Ok(Running { control_plane, podwright })
}

async fn make_nodes(client: &Client, options: &LabOptions) -> Result<()> {
    let since = Instant::now();
    nodes::create_rotation(client, options.nodes).await?;
    nodes::await_ready(client, options.nodes, NODES_TIMEOUT).await?;
    options.progress.done(&format!("{} nodes ready", options.nodes), since);
    Ok(())
}

/// Without its ServiceAccount the namespace `default` takes no pods yet.
async fn default_account(client: &Client) -> Result<()> {
    await_account(client, "default").await
}

/// Waits for a namespace's default ServiceAccount.
pub(crate) async fn await_account(client: &Client, namespace: &str) -> Result<()> {
    let api = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    eventually(Duration::from_mins(1), || async {
        let found = api.get_opt("default").await.context("failed to read ServiceAccounts")?;
        ensure!(found.is_some(), "namespace {namespace} has no default ServiceAccount");
        Ok(())
    })
    .await
}

impl Running {
    fn up(&self, roster: &Roster) -> Result<Up> {
        let replicas = self.podwright.as_ref().map(|podwright| podwright.ports.clone()).unwrap_or_default();
        let endpoints = Endpoints {
            kubeconfig: roster.layout.kubeconfig().to_string_lossy().into_owned(),
            dashboard: None,
            metrics: replicas
                .iter()
                .map(|ports| format!("http://127.0.0.1:{}/metrics", ports.metrics))
                .collect(),
            webhook: replicas.iter().map(|ports| format!("https://127.0.0.1:{}", ports.webhook)).collect(),
        };
        roster.announce(&endpoints)?;
        Ok(Up {
            endpoints,
            replicas,
            balancer: self.podwright.as_ref().map(|podwright| podwright.balancer.port),
        })
    }

    /// Does what it is asked until it is asked to stop, or nobody is left to ask.
    async fn serve(
        &mut self,
        roster: &Roster,
        commands: &mut mpsc::UnboundedReceiver<Command>,
        broken: &watch::Sender<Option<String>>,
    ) {
        loop {
            let whole = broken.borrow().is_none();
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Replica { index, action, reply }) => {
                        // Whoever asked may have given up.
                        drop(reply.send(self.replica(roster, index, &action)));
                    }
                    Some(Command::Stop) => {
                        roster.terminate(crate::podwright::NAME, DRAIN).await;
                        return;
                    }
                    None => return,
                },
                error = self.control_plane.broken(), if whole => {
                    broken.send_replace(Some(format!("{error:#}")));
                }
            }
        }
    }

    fn replica(&mut self, roster: &Roster, index: usize, action: &Action) -> Result<Child> {
        let podwright = self.podwright.as_mut().context("the lab runs without Podwright")?;
        match action {
            Action::Start => podwright.restart(roster, index).cloned(),
            Action::Look => podwright.child(index).cloned(),
            Action::Signal(signal) => {
                let child = podwright.child(index)?;
                child.signal(*signal)?;
                Ok(child.clone())
            }
        }
    }
}
