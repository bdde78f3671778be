//! From a DaemonSet, and from pods that were left without an owner.

use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PropagationPolicy},
};
use serde_json::{Value, json};

use super::scene::{Scene, scene, version_of};
use crate::labs::soon;

impl Scene {
    fn daemon_set(&self) -> Value {
        let wanted = self.foo("2.9");
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "foo"},
            "spec": {"selector": {"matchLabels": {"app": "foo"}}, "template": wanted["spec"]["template"].clone()},
        })
    }
}

#[tokio::test]
async fn a_daemon_set_is_taken_over_from_node_by_node() {
    scene("oldset", |scene| async move {
        scene.nodes(4).await?;
        scene.apply(&scene.daemon_set()).await?;
        scene.await_version("2.9", 4).await?;
        // Inert: it would delete pods on nodes that it does not select, but with OnDelete and its pods' toleration it keeps them.
        let old: Api<DaemonSet> = Api::namespaced(scene.client.clone(), &scene.name);
        let inert = json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}});
        old.patch("foo", &PatchParams::default(), &Patch::Merge(inert)).await?;
        let taint = json!({"spec": {"taints": [{"key": "new-only", "effect": "NoSchedule"}]}});
        for node in 0..4 {
            scene.patch_node(&node.to_string(), taint.clone()).await?;
        }
        let mut wanted = scene.foo("3.0");
        wanted["metadata"]["annotations"] = json!({"extendeddaemonset.datadoghq.com/old-daemonset": "foo"});
        wanted["spec"]["template"]["spec"]["tolerations"] =
            json!([{"key": "new-only", "operator": "Exists"}]);
        wanted["spec"]["template"]["metadata"]["labels"] = json!({"app": "foo-new"});
        scene.apply(&wanted).await?;
        scene.await_version("3.0", 4).await?;
        scene.await_done("foo", 4).await?;
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
