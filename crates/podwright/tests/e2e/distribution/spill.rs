//! Entries without nodes or room, and the way back.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, api::DeleteParams};
use podwright_lab::eventually;
use serde_json::{Value, json};

use super::{BURST, Scene, lab};
use crate::labs::{in_namespace, soon};

/// How many pods are ready, and how many of them are on each tier's nodes.
async fn ready(scene: &Scene<'_>) -> anyhow::Result<(usize, usize, usize)> {
    let pods = scene.pods().await?;
    let nodes = Api::<Node>::all(scene.client.clone());
    let existing: Vec<String> = nodes
        .list(&kube::api::ListParams::default().labels(&format!("scene={}", scene.namespace)))
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

        scene.nodes(&[("spot", 2)]).await?;
        eventually(BURST, || async {
            let found = ready(&scene).await?;
            assert!(found.0 >= 9, "the disruption budget asks for 9, ready are {}", found.0);
            anyhow::ensure!(found == (10, 5, 5), "ready, on default, on spot: {found:?}");
            Ok(())
        })
        .await
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
