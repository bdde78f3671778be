//! Entries without nodes or room, and the way back.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, WatchEvent, WatchParams},
};
use podwright_lab::eventually;
use serde_json::{Value, json};

use super::{BURST, Scene, lab};
use crate::labs::{in_namespace, soon};

/// How many pods are ready, and how many of them are on each tier's nodes.
async fn ready(scene: &Scene<'_>) -> anyhow::Result<(usize, usize, usize)> {
    let pods = scene.pods().await?;
    let nodes = Api::<Node>::all(scene.client.clone());
    let existing: Vec<String> = nodes
        .list(&ListParams::default().labels(&format!("scene={}", scene.namespace)))
        .await?
        .items
        .into_iter()
        .filter_map(|node| node.metadata.name)
        .collect();
    let is_ready = |pod: &&Value| {
        let there =
            pod["spec"]["nodeName"].as_str().is_some_and(|node| existing.iter().any(|name| name == node));
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        there && conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    let ready: Vec<&Value> = pods.iter().filter(is_ready).collect();
    let on = |tier: &str| {
        let prefix = format!("{}-{tier}-", scene.namespace);
        ready
            .iter()
            .filter(|pod| pod["spec"]["nodeName"].as_str().is_some_and(|node| node.starts_with(&prefix)))
            .count()
    };
    Ok((ready.len(), on("default"), on("spot")))
}

/// The pods of a scene as a watch tells of them, change by change: nothing that happens in between is missed.
struct Seen<'s> {
    scene: &'s Scene<'s>,
    pods: BTreeMap<String, Pod>,
    changes: BoxStream<'static, kube::Result<WatchEvent<Pod>>>,
}

impl<'s> Seen<'s> {
    async fn start(scene: &'s Scene<'s>) -> anyhow::Result<Self> {
        let list = scene.pods_api().list(&ListParams::default()).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let changes = scene.pods_api().watch(&WatchParams::default(), &version).await?;
        let pods = list.items.into_iter().map(|pod| (pod.name_any(), pod)).collect();
        Ok(Self { scene, pods, changes: changes.boxed() })
    }

