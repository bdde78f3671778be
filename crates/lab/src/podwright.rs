//! Podwright in the lab: installed with the manifests that ship, run as processes under its own ServiceAccount, several
//! replicas behind one address. Never with more rights than an installation would have.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::net::TcpStream;

use crate::LabOptions;
use crate::balancer::Balancer;
use crate::controlplane::ControlPlane;
use crate::kubeconfig::{self, Credential};
use crate::layout::write_private;
use crate::manifests;
use crate::ports;
use crate::probe;
use crate::process::{Child, beside};
use crate::roster::Roster;
use crate::wait::eventually;

/// Where an installation puts Podwright.
pub const NAMESPACE: &str = "podwright-system";
/// Its ServiceAccount, and the name of its MutatingWebhookConfiguration.
pub const NAME: &str = "podwright";
const READY_TIMEOUT: Duration = Duration::from_mins(1);
const TOKEN_SECONDS: i64 = 30 * 24 * 3600;

/// The ports of one replica, the same for as long as the lab lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaPorts {
    /// `/metrics`
    pub metrics: u16,
    /// `/healthz` and `/readyz`
    pub health: u16,
    /// Admission, over TLS.
    pub webhook: u16,
}

/// The installed Podwright and its replicas.
pub(crate) struct Podwright {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(String, String)>,
    /// Whether it registers itself, and not somebody else it.
    registers: bool,
    pub(crate) ports: Vec<ReplicaPorts>,
    pub(crate) balancer: Balancer,
    children: Vec<Child>,
}

impl Podwright {
    /// Installs it and starts the replicas; [`Podwright::ready`] awaits them.
    pub(crate) async fn start(
        roster: &Roster,
        control_plane: &ControlPlane,
        program: PathBuf,
        options: &LabOptions,
    ) -> Result<Self> {
        let began = Instant::now();
        install(&control_plane.client).await.context("failed to install Podwright's manifests")?;
        let token = token(&control_plane.client).await?;
        let kubeconfig = roster.layout.podwright_kubeconfig();
        kubeconfig::write(
            &kubeconfig,
            &control_plane.server,
            &control_plane.ca,
            NAME,
            &Credential::Token(&token),
        )?;
        options.progress.done("Podwright's manifests and token", began);

        let mut args: Vec<OsString> = vec!["manager".into(), "--kubeconfig".into(), kubeconfig.into()];
        if let Some(config) = &options.config {
            let path = roster.layout.podwright_config();
            write_private(&path, config)?;
            args.extend(["--config".into(), path.into()]);
        }
        args.extend(options.args.iter().map(OsString::from));
        let ports = replica_ports(options.replicas)?;
        let balancer =
            Balancer::start(&ports.iter().map(|ports| (ports.webhook, ports.health)).collect::<Vec<_>>())
                .await?;
        let (env, registers) = (options.env.clone(), registers(options.config.as_deref())?);
        let mut podwright = Self { program, args, env, registers, ports, balancer, children: Vec::new() };
        for index in 0..options.replicas {
            let child = podwright.spawn(roster, index)?;
            podwright.children.push(child);
        }
        Ok(podwright)
    }

    fn spawn(&self, roster: &Roster, index: usize) -> Result<Child> {
        let ports = self.ports.get(index).with_context(|| format!("there is no replica {index}"))?;
        let name = replica_name(index);
        let mut args = self.args.clone();
        args.extend(
            [
                ("--metrics-bind-address", format!("127.0.0.1:{}", ports.metrics)),
                ("--health-probe-bind-address", format!("127.0.0.1:{}", ports.health)),
                ("--webhook-host", "127.0.0.1".to_owned()),
                ("--webhook-port", ports.webhook.to_string()),
                ("--webhook-url", format!("https://127.0.0.1:{}", self.balancer.port)),
            ]
            .into_iter()
            .flat_map(|(flag, value)| [OsString::from(flag), OsString::from(value)]),
        );
        let mut env =
            vec![("POD_NAMESPACE".to_owned(), NAMESPACE.to_owned()), ("POD_NAME".to_owned(), name.clone())];
        env.extend(self.env.clone());
        roster.spawn(&name, &self.program, args, env)
    }

    /// The process of a replica, running or not.
    pub(crate) fn child(&self, index: usize) -> Result<&Child> {
        self.children.get(index).with_context(|| format!("there is no replica {index}"))
    }

