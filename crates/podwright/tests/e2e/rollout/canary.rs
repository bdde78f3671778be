//! A new template on a few nodes first: the walk-through that users know, and faults as a kubelet shows them.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use podwright_api::eds::{Condition, ExtendedDaemonSetStatus, find_condition, words};
use serde_json::{Value, json};

use super::scene::{Scene, is_serving, scene, uid_of, version_of};
use crate::labs::soon;

/// How soon after a pod shows what is wrong the status must say so.
const PROMPT: Duration = Duration::from_secs(3);

impl Scene {
    /// `foo` of this version with a canary.
    fn canary(&self, version: &str, canary: Value) -> Value {
        let mut wanted = self.foo(version);
        wanted["spec"]["strategy"]["canary"] = canary;
        wanted
    }

    async fn await_status(
        &self,
        holds: impl Fn(&ExtendedDaemonSetStatus) -> bool,
    ) -> anyhow::Result<ExtendedDaemonSetStatus> {
        soon(|| async {
            let status = self.status().await?;
            anyhow::ensure!(holds(&status), "{status:?}");
            Ok(status)
        })
        .await
    }

    /// `(status, desired, current, ready, available)` of each replica set, the active one first.
    async fn table_of_replica_sets(&self) -> anyhow::Result<Vec<(String, [i32; 4])>> {
        let all = self.replica_sets().list(&kube::api::ListParams::default()).await?.items;
        let mut rows: Vec<(String, [i32; 4])> = all
            .into_iter()
            .map(|one| {
                let status = one.status.unwrap_or_default();
                (status.status, [status.desired, status.current, status.ready, status.available])
            })
            .collect();
        rows.sort();
        Ok(rows)
    }

    async fn await_table(&self, expected: &[(&str, i32)]) -> anyhow::Result<()> {
        soon(|| async {
            let table = self.table_of_replica_sets().await?;
            let wanted: Vec<(String, [i32; 4])> =
                expected.iter().map(|(role, count)| ((*role).to_owned(), [*count; 4])).collect();
            anyhow::ensure!(table == wanted, "{table:?}");
            Ok(())
        })
        .await
    }
}

/// When the first pod of this version showed one of these reasons.
async fn signal(scene: &Scene, version: &str, shows: impl Fn(&Value) -> bool) -> anyhow::Result<Instant> {
    soon(|| async {
        let pods = scene.pods().await?;
        let found = pods.iter().filter(|pod| version_of(pod) == version).any(&shows);
        anyhow::ensure!(found, "no pod of {version} shows it yet");
        Ok(Instant::now())
    })
    .await
}

