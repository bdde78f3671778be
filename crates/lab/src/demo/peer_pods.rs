//! Peer pods: what was asked for, what is stored, what the node is charged, and how many VMs nodes offer.

use std::time::Instant;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{SOON, shown, stage::Stage};
use crate::{eventually, manifests, progress};

const RUNTIME_CLASS: &str = include_str!("../../../../examples/peer-pods/runtimeclass.yaml");
const POD: &str = include_str!("../../../../examples/peer-pods/pod.yaml");
const DEPLOYMENT: &str = include_str!("../../../../examples/peer-pods/deployment.yaml");
const VM: &str = "kata.peerpods.io/vm";
const VCPUS: &str = "io.katacontainers.config.hypervisor.default_vcpus";
const MEMORY: &str = "io.katacontainers.config.hypervisor.default_memory";
const GPUS: &str = "io.katacontainers.config.hypervisor.default_gpus";

pub(super) async fn play(stage: &Stage<'_>) -> Result<()> {
    stage.title("Peer pods: a pod that runs in a VM of its own is accounted as a VM");
    let namespace = stage.lab.namespace("peer-pods").await?;
    a_pod(stage, &namespace).await?;
    a_deployment(stage, &namespace).await?;
    node_capacity(stage).await?;
    a_zeroed_node(stage).await
}

async fn a_pod(stage: &Stage<'_>, namespace: &str) -> Result<()> {
    stage.command("kubectl apply -f examples/peer-pods/runtimeclass.yaml -f examples/peer-pods/pod.yaml");
    stage.lab.apply(namespace, RUNTIME_CLASS).await?;
    stage.lab.apply(namespace, POD).await?;
    let before = serde_json::to_value(&manifests::parse(POD)?[0])?;
    let after = running(stage, namespace, "nginx").await?;
    let resources = "/spec/containers/0/resources";
    let rows = [
        ("requests", format!("{resources}/requests")),
        ("limits", format!("{resources}/limits")),
        ("overhead", "/spec/overhead".to_owned()),
        ("annotation default_vcpus", format!("/metadata/annotations/{VCPUS}")),
        ("annotation default_memory", format!("/metadata/annotations/{MEMORY}")),
        ("QoS class", "/status/qosClass".to_owned()),
        ("runs on", "/spec/nodeName".to_owned()),
    ];
    let mut table = vec![["", "as written", "as stored"].map(str::to_owned).to_vec()];
    for (name, at) in rows {
        table.push(vec![name.to_owned(), shown(before.pointer(&at)), shown(after.pointer(&at))]);
    }
    stage.table(&table);
    stage.check(
        "no cpu and no memory is left on the container, one VM is",
        after.pointer(resources) == Some(&json!({"requests": {VM: "1"}, "limits": {VM: "1"}})),
    );
    stage.check(
        "the node is charged the class's overhead",
        after["spec"]["overhead"] == json!({"cpu": "250m", "memory": "120Mi"}),
    );
    let annotations = &after["metadata"]["annotations"];
    stage.check(
        "the VM is sized by the limits: 1 vCPU, 2048 MiB",
        annotations[VCPUS] == "1" && annotations[MEMORY] == "2048",
    );
    Ok(())
}

async fn a_deployment(stage: &Stage<'_>, namespace: &str) -> Result<()> {
    stage.command("kubectl apply -f examples/peer-pods/deployment.yaml");
    stage.lab.apply(namespace, DEPLOYMENT).await?;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), namespace);
    let pods = eventually(SOON, || async {
        let all = pods
            .list(&ListParams::default().labels("app=inference").fields("status.phase=Running"))
            .await?
            .items;
        ensure!(all.len() == 3, "{} pods run", all.len());
        Ok(all)
    })
    .await?;
    let mut table = vec![["pod", "node", "containers", "vCPUs", "MiB", "GPUs"].map(str::to_owned).to_vec()];
    let mut right = true;
    for pod in pods {
        let pod = serde_json::to_value(pod)?;
        let annotations = &pod["metadata"]["annotations"];
        let containers = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
        right &= annotations[VCPUS] == "4" && annotations[MEMORY] == "6208" && annotations[GPUS] == "1";
        table.push(vec![
            shown(pod.pointer("/metadata/name")),
            shown(pod.pointer("/spec/nodeName")),
            format!("{containers} and 1 init"),
            shown(annotations.get(VCPUS)),
            shown(annotations.get(MEMORY)),
            shown(annotations.get(GPUS)),
        ]);
    }
    stage.table(&table);
    stage.check("each VM is sized by all containers together: 4 vCPUs, 6208 MiB, 1 GPU", right);
    Ok(())
}

