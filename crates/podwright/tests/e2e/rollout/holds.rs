//! Pause and freeze.

use kube::api::{DeleteParams, EvictParams};
use podwright_api::eds::{Condition, find_condition, words};
use serde_json::json;

use super::scene::{Scene, scene, uid_of, version_of};
use crate::labs::soon;

const PAUSED: &str = "rolling-update-paused";
const FROZEN: &str = "rollout-frozen";

async fn await_state(scene: &Scene<'_>, state: &str) -> anyhow::Result<()> {
    soon(|| async {
        let now = scene.status().await?.state;
        anyhow::ensure!(now == state, "{now}");
        Ok(())
    })
    .await
}

/// The active replica set says so in its condition.
async fn await_condition(scene: &Scene<'_>, kind: &str, holds: bool) -> anyhow::Result<()> {
    soon(|| async {
        let active = scene.status().await?.active_replica_set;
        let conditions = scene.replica_sets().get(&active).await?.status.unwrap_or_default().conditions;
        let found = find_condition(&conditions, kind).is_some_and(Condition::is_true);
        anyhow::ensure!(found == holds, "{kind}: {conditions:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_paused_update_replaces_nothing_but_still_fills_empty_nodes() {
    scene("pause", |scene| async move {
        scene.nodes(3).await?;
        scene.apply(&scene.foo("3.0")).await?;
        let before = scene.await_version("3.0", 3).await?;
        scene.annotate(PAUSED, Some("true")).await?;
        await_state(&scene, words::state::ROLLING_UPDATE_PAUSED).await?;
        scene
            .apply(&{
                let mut wanted = scene.foo("3.1");
                wanted["metadata"]["annotations"] =
                    json!({"extendeddaemonset.datadoghq.com/rolling-update-paused": "true"});
                wanted
            })
            .await?;
        await_condition(&scene, words::condition::ROLLING_UPDATE_PAUSED, true).await?;
        scene.node(scene.shape("new")).await?;
        soon(|| async {
            let pods = scene.serving().await?;
            anyhow::ensure!(pods.get("new").is_some_and(|pod| version_of(pod) == "3.1"), "{:?}", pods.keys());
            Ok(())
        })
        .await?;
        let now = scene.serving().await?;
        anyhow::ensure!(
            before.iter().all(|(node, pod)| uid_of(pod) == uid_of(&now[node])),
            "paused, and yet replaced"
        );
        scene.annotate(PAUSED, None).await?;
        scene.await_version("3.1", 4).await?;
        await_state(&scene, words::state::RUNNING).await
    })
    .await;
}

#[tokio::test]
async fn a_frozen_rollout_creates_and_deletes_nothing_at_all() {
    scene("freeze", |scene| async move {
        scene.nodes(3).await?;
        scene.apply(&scene.foo("3.0")).await?;
        let before = scene.await_version("3.0", 3).await?;
        scene.annotate(FROZEN, Some("true")).await?;
        await_state(&scene, words::state::ROLLOUT_FROZEN).await?;
        await_condition(&scene, words::condition::ROLLOUT_FROZEN, true).await?;
        let counted = |scene: &Scene<'_>| -> anyhow::Result<(usize, usize)> {
            let writes = scene.writes()?;
            let of = |what: &str| writes.get(what).copied().unwrap_or(0);
            Ok((of("create pods"), of("delete pods")))
        };
        let writes = counted(&scene)?;
        // A new node, a failed pod, a new template: none of them is a reason to touch a pod now.
        scene.node(scene.shape("new")).await?;
        scene.lenient(true);
        let name = before["0"]["metadata"]["name"].as_str().unwrap_or_default();
        scene
            .pods_api()
            .patch_status(
                name,
                &kube::api::PatchParams::default(),
                &kube::api::Patch::Merge(json!({"status": {"phase": "Failed", "reason": "Evicted"}})),
            )
            .await?;
        scene.patch("foo", json!({"spec": {"template": {"spec": {"hostNetwork": true}}}})).await?;
        await_state(&scene, words::state::ROLLOUT_FROZEN).await?;
        scene.settled().await?;
        anyhow::ensure!(counted(&scene)? == writes, "{:?}", scene.writes()?);
        scene.annotate(FROZEN, None).await?;
        soon(|| async {
            let after = scene.serving().await?;
            let new = after.values().filter(|pod| pod["spec"]["hostNetwork"] == true).count();
            anyhow::ensure!(new == 4, "{new} of 4 nodes have the new template");
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn pods_that_a_person_deletes_or_evicts_come_back() {
    scene("deleted", |scene| async move {
        scene.nodes(2).await?;
        scene.apply(&scene.foo("3.0")).await?;
        let before = scene.await_version("3.0", 2).await?;
        scene.lenient(true);
        let name = |node: &str| before[node]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        scene.pods_api().delete(&name("0"), &DeleteParams::default()).await?;
        scene.pods_api().evict(&name("1"), &EvictParams::default()).await?;
        soon(|| async {
            let now = scene.serving().await?;
            let new = now.iter().filter(|(node, pod)| uid_of(pod) != uid_of(&before[*node])).count();
            anyhow::ensure!(new == 2, "{new} are new");
            Ok(())
        })
        .await
    })
    .await;
}
