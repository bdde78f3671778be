//! Which nodes are fit, as the built-in controller sees it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, api::DeleteParams};
use serde_json::json;

use super::scene::{scene, uid_of};
use crate::labs::soon;

#[tokio::test]
async fn a_no_schedule_taint_keeps_new_pods_away_and_running_ones_where_they_are() {
    scene("tainted", |scene| async move {
        scene.nodes(2).await?;
        scene.apply(&scene.foo("3.0")).await?;
        let before = scene.await_version("3.0", 2).await?;
        scene
            .patch_node("0", json!({"spec": {"taints": [{"key": "ToBeDeleted", "effect": "NoSchedule"}]}}))
            .await?;
        scene.node(scene.shape("closed").taint("closed", "", "NoSchedule")).await?;
        // A third node shows when the controller has come by.
        scene.node(scene.shape("witness")).await?;
        soon(|| async {
            anyhow::ensure!(scene.serving().await?.contains_key("witness"), "no pod on the third node yet");
            Ok(())
        })
        .await?;
        let now = scene.serving().await?;
        anyhow::ensure!(now.len() == 3 && uid_of(&now["0"]) == uid_of(&before["0"]), "{:?}", now.keys());
        // Once it is gone for another reason, it does not come back there.
        scene.lenient(true);
        let name = before["0"]["metadata"]["name"].as_str().unwrap_or_default();
        scene.pods_api().delete(name, &DeleteParams::default()).await?;
        scene.patch_node("1", json!({"spec": {"taints": [{"key": "out", "effect": "NoExecute"}]}})).await?;
        soon(|| async {
            let now: Vec<String> = scene.serving().await?.into_keys().collect();
            anyhow::ensure!(now == ["witness"] && scene.pods().await?.len() == 1, "{now:?}");
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn unschedulable_nodes_and_nodes_under_pressure_keep_their_daemon_and_get_one() {
    scene("cordoned", |scene| async move {
        for (suffix, taint) in [
            ("cordoned", "node.kubernetes.io/unschedulable"),
            ("memory", "node.kubernetes.io/memory-pressure"),
            ("disk", "node.kubernetes.io/disk-pressure"),
            ("pids", "node.kubernetes.io/pid-pressure"),
        ] {
            scene.node(scene.shape(suffix)).await?;
            let taints = json!([{"key": taint, "effect": "NoSchedule"}]);
            let cordoned = suffix == "cordoned";
            scene.patch_node(suffix, json!({"spec": {"taints": taints, "unschedulable": cordoned}})).await?;
        }
        scene.apply(&scene.foo("3.0")).await?;
        soon(|| async {
            let pods = scene.serving().await?;
            // The node lifecycle controller takes pressure that no condition shows off again; either way each gets its pod.
            anyhow::ensure!(pods.len() == 4, "{:?}", pods.keys());
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn the_exclude_label_takes_a_pod_away_and_gives_it_back() {
    scene("exclude", |scene| async move {
        scene.nodes(2).await?;
        let mut wanted = scene.foo("3.0");
        wanted["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "extendeddaemonset.datadoghq.com/exclude", "operator": "NotIn", "values": ["foo"]},
            ]}]},
        }});
        scene.apply(&wanted).await?;
        scene.await_version("3.0", 2).await?;
        scene.lenient(true);
        let exclude = |value: Option<&str>| json!({"metadata": {"labels": {"extendeddaemonset.datadoghq.com/exclude": value}}});
        scene.patch_node("1", exclude(Some("foo"))).await?;
        let left = scene.await_version("3.0", 1).await?;
        anyhow::ensure!(left.contains_key("0"), "{:?}", left.keys());
        scene.patch_node("1", exclude(None)).await?;
        scene.await_version("3.0", 2).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_node_that_stops_answering_costs_no_pod_and_the_others_go_on() {
    scene("silent", |scene| async move {
        scene.nodes(4).await?;
        let mut wanted = scene.foo("3.0");
        wanted["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = json!(2);
        scene.budget(2);
        scene.apply(&wanted).await?;
        let before = scene.await_version("3.0", 4).await?;
        // As the node lifecycle controller marks a node whose kubelet is silent.
        let taints = json!([
            {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        ]);
        scene.patch_node("0", json!({"spec": {"taints": taints}})).await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = scene.serving().await?;
        anyhow::ensure!(
            now.len() == 4 && uid_of(&now["0"]) == uid_of(&before["0"]),
            "the daemon was evicted"
        );
        let nodes: Api<Node> = Api::all(scene.client.clone());
        drop(nodes);
        Ok(())
    })
    .await;
}