    /// How many pods a disruption budget counts as healthy, and how many of them are on each tier's nodes.
    fn ready(&self) -> (usize, usize, usize) {
        let is_ready = |pod: &&Pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            pod.metadata.deletion_timestamp.is_none()
                && conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
        };
        let ready: Vec<&Pod> = self.pods.values().filter(is_ready).collect();
        let on = |tier: &str| {
            let prefix = format!("{}-{tier}-", self.scene.namespace);
            let nodes = ready.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_ref());
            nodes.filter(|node| node.starts_with(&prefix)).count()
        };
        (ready.len(), on("default"), on("spot"))
    }

    /// Follows every change until so many are ready, and so many of them on each tier, and gives the fewest that ever were.
    async fn until(mut self, ready: usize, default: usize, spot: usize) -> anyhow::Result<usize> {
        let mut fewest = self.ready().0;
        while self.ready() != (ready, default, spot) {
            let change = self.changes.next().await.context("the watch has ended")??;
            match change {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    self.pods.insert(pod.name_any(), pod);
                }
                WatchEvent::Deleted(pod) => {
                    self.pods.remove(&pod.name_any());
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(error) => anyhow::bail!("the watch has failed: {error:?}"),
            }
            fewest = fewest.min(self.ready().0);
        }
        Ok(fewest)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_lost_nodes_run_elsewhere_and_return_without_breaking_a_disruption_budget() {
    in_namespace(lab().await, "spill", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 1), ("spot", 2)]).await?;
        let mut rule = scene.rule(&[("default", 1), ("spot", 1)]);
        rule["spec"]["whenUnsatisfiable"] = json!("Spill");
        rule["spec"]["spillAfterSeconds"] = json!(5);
        scene.apply(&rule).await?;
        scene.await_rule().await?;
        scene.apply(&scene.deployment(10)).await?;
        scene
            .apply(&json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
                "spec": {"minAvailable": 9, "selector": {"matchLabels": {"app": "web"}}},
            }))
            .await?;
        scene.expect_ratio(10, "app:1", &[("default", 1), ("spot", 1)]).await?;

        let nodes: Api<Node> = Api::all(scene.client.clone());
        for index in 0..2 {
            nodes.delete(&scene.node_name("spot", index), &DeleteParams::default()).await?;
        }
        eventually(Duration::from_mins(1), || async {
            let found = ready(&scene).await?;
            anyhow::ensure!(found == (10, 10, 0), "ready, on default, on spot: {found:?}");
            Ok(())
        })
        .await?;
        soon(|| async {
            let status = scene.status().await?;
            let spot = &status["entries"][1];
            anyhow::ensure!(spot["state"] == "NoNodes" && spot["nodes"] == 0, "{status}");
            Ok(())
        })
        .await?;
        scene.await_event("EntryWithoutNodes", "tier=spot").await?;

        let seen = Seen::start(&scene).await?;
        scene.nodes(&[("spot", 2)]).await?;
        let fewest =
            tokio::time::timeout(BURST, seen.until(10, 5, 5)).await.context("not back in time")??;
        // Pods do move, one after another, and the watch has seen it.
        anyhow::ensure!(
            fewest == 9,
            "the disruption budget asks for 9 and lets one move, {fewest} were ready"
        );
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_do_not_fit_go_where_there_is_room_and_wait_where_the_rule_says_so() {
    in_namespace(lab().await, "room", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 2)]).await?;
        // Room for two pods of one cpu each.
        scene.lab.add_node(&scene.node("spot", 0).cpu("2")).await?;
        scene.apply(&scene.rule(&[("default", 1), ("spot", 1)])).await?;
        let mut deployment = scene.deployment(6);
        deployment["spec"]["template"]["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "1"}});
        scene.apply(&deployment).await?;
        soon(|| async {
            let status = scene.status().await?;
            anyhow::ensure!(
                status["actual"] == "3/3"
                    && status["status"] == "Unsatisfied"
                    && status["entries"][1]["message"].is_string(),
                "{status}"
            );
            Ok(())
        })
        .await?;
        scene.patch_rule(json!({"whenUnsatisfiable": "Spill", "spillAfterSeconds": 3})).await?;
        let pods = scene.await_pods(6, "app:1").await?;
        let tally = Scene::tally(&pods);
        anyhow::ensure!((tally["default"], tally["spot"]) == (4, 2), "{tally:?}");
        soon(|| async {
            let status = scene.status().await?;
            anyhow::ensure!(status["entries"][1]["state"] == "NoRoom", "{status}");
            Ok(())
        })
        .await?;
        // Room returns.
        scene.lab.add_node(&scene.node("spot", 1)).await?;
        eventually(BURST, || async {
            let tally = Scene::tally(&scene.pods().await?);
            anyhow::ensure!((tally["default"], tally["spot"]) == (3, 3), "{tally:?}");
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_weights_move_running_pods_only_if_the_rule_asks_for_it() {
    in_namespace(lab().await, "move", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 1), ("spot", 1)]).await?;
        scene.apply(&scene.rule(&[("default", 1), ("spot", 1)])).await?;
        scene.await_rule().await?;
        scene.apply(&scene.deployment(8)).await?;
        scene.expect_ratio(8, "app:1", &[("default", 1), ("spot", 1)]).await?;
        scene.apply(&scene.rule(&[("default", 3), ("spot", 1)])).await?;
        soon(|| async {
            let status = scene.status().await?;
            anyhow::ensure!(
                status["status"] == "Unbalanced" && status["desired"] == "6/2" && status["actual"] == "4/4",
                "{status}"
            );
            Ok(())
        })
        .await?;
        scene.patch_rule(json!({"rebalance": {"enabled": true, "maxPerMinute": 60}})).await?;
        eventually(BURST, || async {
            let status = scene.status().await?;
            anyhow::ensure!(status["status"] == "Balanced" && status["actual"] == "6/2", "{status}");
            Ok(())
        })
        .await?;
        scene.expect_ratio(8, "app:1", &[("default", 3), ("spot", 1)]).await
    })
    .await;
}
