//! Where these tests play: a lab with nodes of two architectures, and registries beside it.

use std::{collections::BTreeMap, future::Future, path::PathBuf};

use k8s_openapi::{
    ByteString,
    api::core::v1::{Event, Pod, Secret},
};
use kube::{
    Api, Client, Resource as _,
    api::{ListParams, ObjectMeta, PostParams, Request},
    client::Body,
};
use podwright_api::keys;
use podwright_lab::{
    Lab, NodeShape,
    registry::{Access, LocalRegistry, Proxy, TokenServer},
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell, oneshot};

use crate::labs::{in_namespace, soon, start};

/// How many proxies stand before the open registry, to misbehave one test each.
const PROXIES: usize = 10;

/// Registries of every kind. Their processes end with the thread that started them, so they have one of their own.
pub(super) struct Registries {
    /// Open to everybody.
    pub(super) open: LocalRegistry,
    /// Wants a password.
    pub(super) passwords: LocalRegistry,
    /// Wants a token.
    pub(super) tokens: LocalRegistry,
    /// Open, and for one test to be stopped.
    pub(super) frail: Mutex<LocalRegistry>,
    /// Before the open one.
    pub(super) proxies: Vec<Proxy>,
    /// Their thread ends with it.
    _thread: oneshot::Sender<()>,
}

impl Registries {
    async fn start(thread: oneshot::Sender<()>) -> anyhow::Result<Self> {
        let open = LocalRegistry::start(Access::Open).await?;
        let mut proxies = Vec::new();
        for _ in 0..PROXIES {
            proxies.push(Proxy::start(&open.address()).await?);
        }
        Ok(Self {
            passwords: open.beside(Access::Passwords).await?,
            tokens: open.beside(Access::Tokens(TokenServer::start().await?)).await?,
            frail: Mutex::new(LocalRegistry::start(Access::Open).await?),
            open,
            proxies,
            _thread: thread,
        })
    }

    /// Starts them on a thread that lives as long as they do.
    async fn on_their_thread() -> Self {
        let (send, receive) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let (thread, end) = oneshot::channel();
                let _ = send.send(Self::start(thread).await);
                let _ = end.await;
            });
        });
        receive.await.unwrap().unwrap_or_else(|error| panic!("the registries did not start: {error:#}"))
    }

    /// The settings by which they are reached.
    fn config(&self) -> BTreeMap<String, Value> {
        let frail = self.frail.try_lock().expect("nobody has it yet").address();
        let hosts = [self.open.address(), self.passwords.address(), self.tokens.address(), frail];
        let proxies = self.proxies.iter().map(Proxy::address);
        // The examples have images of Docker Hub.
        let docker_hub = ("docker.io".to_owned(), json!({"mirrors": [self.open.address()]}));
        let ours = hosts.into_iter().chain(proxies).map(|host| (host, json!({"insecure": true})));
        ours.chain([docker_hub]).collect()
    }
}

/// A lab with its registries.
pub(super) struct Ground {
    pub(super) lab: Lab,
    pub(super) registries: Registries,
}

impl Ground {
    async fn start(replicas: usize, settings: Value) -> Self {
        let registries = Registries::on_their_thread().await;
        let mut settings = settings;
        settings["registries"] = json!(registries.config());
        let config = json!({
            "architecture": settings,
            "leaderElection": {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"},
            // Well above how long lookups may take.
            "webhook": {"timeout": "10s"},
        });
        let lab = start(replicas, &config.to_string()).await;
        for index in 0..2 {
            let arm = NodeShape::new(format!("arm-{index}")).arch("arm64").zone(["lab-a", "lab-b"][index]);
            // As GKE taints them.
            lab.add_node(&arm.taint("kubernetes.io/arch", "arm64", "NoSchedule")).await.unwrap();
        }
        let ground = Self { lab, registries };
        ground.await_arm64().await;
        ground
    }

    /// Two replicas that hold pods back whose images are not known, for a while.
    pub(super) async fn gated() -> Self {
        Self::start(2, json!({"onUnknown": "Gate", "gate": {"deadline": "20s"}})).await
    }

    /// Waits until admission knows of both architectures.
    async fn await_arm64(&self) {
        let image = podwright_lab::registry::image("probe").platforms(["linux/arm64"]);
        let image = image.push(&self.registries.open).await.unwrap().by_tag();
        let client = self.lab.client().unwrap();
        let knows = || async {
            let answer = create(&client, "default", &pod("probe", &[&image]), true).await?;
            anyhow::ensure!(architectures(&answer.object) == ["arm64"], "{answer:?}");
            Ok(())
        };
        soon(knows).await.unwrap_or_else(|error| panic!("arm64 nodes are not known: {error:#}"));
    }
}

/// One replica that lets pods through whose images are not known. It waits longer for registries than by default, because the
/// machine may be busy.
pub(super) async fn ground() -> &'static Ground {
    static GROUND: OnceCell<Ground> = OnceCell::const_new();
    GROUND
        .get_or_init(|| {
            Ground::start(
                1,
                json!({"dockerConfigSecretName": "podwright-docker-config", "lookupTimeout": "4s"}),
            )
        })
        .await
}

/// Two replicas that hold such pods back, for a while.
pub(super) async fn gated() -> &'static Ground {
    static GROUND: OnceCell<Ground> = OnceCell::const_new();
    GROUND.get_or_init(Ground::gated).await
}

