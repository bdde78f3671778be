//! Replicas that die, pods that are refused, and what happens when nothing happens.

use std::time::{Duration, Instant};

use podwright_lab::{PODWRIGHT_NAME, eventually};
use serde_json::json;

use super::{BURST, CONFIG, Scene, is_within_one, lab};
use crate::{
    audit::Audit,
    labs::{await_quota, in_namespace, soon, start},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_killed_in_the_middle_of_a_burst_leaves_no_pod_unassigned_and_no_ratio_off() {
    // A lab of its own: nobody else should have to live with the loss.
    let lab = start(3, CONFIG).await;
    in_namespace(&lab, "killed", async |client, namespace| {
        let scene = Scene::new(&lab, client, namespace);
        let weights = [("default", 80), ("spot", 20)];
        scene.nodes(&[("default", 4), ("spot", 1)]).await?;
        scene.apply(&scene.rule(&weights)).await?;
        scene.await_rule().await?;
        scene.apply(&scene.deployment(250)).await?;
        eventually(BURST, || async {
            let pods = scene.pods().await?.len();
            anyhow::ensure!(pods >= 60, "{pods} pods so far");
            Ok(())
        })
        .await?;
        lab.replica(1)?.kill().await?;
        let killed_at = scene.pods().await?.len();
        eventually(BURST, || async {
            let pods = scene.pods().await?;
            let running = pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count();
            let tally = Scene::tally(&pods);
            anyhow::ensure!(
                running == 250 && pods.len() == 250 && is_within_one(&tally, 250, &weights),
                "killed at {killed_at} pods; {running} of {} run: {tally:?}",
                pods.len()
            );
            Ok(())
        })
        .await?;
        lab.replica(1)?.start().await?;
        lab.replica(1)?.await_ready(Duration::from_secs(30)).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_came_while_nobody_admitted_are_made_anew_in_the_right_place() {
    let lab = start(1, CONFIG).await;
    in_namespace(&lab, "away", async |client, namespace| {
        let scene = Scene::new(&lab, client, namespace);
        let weights = [("default", 3), ("spot", 1)];
        scene.nodes(&[("default", 1), ("spot", 1)]).await?;
        scene.apply(&scene.rule(&weights)).await?;
        scene.await_rule().await?;
        lab.replica(0)?.kill().await?;
        scene.apply(&scene.deployment(12)).await?;
        let pods = scene.await_pods(12, "app:1").await?;
        anyhow::ensure!(Scene::tally(&pods)["none"] == 12, "{:?}", Scene::tally(&pods));
        lab.replica(0)?.start().await?;
        lab.replica(0)?.await_ready(Duration::from_secs(30)).await?;
        eventually(BURST, || async {
            // By the nodes on which they run: what landed well is left where it is.
            let pods = scene.pods().await?;
            let on = |tier: &str| {
                pods.iter().filter(|pod| pod["spec"]["nodeName"] == scene.node_name(tier, 0).as_str()).count()
            };
            anyhow::ensure!((on("default"), on("spot")) == (9, 3), "{} and {}", on("default"), on("spot"));
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_of_pods_that_a_quota_refuses_are_given_again() {
    in_namespace(lab().await, "quota", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        let weights = [("default", 1), ("spot", 1)];
        scene.nodes(&[("default", 1), ("spot", 1)]).await?;
        let quota = |pods: u32| {
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"},
                   "spec": {"hard": {"count/pods": pods.to_string()}}})
        };
        for pods in [0, 5] {
            scene.apply(&quota(pods)).await?;
            await_quota(&scene.client, &scene.namespace, pods > 0).await?;
        }
        scene.apply(&scene.rule(&weights)).await?;
        scene.await_rule().await?;
        scene.apply(&scene.deployment(20)).await?;
        soon(|| async {
            let pods = scene.pods().await?.len();
            anyhow::ensure!(pods == 5, "{pods} pods under a quota of 5");
            Ok(())
        })
        .await?;
        // What was refused is reserved for a while, and no longer than that.
        eventually(Duration::from_secs(90), || async {
            let status = scene.status().await?;
            anyhow::ensure!(status["reserved"].is_null(), "{}", status["reserved"]);
            Ok(())
        })
        .await?;
        scene.apply(&quota(100)).await?;
        scene.patch_deployment(json!({"replicas": 21})).await?;
        scene.expect_ratio(21, "app:1", &weights).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_rest_nothing_is_written() {
    let lab = start(1, CONFIG).await;
    in_namespace(&lab, "rest", async |client, namespace| {
        let scene = Scene::new(&lab, client, namespace);
        let weights = [("default", 80), ("spot", 20)];
        scene.nodes(&[("default", 1), ("spot", 1)]).await?;
        scene.apply(&scene.rule(&weights)).await?;
        scene.await_rule().await?;
        scene.apply(&scene.deployment(10)).await?;
        scene.expect_ratio(10, "app:1", &weights).await?;
        soon(|| async {
            let status = scene.status().await?;
            anyhow::ensure!(status["status"] == "Balanced" && status["reserved"].is_null(), "{status}");
            anyhow::ensure!(status["desired"] == "8/2" && status["actual"] == "8/2", "{status}");
            Ok(())
        })
        .await?;
        let (audit, started) = (Audit::of_lab(&lab)?, Instant::now());
        eventually(Duration::from_mins(1), || async {
            anyhow::ensure!(audit.renewals(PODWRIGHT_NAME)? >= 20, "not 20 renewals yet");
            Ok(())
        })
        .await?;
        let writes = audit.writes()?;
        anyhow::ensure!(writes.is_empty(), "in {:?} of rest: {writes:?}", started.elapsed());
        Ok(())
    })
    .await;
}
