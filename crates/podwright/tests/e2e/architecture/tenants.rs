//! Private images: only whoever has the secret learns what they are.

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use podwright_lab::{
    PODWRIGHT_NAMESPACE,
    registry::{User, image},
};
use serde_json::{Value, json};

use super::ground::{Scene, architectures, ground, pod, scene, secret};
use crate::labs::soon;

async fn private(scene: &Scene<'_>) -> anyhow::Result<String> {
    let made = image(&format!("{}/arm", scene.namespace)).tag("1").platforms(["linux/arm64"]);
    Ok(made.push(&scene.ground.registries.passwords).await?.by_tag())
}

fn with_secret(name: &str, image: &str, secret: &str) -> Value {
    let mut made = pod(name, &[image]);
    made["spec"]["imagePullSecrets"] = json!([{"name": secret}]);
    made
}

#[tokio::test]
async fn a_tenant_without_the_secret_learns_nothing_also_when_another_has_asked() {
    scene(ground().await, "tenant", |scene| async move {
        let host = scene.ground.registries.passwords.address();
        let image = private(&scene).await?;
        scene.secret("ours", "dockerconfigjson", &User::A.docker_config(&host)).await?;
        let placed = scene.try_out(&with_secret("a", &image, "ours")).await?;
        assert_eq!(architectures(&placed.object), ["arm64"], "{placed:?}");

        let other = scene.ground.lab.namespace("stranger").await?;
        let stranger = Scene { ground: scene.ground, client: scene.client.clone(), namespace: other };
        for unknown in [
            stranger.try_out(&pod("b", &[&image])).await?,
            // The secret is in the other namespace: its name alone opens nothing.
            stranger.try_out(&with_secret("b", &image, "ours")).await?,
            scene.try_out(&pod("c", &[&image])).await?,
        ] {
            assert_eq!(unknown.status, 201, "{unknown:?}");
            assert!(architectures(&unknown.object).is_empty(), "{unknown:?}");
            let told = unknown.warnings.join("\n");
            assert!(told.contains("credentials") && !told.contains("arm64"), "{told}");
            assert!(
                !unknown.object["metadata"]["annotations"].to_string().contains("linux/arm64"),
                "{unknown:?}"
            );
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_service_accounts_secrets_count_where_the_pod_has_none() {
    scene(ground().await, "account", |scene| async move {
        let host = scene.ground.registries.passwords.address();
        let image = private(&scene).await?;
        scene
            .secret(
                "ours",
                "dockercfg",
                &json!({host: {"username": User::B.name(), "password": User::B.password()}}).to_string(),
            )
            .await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let change = json!({"imagePullSecrets": [{"name": "ours"}]});
        accounts.patch("default", &PatchParams::default(), &Patch::Merge(change)).await?;
        soon(|| async {
            let placed = scene.try_out(&pod("a", &[&image])).await?;
            anyhow::ensure!(architectures(&placed.object) == ["arm64"], "{placed:?}");
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn our_own_docker_config_opens_what_pods_have_no_secret_for() {
    let ground = ground().await;
    scene(ground, "own", |scene| async move {
        // Only this repository, so that no other test is let in by it.
        let image = private(&scene).await?;
        let host = format!("{}/{}", scene.ground.registries.passwords.address(), scene.namespace);
        let name = "podwright-docker-config";
        secret(&scene.client, PODWRIGHT_NAMESPACE, name, "dockerconfigjson", &User::A.docker_config(&host))
            .await?;
        let placed = soon(|| async {
            let placed = scene.try_out(&pod("a", &[&image])).await?;
            anyhow::ensure!(architectures(&placed.object) == ["arm64"], "{placed:?}");
            Ok(())
        })
        .await;
        let secrets: Api<k8s_openapi::api::core::v1::Secret> =
            Api::namespaced(scene.client.clone(), PODWRIGHT_NAMESPACE);
        secrets.delete(name, &DeleteParams::default()).await?;
        placed
    })
    .await;
}
