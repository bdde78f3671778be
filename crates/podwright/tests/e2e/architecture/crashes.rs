//! Pods that fail because of their architecture are told so.

use podwright_api::keys;
use serde_json::json;

use super::{
    ground::{ground, pod, scene},
    placement::pushed,
};

#[tokio::test]
async fn a_crash_by_the_wrong_architecture_is_told_with_image_node_and_platforms() {
    scene(ground().await, "crash", |scene| async move {
        let amd = pushed(&scene, "amd", &["linux/amd64"]).await?;
        let both = pushed(&scene, "both", &["linux/amd64", "linux/arm64"]).await?;
        let crashing = |name: &str, image: &str, says: &str| {
            let mut made = pod(name, &[image]);
            made["metadata"]["labels"] = json!({keys::ARCHITECTURE: keys::OFF});
            made["metadata"]["annotations"] =
                json!({"lab.podwright.io/fault": "crashloop", "lab.podwright.io/says": says});
            made["spec"]["nodeName"] = json!("arm-0");
            made
        };
        scene.create(&crashing("silent", &amd, "")).await?;
        scene.create(&crashing("mislabelled", &both, "exec /app: exec format error")).await?;
        scene.create(&crashing("unrelated", &both, "out of luck")).await?;
        let told = scene.await_event("silent", "WrongArchitecture").await?;
        for part in [&amd[..], "arm-0", "linux/arm64", "linux/amd64", "c0"] {
            assert!(told.contains(part), "{told}");
        }
        let told = scene.await_event("mislabelled", "WrongArchitecture").await?;
        assert!(told.contains("claims to offer linux/amd64, linux/arm64"), "{told}");
        scene.await_event("unrelated", "BackOff").await?;
        assert!(scene.has_event("unrelated", "WrongArchitecture").await.is_err());
        Ok(())
    })
    .await;
}
