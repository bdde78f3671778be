//! The labs that tests share, and small things that they all need.

use std::{future::Future, path::PathBuf, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::PostParams};
use podwright_lab::{Lab, LabOptions, eventually};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// How long anything that should happen soon may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

static PLAIN: OnceCell<Lab> = OnceCell::const_new();

/// One replica with the default settings and VMs on all nodes.
pub(crate) async fn plain() -> &'static Lab {
    let config =
        "peerPods: {capacity: {default: 10, nodes: [{selector: {matchLabels: {pool: big}}, vms: 20}]}}";
    PLAIN.get_or_init(|| start(1, config)).await
}

/// The same, once it has been started.
pub(crate) fn plain_now() -> &'static Lab {
    PLAIN.get().expect("a test of this lab runs")
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

/// Runs a test's body in a namespace of its own, and prints the cluster's state if it fails.
pub(crate) async fn in_namespace<F: Future<Output = anyhow::Result<()>>>(
    lab: &'static Lab,
    prefix: &str,
    body: impl FnOnce(Client, String) -> F,
) {
    let namespace = lab.namespace(prefix).await.unwrap();
    if let Err(error) = body(lab.client().unwrap(), namespace.clone()).await {
        panic!("{error:#}\n{}", lab.dump(&namespace).await);
    }
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

/// Waits until the condition holds, soon.
pub(crate) async fn soon<T, F: Future<Output = anyhow::Result<T>>>(
    check: impl FnMut() -> F,
) -> anyhow::Result<T> {
    eventually(SOON, check).await
}
