//! Other resources on some nodes: by the node's annotation, by a setting, live and rolled back.

use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::scene::{Scene, scene, uid_of};
use crate::labs::soon;

impl Scene<'_> {
    fn override_key(&self, container: &str) -> String {
        format!("resources.extendeddaemonset.datadoghq.com/{}.foo.{container}", self.name)
    }

    async fn override_on(&self, node: &str, value: Option<&str>) -> anyhow::Result<()> {
        self.patch_node(node, json!({"metadata": {"annotations": {self.override_key("daemon"): value}}}))
            .await
    }

    fn setting(name: &str, pool: &str, cpu: &str) -> Value {
        json!({
            "apiVersion": "datadoghq.com/v1alpha1", "kind": "ExtendedDaemonsetSetting",
            "metadata": {"name": name},
            "spec": {
                "reference": {"kind": "ExtendedDaemonset", "name": "foo"},
                "nodeSelector": {"matchLabels": {"pool": pool}},
                "containers": [{"name": "daemon", "resources": {"requests": {"cpu": cpu}}}],
            },
        })
    }

    /// Waits until the pods' cpu requests, by node, are these, and every pod serves.
    async fn await_cpus(&self, expected: &[(&str, Option<&str>)]) -> anyhow::Result<()> {
        soon(|| async {
            let pods = self.serving().await?;
            anyhow::ensure!(pods.len() == expected.len(), "{:?}", pods.keys());
            for (node, cpu) in expected {
                let found = pods[*node]["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str();
                anyhow::ensure!(found == *cpu, "{node}: {found:?} instead of {cpu:?}");
            }
            Ok(())
        })
        .await
    }

    async fn setting_status(&self, name: &str) -> anyhow::Result<(String, String)> {
        let status = self.settings().get(name).await?.status.unwrap_or_default();
        Ok((status.status, status.error))
    }
}

#[tokio::test]
async fn a_nodes_annotation_overrides_live_and_its_removal_rolls_back() {
    scene("annotated", |scene| async move {
        scene.nodes(3).await?;
        scene.apply(&scene.foo("3.0")).await?;
        let before = scene.await_version("3.0", 3).await?;
        // Keys in any case, as the Go controller reads them.
        scene.override_on("1", Some(r#"{"Requests": {"cpu": "2.0", "memory": "2G"}}"#)).await?;
        scene.await_cpus(&[("0", None), ("1", Some("2")), ("2", None)]).await?;
        let now = scene.serving().await?;
        anyhow::ensure!(
            uid_of(&now["0"]) == uid_of(&before["0"]) && uid_of(&now["2"]) == uid_of(&before["2"]),
            "others"
        );
        anyhow::ensure!(
            now["1"]["metadata"]["annotations"].get("extendeddaemonset.datadoghq.com/nodehash").is_some()
        );
        scene.override_on("1", None).await?;
        scene.await_cpus(&[("0", None), ("1", None), ("2", None)]).await
    })
    .await;
}

#[tokio::test]
async fn an_annotation_that_is_no_json_is_told_and_the_pod_keeps_its_templates_resources() {
    scene("badjson", |scene| async move {
        scene.nodes(1).await?;
        scene.apply(&scene.foo("3.0")).await?;
        scene.await_version("3.0", 1).await?;
        scene.override_on("0", Some("{lots}")).await?;
        let text = scene.await_event("UnreadableOverride", "foo.daemon").await?;
        println!("{text}");
        scene.await_cpus(&[("0", None)]).await?;
        scene.settled().await
    })
    .await;
}

#[tokio::test]
async fn a_setting_overrides_live_gives_way_to_the_annotation_and_rolls_back_when_it_goes() {
    scene("setting", |scene| async move {
        scene.nodes(2).await?;
        scene.patch_node("1", json!({"metadata": {"labels": {"pool": "big"}}})).await?;
        scene.apply(&scene.foo("3.0")).await?;
        scene.await_version("3.0", 2).await?;
        scene.apply(&Scene::setting("big", "big", "500m")).await?;
        scene.await_cpus(&[("0", None), ("1", Some("500m"))]).await?;
        let pod = scene.serving().await?["1"].clone();
        anyhow::ensure!(
            pod["metadata"]["labels"]["extendeddaemonsetsetting.datadoghq.com/name"] == "big",
            "{pod}"
        );
        // Annotation over setting, and then there is rest: no endless replacing.
        scene.override_on("1", Some(r#"{"requests": {"cpu": "1"}}"#)).await?;
        scene.await_cpus(&[("0", None), ("1", Some("1"))]).await?;
        scene.settled().await?;
        scene.override_on("1", None).await?;
        scene.await_cpus(&[("0", None), ("1", Some("500m"))]).await?;
        // A node that joins the pool, and a setting that changes.
        scene.patch_node("0", json!({"metadata": {"labels": {"pool": "big"}}})).await?;
        scene.await_cpus(&[("0", Some("500m")), ("1", Some("500m"))]).await?;
        scene.apply(&Scene::setting("big", "big", "250m")).await?;
        scene.await_cpus(&[("0", Some("250m")), ("1", Some("250m"))]).await?;
        scene.settings().delete("big", &DeleteParams::default()).await?;
        scene.await_cpus(&[("0", None), ("1", None)]).await
    })
    .await;
}

#[tokio::test]
async fn of_two_settings_for_a_node_one_counts_and_the_other_revives_when_that_goes() {
    scene("conflict", |scene| async move {
        scene.nodes(1).await?;
        scene.patch_node("0", json!({"metadata": {"labels": {"pool": "p"}}})).await?;
        scene.apply(&scene.foo("3.0")).await?;
        scene.await_version("3.0", 1).await?;
        // Ties in age, which is in whole seconds, are decided by name: the last wins.
        scene.apply(&Scene::setting("a", "p", "100m")).await?;
        scene.apply(&Scene::setting("z", "p", "200m")).await?;
        let mut other = Scene::setting("other", "p", "300m");
        other["spec"]["reference"]["name"] = json!("bar");
        scene.apply(&other).await?;
        soon(|| async {
            let (a, z) = (scene.setting_status("a").await?, scene.setting_status("z").await?);
            anyhow::ensure!(z.0 == "valid" && a.0 == "error" && a.1.contains('z'), "{a:?} {z:?}");
            anyhow::ensure!(scene.setting_status("other").await?.0 == "valid", "it is for another set");
            Ok(())
        })
        .await?;
        scene.await_cpus(&[("0", Some("200m"))]).await?;
        scene.settings().delete("z", &DeleteParams::default()).await?;
        soon(|| async {
            let a = scene.setting_status("a").await?;
            anyhow::ensure!(a.0 == "valid", "{a:?}");
            Ok(())
        })
        .await?;
        scene.await_cpus(&[("0", Some("100m"))]).await?;
        let change =
            json!({"spec": {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Sideways"}]}}});
        let refused = scene.settings().patch("a", &PatchParams::default(), &Patch::Merge(change)).await;
        let told = match refused {
            Err(error) => error.to_string(),
            Ok(taken) => {
                let name = taken.name_any();
                soon(|| async {
                    let status = scene.setting_status(&name).await?;
                    anyhow::ensure!(status.0 == "error", "{status:?}");
                    Ok(status.1)
                })
                .await?
            }
        };
        anyhow::ensure!(told.contains("Sideways"), "{told}");
        Ok(())
    })
    .await;
}
