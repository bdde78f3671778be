//! etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok: their start and their health.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use http::Request;
use kube::Client;

use crate::binaries::Binaries;
use crate::kubeconfig;
use crate::layout::tail;
use crate::pki::Pki;
use crate::process::Child;
use crate::progress::Progress;
use crate::roster::Roster;
use crate::settings::{Ports, Settings};
use crate::wait::eventually;

const READY_TIMEOUT: Duration = Duration::from_mins(1);
/// How often a start that lost the race for a port is tried again.
const ATTEMPTS: usize = 3;

/// The running control plane.
pub(crate) struct ControlPlane {
    /// In the order of their start.
    pub(crate) children: Vec<Child>,
    /// The administrator's client, on the lab's own runtime.
    pub(crate) client: Client,
    /// The API server's address.
    pub(crate) server: String,
    /// The CA of the API server, PEM.
    pub(crate) ca: String,
    components: Vec<(Child, Client)>,
}

/// What all steps of the start need.
struct Start<'a> {
    roster: &'a Roster,
    binaries: &'a Binaries,
    pki: Pki,
    node_count: usize,
}

/// Starts everything; returns when the API server answers. [`ControlPlane::components_ready`] awaits the rest.
pub(crate) async fn start(
    roster: &Roster,
    binaries: &Binaries,
    node_count: usize,
    progress: Progress,
) -> Result<ControlPlane> {
    let layout = &roster.layout;
    let pki = Pki::create(&layout.run().join("pki")).context("failed to make the lab's certificates")?;
    let start = Start { roster, binaries, pki, node_count };
    for attempt in 1.. {
        match start.once(progress).await {
            Err(error) if attempt < ATTEMPTS && start.lost_a_port() => {
                progress.note(&format!("a port was taken meanwhile; starting anew ({error})"));
                roster.kill_all().await;
                layout.remove_logs()?;
                fs::create_dir_all(layout.logs()).context("failed to create the directory for logs")?;
            }
            result => return result,
        }
    }
    bail!("no attempt was made")
}

impl Start<'_> {
    async fn once(&self, progress: Progress) -> Result<ControlPlane> {
        let layout = &self.roster.layout;
        let settings =
            Settings { layout, pki: &self.pki, ports: Ports::free()?, node_count: self.node_count };
        let data = settings.etcd_data();
        if data.exists() {
            fs::remove_dir_all(&data).context("failed to remove the data of a failed start")?;
        }
        settings.write()?;

        let began = Instant::now();
        let programs = self.binaries;
        let etcd = self.spawn("etcd", &programs.etcd, settings.etcd())?;
        let apiserver = self.spawn("kube-apiserver", &programs.apiserver, settings.apiserver())?;
        let client = kubeconfig::client(kubeconfig::client_config(&layout.kubeconfig()).await?)?;
        await_answer(&client, "/readyz", &[&etcd, &apiserver]).await?;
        progress.done("etcd and kube-apiserver", began);

        let controllers = self.spawn(
            "kube-controller-manager",
            &programs.controller_manager,
            settings.controller_manager(),
        )?;
        let scheduler = self.spawn("kube-scheduler", &programs.scheduler, settings.scheduler())?;
        let kwok = self.spawn("kwok", &programs.kwok, settings.kwok())?;
        let components = vec![
            (controllers.clone(), self.probe_client(settings.ports.controllers)?),
            (scheduler.clone(), self.probe_client(settings.ports.scheduler)?),
        ];
        Ok(ControlPlane {
            children: vec![etcd, apiserver, controllers, scheduler, kwok],
            client,
            server: settings.server(),
            ca: self.pki.ca.clone(),
            components,
        })
    }

    /// Did a process of the last attempt find its port taken?
    fn lost_a_port(&self) -> bool {
        ["etcd", "kube-apiserver"]
            .iter()
            .any(|name| tail(&self.roster.layout.log(name), 50).contains("address already in use"))
    }

    fn spawn(&self, name: &str, program: &Path, args: Vec<OsString>) -> Result<Child> {
        self.roster.spawn(name, program, args, Vec::new())
    }

    /// A client without credentials: health is for everybody.
    fn probe_client(&self, port: u16) -> Result<Client> {
        let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse()?);
        config.root_cert = Some(vec![pem_contents(&self.pki.ca)?]);
        kubeconfig::client(config)
    }
}

impl ControlPlane {
    /// Waits until controllers and scheduler are healthy.
    pub(crate) async fn components_ready(&self) -> Result<()> {
        for (child, client) in &self.components {
            await_answer(client, "/healthz", &[child]).await?;
        }
        Ok(())
    }

    /// Waits until one of the processes ends by itself, which none should.
    pub(crate) async fn broken(&self) -> anyhow::Error {
        let ends = self.children.iter().map(|child| {
            Box::pin(async move {
                child.wait().await;
                child.failure("has ended")
            })
        });
        futures::future::select_all(ends).await.0
    }
}

/// Waits for a 2xx, or for one of the processes to end.
async fn await_answer(client: &Client, path: &str, children: &[&Child]) -> Result<()> {
    let last = children.last().context("nobody to wait for")?;
    let healthy = eventually(READY_TIMEOUT, || async {
        if children.iter().any(|child| child.exited()) {
            return Ok(false);
        }
        let request = Request::get(path).body(Vec::new()).context("not a path")?;
        client.request_text(request).await.map(|_| true).map_err(anyhow::Error::from)
    })
    .await;
    if let Some(child) = children.iter().find(|child| child.exited()) {
        return Err(child.failure("ended while it was starting"));
    }
    match healthy {
        Ok(_) => Ok(()),
        Err(error) => Err(last.failure(&format!("did not become healthy ({error:#})"))),
    }
}

fn pem_contents(pem: &str) -> Result<Vec<u8>> {
    use base64::Engine as _;
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    base64::engine::general_purpose::STANDARD.decode(body).context("a certificate that is not PEM")
}