#[tokio::test]
async fn the_walk_through_shows_two_and_one_and_then_three() {
    scene("walk", |scene| async move {
        scene.nodes(3).await?;
        scene.apply(&scene.canary("3.0", json!({"replicas": 1, "duration": "5m"}))).await?;
        scene.await_done("foo", 3).await?;
        let before = scene.await_version("3.0", 3).await?;
        scene.apply(&scene.canary("3.1", json!({"replicas": 1, "duration": "5m"}))).await?;
        let status = scene
            .await_status(|status| status.state == words::state::CANARY && status.up_to_date == 1)
            .await?;
        scene.await_table(&[("active", 2), ("canary", 1)]).await?;
        let status = scene
            .await_status(|now| now.desired == 3 && now.ready == 3 && now.canary == status.canary)
            .await?;
        let canary = status.canary.unwrap_or_default();
        anyhow::ensure!(canary.nodes.len() == 1, "{canary:?}");
        let pods = scene.serving().await?;
        let tried: Vec<&String> =
            pods.iter().filter(|(_, pod)| version_of(pod) == "3.1").map(|(node, _)| node).collect();
        anyhow::ensure!(
            tried.len() == 1 && canary.nodes == [scene.node_name(tried[0])],
            "{tried:?} {canary:?}"
        );
        let label = "extendeddaemonsetreplicaset.datadoghq.com/canary";
        anyhow::ensure!(pods[tried[0]]["metadata"]["labels"][label] == "true", "{}", pods[tried[0]]);
        let kept = pods.iter().filter(|(node, pod)| uid_of(pod) == uid_of(&before[*node])).count();
        anyhow::ensure!(kept == 2, "{kept} pods were left alone");

        scene.annotate("canary-valid", Some(&canary.replica_set)).await?;
        scene.await_version("3.1", 3).await?;
        scene.await_done("foo", 3).await?;
        scene.await_table(&[("active", 3)]).await?;
        soon(|| async {
            let labelled =
                scene.pods().await?.iter().filter(|pod| !pod["metadata"]["labels"][label].is_null()).count();
            anyhow::ensure!(labelled == 0, "{labelled} pods keep the canary label");
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn after_its_duration_a_canary_is_promoted_by_itself() {
    scene("timed", |scene| async move {
        scene.nodes(3).await?;
        let canary = json!({"replicas": 1, "duration": "3s", "noRestartsDuration": "1s"});
        scene.apply(&scene.canary("3.0", canary.clone())).await?;
        scene.await_version("3.0", 3).await?;
        scene.apply(&scene.canary("3.1", canary)).await?;
        scene.await_status(|status| status.state == words::state::CANARY).await?;
        scene.await_version("3.1", 3).await?;
        scene.await_status(|status| status.state == words::state::RUNNING && status.canary.is_none()).await?;
        Ok(())
    })
    .await;
}

/// A canary with this fault pauses for this reason, promptly.
async fn pauses(
    prefix: &str,
    fault: &str,
    strategy: Value,
    reason: &str,
    sick: impl Fn(&Value) -> bool + Copy,
) {
    scene(prefix, |scene| async move {
        scene.nodes(3).await?;
        let mut canary = json!({"replicas": 1, "duration": "10m"});
        canary["autoPause"] = strategy;
        scene.apply(&scene.canary("3.0", canary.clone())).await?;
        let before = scene.await_version("3.0", 3).await?;
        let mut broken = scene.canary("3.1", canary);
        broken["spec"]["template"]["metadata"]["annotations"] = json!({"lab.podwright.io/fault": fault});
        scene.apply(&broken).await?;
        let shown = signal(&scene, "3.1", sick).await?;
        let status = scene.await_status(|status| status.state == words::state::CANARY_PAUSED).await?;
        let took = shown.elapsed();
        println!("{fault}: paused {:.1} s after the signal: {}", took.as_secs_f64(), status.reason);
        anyhow::ensure!(status.reason == reason, "{}", status.reason);
        anyhow::ensure!(took < PROMPT, "it took {took:?}");
        let paused = find_condition(&status.conditions, words::condition::CANARY_PAUSED);
        anyhow::ensure!(paused.is_some_and(|one| one.is_true() && one.reason == reason), "{paused:?}");
        let now = scene.serving().await?;
        let kept = now.iter().filter(|(node, pod)| uid_of(pod) == uid_of(&before[*node])).count();
        anyhow::ensure!(kept == 2, "{kept} pods go on serving");
        Ok(())
    })
    .await;
}

fn waits_for(pod: &Value, reason: &str) -> bool {
    pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
}

#[tokio::test]
async fn an_image_that_cannot_be_pulled_pauses_the_canary() {
    let shows = |pod: &Value| waits_for(pod, "ErrImagePull");
    pauses("pull", "image-pull", json!({"maxRestarts": 2}), "ErrImagePull", shows).await;
}

#[tokio::test]
async fn a_container_that_cannot_be_configured_pauses_the_canary() {
    let shows = |pod: &Value| waits_for(pod, "CreateContainerConfigError");
    pauses("config", "config-error", json!({"maxRestarts": 2}), "CreateContainerConfigError", shows).await;
}

#[tokio::test]
async fn a_pod_that_takes_too_long_to_start_pauses_the_canary() {
    let shows = |pod: &Value| {
        let started: Option<Timestamp> =
            pod["status"]["startTime"].as_str().and_then(|text| text.parse().ok());
        started.is_some_and(|at| Timestamp::now().as_second() - at.as_second() > 2)
    };
    pauses("slow", "slow-start", json!({"maxSlowStartDuration": "2s"}), "SlowStartTimeoutExceeded", shows)
        .await;
}

#[tokio::test]
async fn a_crash_loop_pauses_the_canary_then_fails_it_and_the_template_is_restored() {
    scene("crash", |scene| async move {
        scene.nodes(3).await?;
        let canary = json!({
            "replicas": 1, "duration": "10m", "autoPause": {"maxRestarts": 1}, "autoFail": {"maxRestarts": 2},
        });
        scene.apply(&scene.canary("3.0", canary.clone())).await?;
        scene.await_version("3.0", 3).await?;
        let good = scene.sets().get("foo").await?.spec.template;
        let active = scene.status().await?.active_replica_set;
        let mut broken = scene.canary("3.1", canary);
        broken["spec"]["template"]["metadata"]["annotations"] =
            json!({"lab.podwright.io/fault": "crashloop"});
        scene.apply(&broken).await?;
        let restarted = |more_than: i64| {
            move |pod: &Value| {
                pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(0) > more_than
            }
        };
        let shown = signal(&scene, "3.1", restarted(1)).await?;
        let paused = scene.await_status(|status| status.state == words::state::CANARY_PAUSED).await?;
        anyhow::ensure!(
            paused.reason == "Error" && shown.elapsed() < PROMPT,
            "{} {:?}",
            paused.reason,
            shown.elapsed()
        );
        let shown = signal(&scene, "3.1", restarted(2)).await?;
        soon(|| async {
            let set = scene.sets().get("foo").await?;
            anyhow::ensure!(set.spec.template == good, "not restored yet");
            Ok(())
        })
        .await?;
        println!("failed and restored {:.1} s after the signal", shown.elapsed().as_secs_f64());
        anyhow::ensure!(shown.elapsed() < PROMPT, "it took {:?}", shown.elapsed());
        scene.await_version("3.0", 3).await?;
        let status = scene.await_status(|status| status.state == words::state::RUNNING).await?;
        anyhow::ensure!(status.active_replica_set == active && status.canary.is_none(), "{status:?}");
        let failed = find_condition(&status.conditions, words::condition::CANARY_FAILED);
        anyhow::ensure!(failed.is_some(), "{:?}", status.conditions);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_person_pauses_unpauses_and_fails_a_canary_as_the_plugin_does() {
    scene("person", |scene| async move {
        scene.nodes(3).await?;
        let canary = json!({"replicas": 1, "validationMode": "manual"});
        scene.apply(&scene.canary("3.0", canary.clone())).await?;
        scene.await_version("3.0", 3).await?;
        scene.apply(&scene.canary("3.1", canary)).await?;
        let status = scene
            .await_status(|status| status.state == words::state::CANARY && status.up_to_date == 1)
            .await?;
        let replica_set = status.canary.unwrap_or_default().replica_set;
        scene.annotate("canary-paused", Some("true")).await?;
        let status = scene.await_status(|status| status.state == words::state::CANARY_PAUSED).await?;
        anyhow::ensure!(status.reason == "Unknown", "{}", status.reason);
        scene.annotate("canary-paused", Some("false")).await?;
        scene.annotate("canary-unpaused", Some("true")).await?;
        scene.await_status(|status| status.state == words::state::CANARY).await?;
        let failed = json!({"status": {"conditions": [{
            "type": "Canary-Failed", "status": "True", "reason": "Manually failed",
            "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }]}});
        scene
            .replica_sets()
            .patch_status(&replica_set, &PatchParams::default(), &Patch::Merge(failed))
            .await?;
        scene.await_version("3.0", 3).await?;
        let status = scene.await_status(|status| status.state == words::state::RUNNING).await?;
        let failed = find_condition(&status.conditions, words::condition::CANARY_FAILED);
        anyhow::ensure!(failed.is_some_and(|one| one.message.contains(&replica_set)), "{failed:?}");
        let annotations = scene.sets().get("foo").await?.metadata.annotations.unwrap_or_default();
        let left: Vec<&String> = annotations.keys().filter(|key| key.contains("/canary-")).collect();
        anyhow::ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn with_hold_active_a_failed_canary_leaves_the_spec_to_its_owner() {
    scene("hold", |scene| async move {
        scene.nodes(2).await?;
        let canary = json!({
            "replicas": 1, "duration": "10m", "onFailure": "HoldActive",
            "autoPause": {"enabled": false}, "autoFail": {"maxRestarts": 0},
        });
        scene.apply(&scene.canary("3.0", canary.clone())).await?;
        scene.await_version("3.0", 2).await?;
        let mut broken = scene.canary("3.1", canary.clone());
        broken["spec"]["template"]["metadata"]["annotations"] =
            json!({"lab.podwright.io/fault": "crashloop"});
        scene.apply(&broken).await?;
        scene.await_status(|status| status.state == words::state::CANARY_FAILED).await?;
        scene.await_version("3.0", 2).await?;
        let image = scene.sets().get("foo").await?.spec.template.0["spec"]["containers"][0]["image"].clone();
        anyhow::ensure!(image == "registry.k8s.io/pause:3.1", "the spec is untouched: {image}");
        super::rolling::settled(&scene).await?;
        let status = scene.status().await?;
        anyhow::ensure!(
            find_condition(&status.conditions, words::condition::CANARY_FAILED)
                .is_some_and(Condition::is_true),
            "{:?}",
            status.conditions
        );
        scene.apply(&scene.canary("3.2", canary)).await?;
        scene.await_status(|status| status.state == words::state::CANARY).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn removing_the_canary_block_in_the_middle_ends_it_cleanly() {
    scene("unblock", |scene| async move {
        scene.nodes(3).await?;
        scene.apply(&scene.canary("3.0", json!({"replicas": 1, "duration": "10m"}))).await?;
        scene.await_version("3.0", 3).await?;
        scene.apply(&scene.canary("3.1", json!({"replicas": 1, "duration": "10m"}))).await?;
        scene.await_status(|status| status.state == words::state::CANARY && status.up_to_date == 1).await?;
        scene.patch("foo", json!({"spec": {"strategy": {"canary": null}}})).await?;
        scene.await_version("3.1", 3).await?;
        let status = scene.await_done("foo", 3).await?;
        anyhow::ensure!(status.canary.is_none(), "{status:?}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_canary_of_half_the_fleet_keeps_within_the_budget() {
    scene("half", |scene| async move {
        scene.nodes(6).await?;
        scene.apply(&scene.canary("3.0", json!({"replicas": "50%", "duration": "10m"}))).await?;
        scene.await_version("3.0", 6).await?;
        // The budget of one node is watched beside this.
        scene.apply(&scene.canary("3.1", json!({"replicas": "50%", "duration": "10m"}))).await?;
        scene.await_status(|status| status.up_to_date == 3 && status.ready == 6).await?;
        scene.await_table(&[("active", 3), ("canary", 3)]).await?;
        // A canary's node that goes is made up for by another.
        let lost = scene.status().await?.canary.unwrap_or_default().nodes[0].clone();
        scene.lenient(true);
        let suffix = lost.strip_prefix(&format!("{}-", scene.name)).unwrap_or(&lost).to_owned();
        scene.remove_node(&suffix).await?;
        scene
            .await_status(|status| {
                let nodes = status.canary.clone().unwrap_or_default().nodes;
                nodes.len() == 3 && !nodes.contains(&lost)
            })
            .await?;
        soon(|| async {
            let tried =
                scene.pods().await?.iter().filter(|pod| is_serving(pod) && version_of(pod) == "3.1").count();
            anyhow::ensure!(tried == 3, "{tried} of 3");
            Ok(())
        })
        .await
    })
    .await;
}