    /// Starts a replica that has ended, on its old ports.
    pub(crate) fn restart(&mut self, roster: &Roster, index: usize) -> Result<&Child> {
        ensure!(self.child(index)?.exited(), "{} still runs", replica_name(index));
        let child = self.spawn(roster, index)?;
        self.children[index] = child;
        Ok(&self.children[index])
    }

    /// Waits until every replica is ready and the API server knows where to send pods.
    pub(crate) async fn ready(&self, client: &Client) -> Result<()> {
        for (child, ports) in self.children.iter().zip(&self.ports) {
            let ready = eventually(READY_TIMEOUT, || async {
                if child.exited() {
                    return Ok(false);
                }
                ensure!(probe::is_ok(ports.health, "/readyz").await, "/readyz is not 200");
                Ok(true)
            })
            .await;
            match ready {
                Ok(true) => {}
                Ok(false) => return Err(child.failure("ended while it was starting")),
                Err(error) => return Err(child.failure(&format!("did not become ready ({error:#})"))),
            }
        }
        if !self.registers {
            return Ok(());
        }
        // Ready replicas listen, unless all that they do is control.
        let webhook = self.ports.first().context("no replica")?.webhook;
        match eventually(READY_TIMEOUT, || registered(client, webhook)).await {
            Ok(()) => Ok(()),
            Err(error) => {
                let child = self.child(0)?;
                Err(child.failure(&format!("did not register its webhooks ({error:#})")))
            }
        }
    }
}

fn replica_name(index: usize) -> String {
    format!("{NAME}-{index}")
}

fn replica_ports(replicas: usize) -> Result<Vec<ReplicaPorts>> {
    let ports = ports::free(replicas * 3)?;
    Ok(ports
        .chunks_exact(3)
        .map(|chunk| ReplicaPorts { metrics: chunk[0], health: chunk[1], webhook: chunk[2] })
        .collect())
}

/// The `podwright` binary: the one asked for, else `PODWRIGHT_BIN`, else beside this program.
pub(crate) fn find_program(asked: Option<&Path>) -> Result<PathBuf> {
    let named = asked.map(Path::to_owned).or_else(|| std::env::var_os("PODWRIGHT_BIN").map(PathBuf::from));
    if let Some(path) = named {
        ensure!(path.is_file(), "the podwright binary {} does not exist", path.display());
        return std::path::absolute(&path).context("not a usable path");
    }
    let exe = std::env::current_exe().context("failed to find this program's own path")?;
    match beside(&exe, NAME) {
        Some(path) => Ok(path),
        None => bail!(
            "there is no podwright binary beside {}; build it (cargo build -p podwright), name it with \
             PODWRIGHT_BIN, or start the lab without it (--without-podwright)",
            exe.display()
        ),
    }
}

/// Whether a manager with this config file fills in its registration.
fn registers(config: Option<&str>) -> Result<bool> {
    let Some(config) = config else { return Ok(true) };
    let config: serde_json::Value =
        serde_saphyr::from_str(config).context("Podwright's config is not YAML")?;
    Ok(config["webhook"]["register"] != false)
}

async fn install(client: &Client) -> Result<()> {
    for yaml in manifests::INSTALLATION {
        manifests::apply(client, NAMESPACE, yaml).await?;
    }
    Ok(())
}

async fn token(client: &Client) -> Result<String> {
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    Api::<ServiceAccount>::namespaced(client.clone(), NAMESPACE)
        .create_token_request(NAME, &PostParams::default(), &request)
        .await
        .context("failed to get a token for Podwright's ServiceAccount")?
        .status
        .and_then(|status| status.token)
        .context("the API server answered without a token")
}

/// Are the webhooks filled in? Where there is no registration, or nobody who could be called, there is nothing to wait for.
async fn registered(client: &Client, webhook: u16) -> Result<()> {
    if TcpStream::connect(("127.0.0.1", webhook)).await.is_err() {
        return Ok(());
    }
    let api = Api::<MutatingWebhookConfiguration>::all(client.clone());
    let Some(registration) = api.get_opt(NAME).await.context("failed to read the registration")? else {
        return Ok(());
    };
    let webhooks = registration.webhooks.unwrap_or_default();
    ensure!(!webhooks.is_empty(), "the MutatingWebhookConfiguration is empty");
    for webhook in webhooks {
        let trusted = webhook.client_config.ca_bundle.is_some_and(|bundle| !bundle.0.is_empty());
        ensure!(trusted, "webhook {} has no caBundle", webhook.name);
    }
    Ok(())
}
