//! Running pods and what is told of them, while much happens.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{resources, scene};
use crate::labs::soon;

#[tokio::test]
async fn pods_follow_their_template_also_while_nodes_keep_changing() {
    scene("busy", |scene| async move {
        scene.node("n", "4", "16Gi", Some("100Gi")).await?;
        scene.apply(&scene.template()).await?;
        scene.apply(&scene.daemon_set()).await?;
        scene.await_pods(1).await?;
        let nodes: Api<Node> = Api::all(scene.client.clone());
        // Far more often than a DaemonSet is looked at: each of these concerns all of them.
        let changes = async {
            let mut often = tokio::time::interval(Duration::from_millis(200));
            for change in 0.. {
                often.tick().await;
                let label = Patch::Merge(json!({"metadata": {"labels": {"change": format!("{change}")}}}));
                nodes.patch(&format!("{}-n", scene.name), &PatchParams::default(), &label).await?;
            }
            anyhow::Ok(())
        };
        let follows = async {
            for percent in [20, 30] {
                scene.patch_template(json!({"cpuPercentage": percent})).await?;
                soon(|| async {
                    let pods = scene.pods().await?;
                    let cpu = pods.get("n").map(|pod| resources(pod)["limits"]["cpu"].clone());
                    anyhow::ensure!(cpu == Some(json!(format!("{}m", 40 * percent))), "{cpu:?}");
                    Ok(())
                })
                .await?;
            }
            Ok(())
        };
        tokio::select! {
            ended = changes => ended,
            followed = follows => followed,
        }
    })
    .await;
}
