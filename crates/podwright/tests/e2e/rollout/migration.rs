//! From a DaemonSet, and from pods that were left without an owner.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod, rbac::v1::ClusterRole};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PropagationPolicy},
};
use podwright_api::eds::{find_condition, words};
use podwright_lab::eventually;
use serde_json::{Value, json};

use super::scene::{CONFIG, Scene, scene, scene_in, version_of};
use crate::labs::{soon, start_with};

impl Scene<'_> {
    fn daemon_set(&self) -> Value {
        let wanted = self.foo("2.9");
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "foo"},
            "spec": {"selector": {"matchLabels": {"app": "foo"}}, "template": wanted["spec"]["template"].clone()},
        })
    }

    /// A DaemonSet with a pod on each of so many new nodes, which then leaves them alone.
    async fn inert_daemon_set(&self, nodes: usize) -> anyhow::Result<()> {
        self.nodes(nodes).await?;
        self.apply(&self.daemon_set()).await?;
        self.await_version("2.9", nodes).await?;
        // Inert: it would delete pods on nodes that it does not select, but with OnDelete and its pods' toleration it keeps them.
        let old: Api<DaemonSet> = Api::namespaced(self.client.clone(), &self.name);
        let inert = json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}});
        old.patch("foo", &PatchParams::default(), &Patch::Merge(inert)).await?;
        let taint = json!({"spec": {"taints": [{"key": "new-only", "effect": "NoSchedule"}]}});
        for node in 0..nodes {
            self.patch_node(&node.to_string(), taint.clone()).await?;
        }
        Ok(())
    }

    /// Waits until all pods have been ready for so many seconds: younger ones count as unavailable to whoever asks for that many,
    /// and may be replaced all at once.
    async fn await_seasoned(&self, seconds: i64) -> anyhow::Result<()> {
        soon(|| async {
            for pod in self.pods().await? {
                let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
                let ready = conditions.clone().find(|one| one["type"] == "Ready" && one["status"] == "True");
                let since = ready.and_then(|ready| ready["lastTransitionTime"].as_str()).unwrap_or_default();
                let age = Timestamp::now().as_second() - since.parse::<Timestamp>()?.as_second();
                anyhow::ensure!(age > seconds, "{} has been ready for {age} s", pod["metadata"]["name"]);
            }
            Ok(())
        })
        .await
    }

    /// What takes over from it.
    fn successor(&self) -> Value {
        let mut wanted = self.foo("3.0");
        wanted["metadata"]["annotations"] = json!({"extendeddaemonset.datadoghq.com/old-daemonset": "foo"});
        wanted["spec"]["template"]["spec"]["tolerations"] =
            json!([{"key": "new-only", "operator": "Exists"}]);
        wanted["spec"]["template"]["metadata"]["labels"] = json!({"app": "foo-new"});
        wanted
    }
}

