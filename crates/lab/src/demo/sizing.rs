//! Sizing: the example's DaemonSet on nodes of every shape, then a template that changes.

use std::{collections::BTreeMap, time::Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
    core::ApiResource,
};
use serde_json::{Value, json};

use super::{SOON, shown, stage::Stage};
use crate::{eventually, progress};

const TEMPLATE: &str = include_str!("../../../../examples/sizing/template.yaml");
const DAEMON_SET: &str = include_str!("../../../../examples/sizing/daemonset.yaml");

pub(super) async fn play(stage: &Stage<'_>) -> Result<()> {
    stage.title("Sizing: each pod of a DaemonSet gets its share of its own node");
    let namespace = stage.lab.namespace("sizing").await?;
    stage.command("kubectl apply -f examples/sizing");
    stage.lab.apply(&namespace, TEMPLATE).await?;
    stage.lab.apply(&namespace, DAEMON_SET).await?;
    let nodes = Api::<Node>::all(stage.client.clone()).list(&ListParams::default()).await?.items;
    let pods = pods_when(stage, &namespace, nodes.len(), |_| true).await?;
    let mut table =
        vec![["node", "allocatable", "10% cpu", "15% memory", "5% storage"].map(str::to_owned).to_vec()];
    let mut right = true;
    for node in nodes.iter().take(3) {
        let node = serde_json::to_value(node)?;
        let name = shown(node.pointer("/metadata/name"));
        let allocatable = &node["status"]["allocatable"];
        let limits = &pods.get(&name).context("a node without its pod")?["spec"]["containers"][0]["resources"]
            ["limits"];
        let amounts = ["cpu", "memory", "ephemeral-storage"].map(|resource| shown(allocatable.get(resource)));
        table.push(vec![
            name,
            amounts.join(" / "),
            shown(limits.get("cpu")),
            shown(limits.get("memory")),
            shown(limits.get("ephemeral-storage")),
        ]);
        right &= limits["cpu"] == expected(&amounts[0], 10);
    }
    stage.table(&table);
    stage.check("pods on nodes of 4, 16 and 64 cpus ask for 400m, 1600m and 6400m", right);
    a_changed_template(stage, &namespace, &pods).await
}

async fn a_changed_template(
    stage: &Stage<'_>,
    namespace: &str,
    before: &BTreeMap<String, Value>,
) -> Result<()> {
    stage.command(
        "kubectl patch fdt default-resource-percentages --type merge -p '{\"spec\":{\"cpuPercentage\":20}}'",
    );
    let kind = GroupVersionKind::gvk("flexdaemonsets.xai", "v1alpha1", "FlexDaemonsetTemplate");
    let api: Api<DynamicObject> = Api::all_with(stage.client.clone(), &ApiResource::from_gvk(&kind));
    let change = json!({"spec": {"cpuPercentage": 20}});
    api.patch("default-resource-percentages", &PatchParams::default(), &Patch::Merge(change)).await?;
    let started = Instant::now();
    let doubled = |node: &str, pod: &Value| {
        let cpu = |pod: &Value| {
            pod["spec"]["containers"][0]["resources"]["limits"]["cpu"].as_str().and_then(millis)
        };
        before.get(node).is_some_and(|old| cpu(pod) == cpu(old).map(|millis| 2 * millis))
    };
    let after =
        pods_when(stage, namespace, before.len(), |pods| pods.iter().all(|(node, pod)| doubled(node, pod)))
            .await?;
    let took = progress::seconds(started.elapsed());
    let same = before.iter().all(|(node, pod)| {
        after.get(node).is_some_and(|now| now["metadata"]["uid"] == pod["metadata"]["uid"])
    });
    stage.check(
        &format!("all {} running pods were resized in place in {took}, none was restarted", after.len()),
        same,
    );
    Ok(())
}

/// The running pods by their node, once there are so many and the condition holds.
async fn pods_when(
    stage: &Stage<'_>,
    namespace: &str,
    count: usize,
    holds: impl Fn(&BTreeMap<String, Value>) -> bool,
) -> Result<BTreeMap<String, Value>> {
    let api: Api<Pod> = Api::namespaced(stage.client.clone(), namespace);
    eventually(SOON, || async {
        let pods = api.list(&ListParams::default().fields("status.phase=Running")).await?.items;
        let by_node = |pod: Pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            Ok((node.with_context(|| format!("{} has no node", pod.name_any()))?, serde_json::to_value(pod)?))
        };
        let pods = pods.into_iter().map(by_node).collect::<Result<BTreeMap<String, Value>>>()?;
        ensure!(pods.len() == count, "{} of {count} pods run", pods.len());
        ensure!(holds(&pods), "not all pods are as they should be");
        Ok(pods)
    })
    .await
}

/// So many percent of a whole number of cpus, in the canonical form of anything below a thousand cpus.
fn expected(cpus: &str, percent: u64) -> String {
    let millis = cpus.parse::<u64>().unwrap_or(0) * 10 * percent;
    if millis.is_multiple_of(1000) { (millis / 1000).to_string() } else { format!("{millis}m") }
}

fn millis(quantity: &str) -> Option<u64> {
    match quantity.strip_suffix('m') {
        Some(millis) => millis.parse().ok(),
        None => quantity.parse::<u64>().ok().map(|whole| whole * 1000),
    }
}
