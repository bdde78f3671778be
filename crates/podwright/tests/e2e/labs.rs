//! The labs that tests share, and small things that they all need.

use std::{future::Future, path::PathBuf, time::Duration};

use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use podwright_lab::{Lab, LabOptions, eventually};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// How long anything that should happen soon may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// One replica with the default settings and VMs on all nodes.
pub(crate) async fn plain() -> &'static Lab {
    static LAB: OnceCell<Lab> = OnceCell::const_new();
    let config =
        "peerPods: {capacity: {default: 10, nodes: [{selector: {matchLabels: {pool: big}}, vms: 20}]}}";
    LAB.get_or_init(|| start(1, config)).await
}

/// One replica with every peer-pod option turned away from its default.
pub(crate) async fn options() -> &'static Lab {
    static LAB: OnceCell<Lab> = OnceCell::const_new();
    let config = "peerPods:\n  mode: shrink\n  sizing: effective\n  overrideAnnotations: false\n  downwardApi: literal\n  \
                  runtimeClasses: [kata-remote, kata-two]\n";
    LAB.get_or_init(|| start(1, config)).await
}

/// Starts a lab with the binary under test.
pub(crate) async fn start(replicas: usize, config: &str) -> Lab {
    let lab = start_with(replicas, config, &[]).await;
    for class in ["kata-remote", "kata-two"] {
        let text = include_str!("../../../../examples/peer-pods/runtimeclass.yaml")
            .replace("name: kata-remote", &format!("name: {class}"));
        lab.apply("default", &text).await.unwrap();
    }
    lab
}

/// Starts a lab with the binary under test and further arguments.
pub(crate) async fn start_with(replicas: usize, config: &str, args: &[&str]) -> Lab {
    let options = LabOptions {
        nodes: 3,
        replicas,
        config: Some(config.to_owned()),
        args: args.iter().map(|word| (*word).to_owned()).collect(),
        binary: Some(binary()),
        ..LabOptions::default()
    };
    Lab::start(options).await.unwrap_or_else(|error| panic!("the lab did not start: {error:#}"))
}

pub(crate) fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_podwright"))
}

/// Runs a test's body in a namespace of its own, and prints the cluster's state if it fails. If it does not, what it leaves behind
/// is cleared away, so that crash loops and rollouts do not keep the machine busy for the tests that follow.
pub(crate) async fn in_namespace<F: Future<Output = anyhow::Result<()>>>(
    lab: &Lab,
    prefix: &str,
    body: impl FnOnce(Client, String) -> F,
) {
    let namespace = lab.namespace(prefix).await.unwrap();
    if let Err(error) = body(lab.client().unwrap(), namespace.clone()).await {
        panic!("{error:#}\n{}", lab.dump(&namespace).await);
    }
    // On a thread of its own, which nobody waits for. A lab that is gone by then needs no clearing.
    let config = lab.client_config();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _ = runtime.block_on(clear(config, &namespace));
    });
}

/// Deletes a namespace and the nodes that are named after it.
async fn clear(config: kube::Config, namespace: &str) -> kube::Result<()> {
    let client = Client::try_from(config)?;
    Api::<Namespace>::all(client.clone()).delete(namespace, &DeleteParams::default()).await?;
    // From now on no pod can be created there. Those that are there need not wait for a kubelet, whose node goes too.
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
    let nodes: Api<Node> = Api::all(client);
    for node in nodes.list_metadata(&ListParams::default()).await?.items {
        let name = node.name_any();
        if name.strip_prefix(namespace).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
            nodes.delete(&name, &DeleteParams::default()).await?;
        }
    }
    Ok(())
}

/// A peer pod that no scheduler looks at.
pub(crate) fn peer_pod(name: &str, containers: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"runtimeClassName": "kata-remote", "schedulerName": "nobody", "containers": containers},
    }))
    .unwrap()
}

pub(crate) async fn create(client: &Client, namespace: &str, pod: &Pod) -> Result<Value, kube::Error> {
    let created =
        Api::<Pod>::namespaced(client.clone(), namespace).create(&PostParams::default(), pod).await?;
    serde_json::to_value(created).map_err(kube::Error::SerdeError)
}

/// Waits until the API server has heard of a quota, which it does a moment after it was stored: whether it has room for a pod or not.
pub(crate) async fn await_quota(client: &Client, namespace: &str, has_room: bool) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut probe = peer_pod("probe", &json!([{"name": "a", "image": "x"}]));
    probe.spec.as_mut().unwrap().runtime_class_name = None;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    soon(|| async {
        match pods.create(&dry, &probe).await {
            Ok(_) => anyhow::ensure!(has_room, "pods are let in"),
            Err(kube::Error::Api(status)) if status.message.contains("quota") => {
                anyhow::ensure!(!has_room, "{}", status.message);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    })
    .await
}

/// Waits until the condition holds, soon.
pub(crate) async fn soon<T, F: Future<Output = anyhow::Result<T>>>(
    check: impl FnMut() -> F,
) -> anyhow::Result<T> {
    eventually(SOON, check).await
}

/// Waits until an event of a namespace says so, soon.
pub(crate) async fn await_event(
    client: &Client,
    namespace: &str,
    reason: &str,
    part: &str,
) -> anyhow::Result<()> {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    soon(|| async {
        let all = events.list(&ListParams::default()).await?.items;
        let told = all.iter().any(|event| {
            event.reason.as_deref() == Some(reason)
                && event.message.as_deref().unwrap_or_default().contains(part)
        });
        anyhow::ensure!(told, "no event {reason} that says {part:?}");
        Ok(())
    })
    .await
}
