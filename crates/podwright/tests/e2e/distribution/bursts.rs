//! Many pods at once, rollouts and scale-downs.

use serde_json::json;

use super::{Scene, lab};
use crate::labs::in_namespace;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eighty_twenty_is_exact_for_250_pods_through_three_replicas_after_a_rollout_and_scale_downs() {
    in_namespace(lab().await, "eighty", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        let weights = [("default", 80), ("spot", 20)];
        scene.nodes(&[("default", 4), ("spot", 1)]).await?;
        scene.apply(&scene.rule(&weights)).await?;
        scene.await_rule().await?;
        scene.apply(&scene.deployment(250)).await?;
        // With less than one pod of deviation there is only 200 and 50.
        scene.expect_ratio(250, "app:1", &weights).await?;
        scene
            .patch_deployment(
                json!({"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}),
            )
            .await?;
        scene.expect_ratio(250, "app:2", &weights).await?;
        for replicas in [100, 33, 10] {
            scene.patch_deployment(json!({"replicas": replicas})).await?;
            scene.expect_ratio(replicas, "app:2", &weights).await?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_way_ratios_hold_for_97_pods_after_a_rollout_and_scale_downs() {
    in_namespace(lab().await, "three", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("a", 1), ("b", 1), ("c", 1)]).await?;
        for (round, weights) in [
            [("a", 50), ("b", 30), ("c", 20)],
            [("a", 7), ("b", 13), ("c", 80)],
            [("a", 1), ("b", 1), ("c", 1)],
        ]
        .into_iter()
        .enumerate()
        {
            // A new revision each, so that what was before does not matter.
            let image = |step: &str| format!("app:{round}-{step}");
            let containers =
                |step: &str| json!({"spec": {"containers": [{"name": "app", "image": image(step)}]}});
            scene.apply(&scene.rule(&weights)).await?;
            let mut deployment = scene.deployment(97);
            deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image("first"));
            scene.apply(&deployment).await?;
            scene.expect_ratio(97, &image("first"), &weights).await?;
            scene.patch_deployment(json!({"template": containers("second")})).await?;
            scene.expect_ratio(97, &image("second"), &weights).await?;
            for replicas in [33, 10] {
                scene.patch_deployment(json!({"replicas": replicas})).await?;
                scene.expect_ratio(replicas, &image("second"), &weights).await?;
            }
        }
        Ok(())
    })
    .await;
}