/// One replica that refuses what it cannot place, and reads no Secrets. It waits longer for registries than by default, too.
pub(super) async fn strict() -> &'static Ground {
    static GROUND: OnceCell<Ground> = OnceCell::const_new();
    let settings = json!({
        "onUnknown": "Deny", "onNoCommonPlatform": "Deny", "usePullSecrets": false, "lookupTimeout": "4s",
        "architectures": {
            "arm64": {"machineType": "m7g.large", "preference": 10}, "amd64": {"machineType": "m7i.large"},
        },
    });
    GROUND.get_or_init(|| Ground::start(1, settings)).await
}

/// Runs a test's body in a namespace of its own.
pub(super) async fn scene<'a, F: Future<Output = anyhow::Result<()>>>(
    ground: &'a Ground,
    prefix: &str,
    body: impl FnOnce(Scene<'a>) -> F,
) {
    in_namespace(&ground.lab, prefix, |client, namespace| body(Scene { ground, client, namespace })).await;
}

/// One test's namespace.
pub(super) struct Scene<'a> {
    pub(super) ground: &'a Ground,
    pub(super) client: Client,
    pub(super) namespace: String,
}

/// What the API server answers.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) object: Value,
    pub(super) warnings: Vec<String>,
}

/// Creates a pod and sees the warnings too.
pub(super) async fn create(
    client: &Client,
    namespace: &str,
    pod: &Value,
    dry_run: bool,
) -> anyhow::Result<Answer> {
    let params = PostParams { dry_run, ..PostParams::default() };
    let request =
        Request::new(Pod::url_path(&(), Some(namespace))).create(&params, serde_json::to_vec(pod)?)?;
    let response = client.send(request.map(Body::from)).await?;
    let status = response.status().as_u16();
    let warnings = response
        .headers()
        .get_all("warning")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .map(str::to_owned);
    let warnings = warnings.collect();
    let body = response.into_body().collect_bytes().await?;
    Ok(Answer { status, object: serde_json::from_slice(&body)?, warnings })
}

/// A pod with a container for each image.
pub(super) fn pod(name: &str, images: &[&str]) -> Value {
    let containers: Vec<Value> = images
        .iter()
        .enumerate()
        .map(|(index, image)| json!({"name": format!("c{index}"), "image": image, "imagePullPolicy": "IfNotPresent"}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 0},
    })
}

/// The architectures that a pod's required affinity leaves, of its first term.
pub(super) fn architectures(pod: &Value) -> Vec<String> {
    let expressions = terms(pod)[0]["matchExpressions"].as_array().cloned().unwrap_or_default();
    let named = expressions.iter().find(|one| one["key"] == keys::ARCH_LABEL);
    let values = named.and_then(|one| one["values"].as_array().cloned()).unwrap_or_default();
    values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

pub(super) fn terms(pod: &Value) -> &Value {
    &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
}

pub(super) fn tolerates_arm(pod: &Value) -> bool {
    let all = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    all.iter().any(|one| one["key"] == keys::ARCH_LABEL && one["value"] == "arm64")
}

pub(super) fn is_held(pod: &Value) -> bool {
    let gates = pod["spec"]["schedulingGates"].as_array().cloned().unwrap_or_default();
    gates.iter().any(|gate| gate["name"] == keys::ARCHITECTURE)
}

impl Scene<'_> {
    pub(super) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(super) async fn create(&self, pod: &Value) -> anyhow::Result<Answer> {
        let answer = create(&self.client, &self.namespace, pod, false).await?;
        anyhow::ensure!(answer.status == 201, "{answer:?}");
        Ok(answer)
    }

    pub(super) async fn try_out(&self, pod: &Value) -> anyhow::Result<Answer> {
        create(&self.client, &self.namespace, pod, true).await
    }

    pub(super) async fn get(&self, name: &str) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(self.pods().get(name).await?)?)
    }

    /// The architecture of the node on which the pod comes to run.
    pub(super) async fn lands_on(&self, name: &str) -> anyhow::Result<String> {
        soon(|| async {
            let pod = self.get(name).await?;
            anyhow::ensure!(pod["status"]["phase"] == "Running", "{name} does not run: {}", pod["status"]);
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
            Ok(if node.starts_with("arm-") { "arm64" } else { "amd64" }.to_owned())
        })
        .await
    }

    pub(super) async fn has_event(&self, pod: &str, reason: &str) -> anyhow::Result<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = events.list(&ListParams::default()).await?.items;
        let found = all.into_iter().find(|event| {
            event.reason.as_deref() == Some(reason) && event.involved_object.name.as_deref() == Some(pod)
        });
        found.and_then(|event| event.message).ok_or_else(|| anyhow::anyhow!("no event {reason} about {pod}"))
    }

    pub(super) async fn await_event(&self, pod: &str, reason: &str) -> anyhow::Result<String> {
        soon(|| self.has_event(pod, reason)).await
    }

    /// A pull secret in this namespace.
    pub(super) async fn secret(&self, name: &str, kind: &str, config: &str) -> anyhow::Result<()> {
        secret(&self.client, &self.namespace, name, kind, config).await
    }
}

/// A pull secret: `kind` is `dockerconfigjson` or `dockercfg`.
pub(super) async fn secret(
    client: &Client,
    namespace: &str,
    name: &str,
    kind: &str,
    config: &str,
) -> anyhow::Result<()> {
    let secret = Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        type_: Some(format!("kubernetes.io/{kind}")),
        data: Some([(format!(".{kind}"), ByteString(config.as_bytes().to_vec()))].into()),
        ..Secret::default()
    };
    Api::namespaced(client.clone(), namespace).create(&PostParams::default(), &secret).await?;
    Ok(())
}

/// The program under test.
pub(super) fn program() -> PathBuf {
    crate::labs::binary()
}
