//! Every setting turned away from its default: what is not known or cannot be is refused, no Secret is read, VMs are chosen.

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::{Api, api::DeleteParams};
use podwright_api::keys;
use podwright_lab::registry::{Fault, User, image};
use serde_json::json;

use super::{
    ground::{architectures, pod, scene, strict, terms},
    placement::pushed,
};

fn message(answer: &super::ground::Answer) -> String {
    answer.object["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn what_is_not_known_and_what_cannot_run_is_refused_with_the_reason() {
    scene(strict().await, "refused", |scene| async move {
        let arm = pushed(&scene, "arm", &["linux/arm64"]).await?;
        let amd = pushed(&scene, "amd", &["linux/amd64"]).await?;
        assert_eq!(scene.try_out(&pod("a", &[&arm])).await?.status, 201);
        let answer = scene.try_out(&pod("b", &[&arm, &amd])).await?;
        assert_eq!(answer.status, 403, "{answer:?}");
        for part in [format!("{arm} offers linux/arm64"), format!("{amd} offers linux/amd64")] {
            assert!(message(&answer).contains(&part), "{answer:?}");
        }
        let registries = &scene.ground.registries;
        registries.proxies[0].fault("", Fault::Status(503, None));
        let lost = image(&format!("{}/lost", scene.namespace)).tag("1").push(&registries.open).await?;
        let lost = lost.at(&registries.proxies[0].address()).by_tag();
        let answer = scene.try_out(&pod("c", &[&arm, &lost])).await?;
        assert_eq!(answer.status, 403, "{answer:?}");
        assert!(
            message(&answer).contains(&lost) && message(&answer).contains("onUnknown is Deny"),
            "{answer:?}"
        );
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_peer_pod_gets_a_machine_that_runs_its_images_and_a_warning_where_there_is_none() {
    scene(strict().await, "machines", |scene| async move {
        for (name, platforms, machine) in [
            ("arm", &["linux/arm64"][..], json!("m7g.large")),
            ("both", &["linux/arm64", "linux/amd64"], json!("m7g.large")),
            ("amd", &["linux/amd64"], json!("m7i.large")),
            ("mainframe", &["linux/s390x"], json!(null)),
        ] {
            let mut peer = pod(name, &[&pushed(&scene, name, platforms).await?]);
            peer["spec"]["runtimeClassName"] = json!("kata-remote");
            let answer = scene.try_out(&peer).await?;
            assert_eq!(answer.status, 201, "{answer:?}");
            assert_eq!(
                answer.object["metadata"]["annotations"][keys::VM_MACHINE_TYPE],
                machine,
                "{answer:?}"
            );
            assert!(terms(&answer.object).is_null(), "its node does not matter: {answer:?}");
            assert_eq!(answer.warnings.join("").contains("no machine type"), machine.is_null(), "{answer:?}");
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn without_the_right_to_read_secrets_all_else_goes_on() {
    scene(strict().await, "blind", |scene| async move {
        let bindings: Api<ClusterRoleBinding> = Api::all(scene.client.clone());
        bindings.delete("podwright-pull-secrets", &DeleteParams::default()).await?;
        let host = scene.ground.registries.passwords.address();
        scene.secret("ours", "dockerconfigjson", &User::A.docker_config(&host)).await?;
        let made = image(&format!("{}/arm", scene.namespace)).tag("1").platforms(["linux/arm64"]);
        let private = made.push(&scene.ground.registries.passwords).await?.by_tag();
        let mut closed = pod("a", &[&private]);
        closed["spec"]["imagePullSecrets"] = json!([{"name": "ours"}]);
        let answer = scene.try_out(&closed).await?;
        assert_eq!(answer.status, 403, "{answer:?}");
        assert!(!message(&answer).contains("Secret"), "nobody tried to read it: {answer:?}");
        let open = pushed(&scene, "arm", &["linux/arm64"]).await?;
        assert_eq!(architectures(&scene.try_out(&pod("b", &[&open])).await?.object), ["arm64"]);
        Ok(())
    })
    .await;
}
