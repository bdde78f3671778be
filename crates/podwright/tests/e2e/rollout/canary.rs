//! A new template on a few nodes first: the walk-through that users know. What pods show of their faults is in `timed`.

use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use podwright_api::eds::{Condition, find_condition, words};
use serde_json::json;

use super::scene::{Scene, is_serving, scene, uid_of, version_of};
use crate::labs::soon;

impl Scene<'_> {
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
        scene.settled().await?;
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
