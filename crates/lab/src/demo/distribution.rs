//! Distribution: the example's Deployment over default and spot nodes, then fewer of its pods.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::{SOON, stage::Stage};
use crate::eventually;

const RULE: &str = include_str!("../../../../examples/distribution/poddistributor.yaml");
const DEPLOYMENT: &str = include_str!("../../../../examples/distribution/deployment.yaml");

/// The entries of the example's rule: the value of the label `type`, and the weight.
const ENTRIES: [(&str, usize); 2] = [("default", 80), ("spot", 20)];

pub(super) async fn play(stage: &Stage<'_>) -> Result<()> {
    stage.title("Distribution: 80 of 100 pods on default nodes, 20 on spot nodes");
    let namespace = stage.lab.namespace("distribution").await?;
    stage.command(
        "kubectl apply -f examples/distribution/poddistributor.yaml -f examples/distribution/deployment.yaml",
    );
    stage.lab.apply(&namespace, RULE).await?;
    stage.lab.apply(&namespace, DEPLOYMENT).await?;
    let actual = settled(stage, &namespace, 20).await?;
    show(stage, 20, &actual);
    stage.check(
        "20 pods are 16 and 4",
        actual == BTreeMap::from([("default".to_owned(), 16), ("spot".to_owned(), 4)]),
    );

    stage.command("kubectl scale deployment nginx-deployment --replicas 7");
    let deployments: Api<Deployment> = Api::namespaced(stage.client.clone(), &namespace);
    let fewer = json!({"spec": {"replicas": 7}});
    deployments.patch("nginx-deployment", &PatchParams::default(), &Patch::Merge(fewer)).await?;
    let actual = settled(stage, &namespace, 7).await?;
    show(stage, 7, &actual);
    let near = ENTRIES.iter().all(|(entry, weight)| {
        (actual.get(*entry).copied().unwrap_or_default() * 100).abs_diff(7 * weight) < 100
    });
    stage.check("of 7 pods each kind of node still has its share, to less than a pod", near);
    Ok(())
}

/// How many running pods each kind of node has, once there are so many and all have a node.
async fn settled(stage: &Stage<'_>, namespace: &str, count: usize) -> Result<BTreeMap<String, usize>> {
    let api: Api<Pod> = Api::namespaced(stage.client.clone(), namespace);
    eventually(SOON, || async {
        let pods = api.list(&ListParams::default()).await?.items;
        let staying: Vec<&Pod> =
            pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
        let mut actual = BTreeMap::new();
        for pod in &staying {
            let selector = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref()?.get("type"));
            let runs = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
            if let Some(kind) = selector.filter(|_| runs) {
                *actual.entry(kind.clone()).or_default() += 1;
            }
        }
        ensure!(
            staying.len() == count && actual.values().sum::<usize>() == count,
            "{} pods of {count}, running: {actual:?}",
            staying.len()
        );
        Ok(actual)
    })
    .await
}

/// Target against actual, as bars.
fn show(stage: &Stage<'_>, count: usize, actual: &BTreeMap<String, usize>) {
    let mut table = vec![["nodes", "target", "", "actual", ""].map(str::to_owned).to_vec()];
    for (entry, weight) in ENTRIES {
        let actual = actual.get(entry).copied().unwrap_or_default();
        let tenths = count * weight / 10;
        table.push(vec![
            format!("type={entry}"),
            format!("{}.{}", tenths / 10, tenths % 10),
            "░".repeat((tenths + 5) / 10),
            actual.to_string(),
            "█".repeat(actual),
        ]);
    }
    stage.table(&table);
}
