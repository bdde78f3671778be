//! Architecture: the examples on nodes of two architectures, one of them tainted, with a registry on this machine.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{SOON, shown, stage::Stage};
use crate::{
    eventually,
    registry::{Access, LocalRegistry, image},
};

const DEPLOYMENT: &str = include_str!("../../../../examples/architecture/deployment.yaml");
const ARM64_ONLY: &str = include_str!("../../../../examples/architecture/arm64-only.yaml");
const AMD64_SIDECAR: &str = include_str!("../../../../examples/architecture/amd64-sidecar.yaml");
const NO_COMMON_PLATFORM: &str = include_str!("../../../../examples/architecture/no-common-platform.yaml");

/// A registry that stands in for Docker Hub, with the images of the examples. They have no content: nobody runs them.
pub(super) async fn registry() -> Result<LocalRegistry> {
    let registry = LocalRegistry::start(Access::Open).await?;
    for (name, tag, platforms) in [
        ("library/nginx", "1.29", &["linux/amd64", "linux/arm64", "linux/arm/v7", "linux/s390x"][..]),
        ("arm64v8/nginx", "1.29", &["linux/arm64"]),
        ("amd64/busybox", "1.37", &["linux/amd64"]),
    ] {
        image(name).tag(tag).platforms(platforms.iter().copied()).attested().push(&registry).await?;
    }
    Ok(registry)
}

/// The settings that make it stand in.
pub(super) fn config(registry: &LocalRegistry) -> String {
    let address = registry.address();
    let registries = json!({"docker.io": {"mirrors": [&address]}, &address: {"insecure": true}});
    format!("architecture: {}\n", json!({"registries": registries}))
}

pub(super) async fn play(stage: &Stage<'_>) -> Result<()> {
    stage.title("Architecture: pods go where their images can run");
    stage.command(
        "kubectl taint nodes -l kubernetes.io/arch=arm64 kubernetes.io/arch=arm64:NoSchedule   # as GKE does",
    );
    taint(stage, true).await?;
    let namespace = stage.lab.namespace("architecture").await?;
    stage.command("kubectl apply -f examples/architecture");
    for manifest in [DEPLOYMENT, ARM64_ONLY, AMD64_SIDECAR, NO_COMMON_PLATFORM] {
        stage.lab.apply(&namespace, manifest).await?;
    }
    let pods = running(stage, &namespace).await?;
    let mut table =
        vec![["pod", "node", "architecture", "tolerates arm64", "images offer"].map(str::to_owned).to_vec()];
    let mut right = true;
    for pod in &pods {
        let name = shown(pod.pointer("/metadata/name"));
        let node = Api::<Node>::all(stage.client.clone()).get(&shown(pod.pointer("/spec/nodeName"))).await?;
        let architecture = node.labels().get("kubernetes.io/arch").cloned().unwrap_or_default();
        let tolerates = pod["spec"]["tolerations"].to_string().contains("kubernetes.io/arch");
        right &= match name.as_str() {
            "arm64-only" => architecture == "arm64" && tolerates,
            "amd64-sidecar" => architecture == "amd64" && !tolerates,
            _ => tolerates,
        };
        let record = pod.pointer("/metadata/annotations/podwright.io~1architecture").and_then(Value::as_str);
        let record: Value = serde_json::from_str(record.context("a pod without a record")?)?;
        table.push(vec![name, node.name_any(), architecture, tolerates.to_string(), offers(&record)]);
    }
    stage.table(&table);
    stage.check(
        "each pod runs where all its images do; those that run on arm64 are let in there, and only those",
        right,
    );
    disjoint(stage, &namespace).await?;
    taint(stage, false).await
}

async fn disjoint(stage: &Stage<'_>, namespace: &str) -> Result<()> {
    stage.command("kubectl events --for pod/no-common-platform");
    let events: Api<Event> = Api::namespaced(stage.client.clone(), namespace);
    let told = eventually(SOON, || async {
        let all = events.list(&ListParams::default()).await?.items;
        let ours = all.into_iter().find(|event| event.reason.as_deref() == Some("NoCommonPlatform"));
        ours.and_then(|event| event.message).context("no event yet")
    })
    .await?;
    println!("  {}", told.replace("; image", "\n    image"));
    let pod = Api::<Pod>::namespaced(stage.client.clone(), namespace).get("no-common-platform").await?;
    let waits = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none());
    stage.check(
        "images without a common platform wait, and an event says what each offers",
        waits && told.contains("arm64v8/nginx:1.29 offers linux/arm64"),
    );
    Ok(())
}

fn offers(record: &Value) -> String {
    let architectures = |platforms: &Value| {
        let all = platforms.as_array().into_iter().flatten().filter_map(Value::as_str);
        all.map(|one| one.trim_start_matches("linux/")).collect::<Vec<_>>().join(",")
    };
    let images = record["images"].as_object().into_iter().flatten();
    images
        .map(|(image, platforms)| format!("{image}: {}", architectures(platforms)))
        .collect::<Vec<_>>()
        .join("  ")
}

/// All pods but the one that waits.
async fn running(stage: &Stage<'_>, namespace: &str) -> Result<Vec<Value>> {
    let api: Api<Pod> = Api::namespaced(stage.client.clone(), namespace);
    eventually(SOON, || async {
        let pods = api.list(&ListParams::default().fields("status.phase=Running")).await?.items;
        ensure!(pods.len() == 5, "{} of 5 pods run", pods.len());
        pods.into_iter().map(|pod| Ok(serde_json::to_value(pod)?)).collect()
    })
    .await
}

/// Taints the arm64 nodes by their architecture, or takes that back for the scenes to come.
async fn taint(stage: &Stage<'_>, on: bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    for node in nodes.list(&ListParams::default().labels("kubernetes.io/arch=arm64")).await? {
        let taint = json!({"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"});
        let taints = if on { json!([taint]) } else { Value::Null };
        let change = json!({"spec": {"taints": taints}});
        nodes.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(change)).await?;
    }
    Ok(())
}