async fn node_capacity(stage: &Stage<'_>) -> Result<()> {
    stage.command("kubectl annotate node node-000 podwright.io/peer-pod-vms=3");
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let annotation = json!({"metadata": {"annotations": {"podwright.io/peer-pod-vms": "3"}}});
    nodes.patch("node-000", &PatchParams::default(), &Patch::Merge(annotation)).await?;
    let all = eventually(SOON, || async {
        let all = nodes.list(&ListParams::default()).await?.items;
        ensure!(
            all.iter().all(|node| vms(node) == Some(wanted(node))),
            "not all nodes offer what they should"
        );
        Ok(all)
    })
    .await?;
    let mut table = vec![["node", "cpu", "type", "VMs", "by"].map(str::to_owned).to_vec()];
    for node in all.iter().take(4) {
        let cpu =
            node.status.as_ref().and_then(|status| status.capacity.as_ref()).and_then(|all| all.get("cpu"));
        let reason = match (node.name_any().as_str(), node.labels().get("type").map(String::as_str)) {
            ("node-000", _) => "its annotation",
            (_, Some("spot")) => "the selector type=spot",
            _ => "the default",
        };
        table.push(vec![
            node.name_any(),
            cpu.map(|cpu| cpu.0.clone()).unwrap_or_default(),
            node.labels().get("type").cloned().unwrap_or_default(),
            vms(node).map(|vms| vms.to_string()).unwrap_or_default(),
            reason.to_owned(),
        ]);
    }
    stage.table(&table);
    let right = all.iter().all(|node| vms(node) == Some(wanted(node)));
    stage.check("all nodes offer VMs: by annotation, by selector, by default", right);
    Ok(())
}

async fn a_zeroed_node(stage: &Stage<'_>) -> Result<()> {
    stage.say("A kubelet that starts anew zeroes every extended resource of its node:");
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let zero = json!({"status": {"capacity": {VM: "0"}, "allocatable": {VM: "0"}}});
    let zeroed = nodes.patch_status("node-001", &PatchParams::default(), &Patch::Strategic(zero)).await?;
    let started = Instant::now();
    let offered = eventually(SOON, || async {
        let node = nodes.get("node-001").await?;
        ensure!(vms(&node) == Some(wanted(&node)), "node-001 offers {:?}", vms(&node));
        Ok(vms(&node))
    })
    .await?;
    let took = progress::seconds(started.elapsed());
    stage.check(
        &format!(
            "node-001 went from {} to {} VMs again in {took}",
            vms(&zeroed).unwrap_or_default(),
            offered.unwrap_or_default()
        ),
        vms(&zeroed) == Some(0),
    );
    Ok(())
}

/// What the demo's configuration and annotation say.
fn wanted(node: &Node) -> u64 {
    match node.labels().get("type").map(String::as_str) {
        _ if node.annotations().contains_key("podwright.io/peer-pod-vms") => 3,
        Some("spot") => 20,
        _ => 10,
    }
}

fn vms(node: &Node) -> Option<u64> {
    let status = node.status.as_ref()?;
    let of = |list: &Option<
        std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>,
    >| { list.as_ref()?.get(VM)?.0.parse::<u64>().ok() };
    of(&status.capacity).filter(|vms| of(&status.allocatable) == Some(*vms))
}

async fn running(stage: &Stage<'_>, namespace: &str, name: &str) -> Result<Value> {
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), namespace);
    eventually(SOON, || async {
        let pod = serde_json::to_value(pods.get(name).await?)?;
        ensure!(pod["status"]["phase"] == "Running", "{name} does not run: {}", pod["status"]);
        Ok(pod)
    })
    .await
}
