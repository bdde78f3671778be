//! Registries that are away, and come back.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use podwright_lab::registry::image;
use serde_json::json;

use super::ground::{architectures, ground, pod, scene};
use crate::labs::soon;

#[tokio::test]
async fn while_a_registry_is_away_what_is_known_is_placed_and_when_it_is_back_the_rest_is() {
    scene(ground().await, "outage", |scene| async move {
        let mut registry = scene.ground.registries.frail.lock().await;
        let mut names = Vec::new();
        for name in ["known", "ahead", "unknown"] {
            let made = image(&format!("{}/{name}", scene.namespace)).tag("1").platforms(["linux/arm64"]);
            names.push(made.push(&registry).await?.by_tag());
        }
        let [known, ahead, unknown] = &names[..] else { unreachable!() };
        assert_eq!(architectures(&scene.try_out(&pod("a", &[known])).await?.object), ["arm64"]);
        // A workload without pods is enough for its image to be known.
        let deployments: Api<Deployment> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "ahead"},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": {"app": "ahead"}},
                "template": {"metadata": {"labels": {"app": "ahead"}}, "spec": pod("x", &[ahead])["spec"]},
            },
        }))?;
        deployments.create(&PostParams::default(), &deployment).await?;
        soon(|| async {
            let asked = registry
                .logged()?
                .iter()
                .any(|line| line.method == "GET" && line.path.contains("/ahead/manifests/"));
            anyhow::ensure!(asked, "the image of the Deployment has not been looked up");
            Ok(())
        })
        .await?;

        registry.stop().await?;
        for _ in 0..3 {
            assert_eq!(architectures(&scene.try_out(&pod("b", &[known])).await?.object), ["arm64"]);
        }
        let change = json!({"spec": {"replicas": 1}});
        deployments.patch("ahead", &PatchParams::default(), &Patch::Merge(change)).await?;
        soon(|| async {
            let pods = scene.pods().list(&ListParams::default().labels("app=ahead")).await?.items;
            let node = pods.first().and_then(|pod| pod.spec.as_ref()?.node_name.clone()).unwrap_or_default();
            anyhow::ensure!(node.starts_with("arm-"), "its pod is on {node:?}");
            Ok(())
        })
        .await?;
        let answer = scene.try_out(&pod("c", &[unknown])).await?;
        assert_eq!(answer.status, 201, "{answer:?}");
        assert!(architectures(&answer.object).is_empty(), "nothing is assumed: {answer:?}");
        assert!(answer.warnings.join("\n").contains(unknown), "{answer:?}");

        registry.start_again().await?;
        soon(|| async {
            let answer = scene.try_out(&pod("d", &[unknown])).await?;
            anyhow::ensure!(architectures(&answer.object) == ["arm64"], "{answer:?}");
            Ok(())
        })
        .await
    })
    .await;
}