#[tokio::test]
async fn a_daemon_set_is_taken_over_from_node_by_node() {
    scene("oldset", |scene| async move {
        scene.inert_daemon_set(4).await?;
        scene.apply(&scene.successor()).await?;
        scene.await_version("3.0", 4).await?;
        scene.await_done("foo", 4).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_manager_that_begins_in_the_middle_of_a_takeover_makes_no_pod_beside_an_old_one() {
    let config = "leaderElection: {leaseDuration: 2s, renewDeadline: 1500ms, retryPeriod: 200ms}\n";
    let lab = start_with(1, config, &["--features", "rollout"]).await;
    scene_in(&lab, "midway", |scene| async move {
        scene.inert_daemon_set(4).await?;
        scene.await_seasoned(2).await?;
        let mut wanted = scene.successor();
        // Slow enough to be stopped midway.
        wanted["spec"]["minReadySeconds"] = json!(2);
        scene.apply(&wanted).await?;
        soon(|| async {
            let new = scene.serving().await?.values().filter(|pod| version_of(pod) == "3.0").count();
            anyhow::ensure!(new > 0, "no pod has been replaced yet");
            Ok(())
        })
        .await?;
        scene.annotate("rolling-update-paused", Some("true")).await?;
        scene.settled().await?;
        let old = scene.serving().await?.values().filter(|pod| version_of(pod) == "2.9").count();
        anyhow::ensure!((1..4).contains(&old), "{old} of 4 pods are the DaemonSet's");
        scene.lab.replica(0)?.kill().await?;
        scene.lab.replica(0)?.start().await?;
        scene.annotate("rolling-update-paused", None).await?;
        scene.await_version("3.0", 4).await?;
        scene.await_done("foo", 4).await?;
        let created = scene.writes()?.get("create pods").copied().unwrap_or(0);
        anyhow::ensure!(created == 4, "{created} pods were made for 4 nodes: some beside an old one");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn labelled_orphans_are_outdated_pods() {
    scene("orphans", |scene| async move {
        scene.nodes(3).await?;
        scene.apply(&scene.daemon_set()).await?;
        let old = scene.await_version("2.9", 3).await?;
        let sets: Api<DaemonSet> = Api::namespaced(scene.client.clone(), &scene.name);
        let orphan =
            DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
        sets.delete("foo", &orphan).await?;
        let pods: Api<Pod> = scene.pods_api();
        for pod in old.values() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            soon(|| async {
                let owners = pods.get(name).await?.metadata.owner_references.unwrap_or_default();
                anyhow::ensure!(owners.is_empty(), "{name} is not an orphan yet");
                Ok(())
            })
            .await?;
            let label = json!({"metadata": {"labels": {super::scene::NAME_LABEL: "foo"}}});
            pods.patch(name, &PatchParams::default(), &Patch::Merge(label)).await?;
        }
        scene.apply(&scene.foo("3.0")).await?;
        scene.await_version("3.0", 3).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn an_annotation_that_names_nothing_holds_nobody_up() {
    scene("nothing", |scene| async move {
        scene.nodes(2).await?;
        let mut wanted = scene.foo("3.0");
        wanted["metadata"]["annotations"] =
            json!({"extendeddaemonset.datadoghq.com/old-daemonset": "nowhere"});
        scene.apply(&wanted).await?;
        let pods = scene.await_version("3.0", 2).await?;
        anyhow::ensure!(pods.values().all(|pod| version_of(pod) == "3.0"));
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn without_the_right_to_look_at_daemon_sets_only_that_set_waits_and_says_why() {
    let lab = start_with(1, CONFIG, &["--features", "rollout"]).await;
    scene_in(&lab, "norights", |scene| async move {
        let grants: Api<ClusterRole> = Api::all(scene.client.clone());
        let mut rules = grants.get("podwright").await?.rules.unwrap_or_default();
        rules.retain(|rule| !rule.resources.iter().flatten().any(|resource| resource == "daemonsets"));
        let change = json!({"rules": rules});
        grants.patch("podwright", &PatchParams::default(), &Patch::Merge(change)).await?;
        scene.nodes(2).await?;
        let mut wanted = scene.foo("3.0");
        wanted["metadata"]["annotations"] = json!({"extendeddaemonset.datadoghq.com/old-daemonset": "foo"});
        // The API server takes a moment to forget what it allowed.
        soon(|| async {
            let _ = scene.sets().delete("foo", &DeleteParams::default()).await;
            scene.apply(&wanted).await?;
            eventually(Duration::from_secs(3), || async {
                let status = scene.status().await?;
                let error = find_condition(&status.conditions, words::condition::RECONCILE_ERROR);
                anyhow::ensure!(
                    error.is_some_and(|one| one.message.contains("daemonsets")),
                    "{:?}",
                    status.conditions
                );
                Ok(())
            })
            .await
        })
        .await?;
        anyhow::ensure!(
            scene.pods().await?.is_empty(),
            "where the old pods are is not known, so none are made beside them"
        );
        scene.apply(&scene.set("bar", "3.0")).await?;
        scene.await_done("bar", 2).await?;
        // Without the annotation nothing holds it back any more.
        scene.annotate("old-daemonset", None).await?;
        scene.await_done("foo", 2).await?;
        Ok(())
    })
    .await;
}
