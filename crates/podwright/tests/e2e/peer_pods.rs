//! Peer pods as their users see them.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use podwright_api::keys;
use serde_json::{Value, json};

use crate::{
    injector,
    labs::{create, in_namespace, peer_pod, plain, soon},
};

const EXAMPLE: &str = include_str!("../../../../examples/peer-pods/pod.yaml");
const DEPLOYMENT: &str = include_str!("../../../../examples/peer-pods/deployment.yaml");

fn one_vm() -> Value {
    json!({"requests": {"kata.peerpods.io/vm": "1"}, "limits": {"kata.peerpods.io/vm": "1"}})
}

#[tokio::test]
async fn the_example_pod_is_charged_to_its_node_as_one_vm_and_runs() {
    in_namespace(plain().await, "example", |client, namespace| async move {
        plain().await.apply(&namespace, EXAMPLE).await?;
        let pods: Api<Pod> = Api::namespaced(client, &namespace);
        let pod = soon(|| async {
            let pod = serde_json::to_value(pods.get("nginx").await?)?;
            anyhow::ensure!(pod["status"]["phase"] == "Running", "{}", pod["status"]);
            Ok(pod)
        })
        .await?;
        assert_eq!(pod["spec"]["containers"][0]["resources"], one_vm());
        assert_eq!(pod["spec"]["overhead"], json!({"cpu": "250m", "memory": "120Mi"}));
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(
            (&annotations[keys::VM_VCPUS], &annotations[keys::VM_MEMORY]),
            (&json!("1"), &json!("2048"))
        );
        assert!(annotations.get(keys::VM_GPUS).is_none());
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_example_deployments_pods_are_sized_by_all_their_containers() {
    in_namespace(plain().await, "deployment", |client, namespace| async move {
        plain().await.apply(&namespace, DEPLOYMENT).await?;
        let pods: Api<Pod> = Api::namespaced(client, &namespace);
        let all = soon(|| async {
            let all = pods.list(&kube::api::ListParams::default()).await?.items;
            anyhow::ensure!(all.len() == 3, "{} pods", all.len());
            Ok(all)
        })
        .await?;
        for pod in all {
            let pod = serde_json::to_value(pod)?;
            let annotations = &pod["metadata"]["annotations"];
            // Requests 3100m and 6208Mi; limits 3 and 5Gi, which are less.
            assert_eq!(annotations[keys::VM_VCPUS], "4");
            assert_eq!(annotations[keys::VM_MEMORY], "6208");
            assert_eq!(annotations[keys::VM_GPUS], "1");
            assert_eq!(pod["spec"]["containers"][0]["resources"], one_vm());
            assert_eq!(pod["spec"]["containers"][1]["resources"], json!({}));
            assert_eq!(pod["spec"]["initContainers"][0]["resources"], json!({}));
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_pod_of_another_class_comes_back_as_it_was_sent() {
    in_namespace(plain().await, "other", |client, namespace| async move {
        let mut pod = peer_pod("same", &json!([{"name": "a", "image": "x", "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}}]));
        pod.spec.as_mut().unwrap().runtime_class_name = None;
        pod.spec.as_mut().unwrap().automount_service_account_token = Some(false);
        // No webhook of ours ever sees kube-system, so what comes back there is the API server's own doing.
        let untouched = create(&client, "kube-system", &{ let mut twin = pod.clone(); twin.metadata.name = Some(namespace.clone()); twin }).await?;
        let ours = create(&client, &namespace, &pod).await?;
        assert_eq!(ours["spec"], untouched["spec"]);
        assert_eq!(ours["metadata"].get("annotations"), None);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn pods_that_are_no_peer_pods_never_leave_the_api_server() {
    in_namespace(plain().await, "unrelated", |client, namespace| async move {
        for index in 0..50 {
            let mut pod = peer_pod(&format!("p{index}"), &json!([{"name": "a", "image": "x"}]));
            pod.spec.as_mut().unwrap().runtime_class_name = None;
            create(&client, &namespace, &pod).await?;
        }
        let metrics = metrics(plain().await.replica(0)?.ports().metrics).await?;
        assert!(!metrics.contains("feature=\"peer-pods\",verdict=\"skipped\""), "{metrics}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn defaults_of_a_limit_range_do_not_change_the_vm() {
    in_namespace(plain().await, "limits", |client, namespace| async move {
        let limits = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: defaults}\nspec:\n  limits:\n  - type: Container\n    \
                      default: {cpu: '8', memory: 32Gi}\n    defaultRequest: {cpu: '4', memory: 16Gi}\n";
        plain().await.apply(&namespace, limits).await?;
        let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}});
        let pod = soon(|| async {
            // The limit range takes a moment to be known to the admission plugin: a bare container shows when it is.
            let probe = json!([{"name": "a", "image": "x", "resources": resources}, {"name": "b", "image": "x"}]);
            let pod = create(&client, &namespace, &{ let mut pod = peer_pod("", &probe); pod.metadata.name = None; pod.metadata.generate_name = Some("p-".to_owned()); pod }).await?;
            let ranger = &pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"];
            anyhow::ensure!(ranger.is_string(), "not limited yet");
            Ok(pod)
        })
        .await?;
        // The bare container counts with its namespace's defaults once; that they come back after the strip does not count.
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!((&annotations[keys::VM_VCPUS], &annotations[keys::VM_MEMORY]), (&json!("10"), &json!("34816")));
        assert_eq!(pod["spec"]["containers"][0]["resources"], one_vm());
        assert_eq!(pod["spec"]["containers"][1]["resources"], json!({}));
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_sidecar_that_another_webhook_injects_is_added_once() {
    in_namespace(plain().await, "mesh", |client, namespace| async move {
        let sidecar = json!({"name": "mesh", "image": "x", "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}});
        let _injector = injector::start(&client, &namespace, sidecar).await?;
        let containers = json!([{"name": "app", "image": "x", "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"cpu": "3", "memory": "5Gi"}}}]);
        let pod = soon(|| async {
            let mut pod = peer_pod("", &containers);
            pod.metadata = serde_json::from_value(json!({"generateName": "p-"}))?;
            let pod = create(&client, &namespace, &pod).await?;
            anyhow::ensure!(pod["spec"]["containers"].as_array().is_some_and(|all| all.len() == 2), "not injected yet");
            Ok(pod)
        })
        .await?;
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!((&annotations[keys::VM_VCPUS], &annotations[keys::VM_MEMORY]), (&json!("4"), &json!("6144")));
        assert_eq!(pod["spec"]["containers"][0]["resources"], one_vm());
        assert_eq!(pod["spec"]["containers"][1]["resources"], json!({}));
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_shows_the_same_pod_and_leaves_nothing() {
    in_namespace(plain().await, "dry", |client, namespace| async move {
        let pods: Api<Pod> = Api::namespaced(client, &namespace);
        let pod = peer_pod(
            "dry",
            &json!([{"name": "a", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]),
        );
        let dry = pods.create(&PostParams { dry_run: true, ..PostParams::default() }, &pod).await?;
        assert_eq!(pods.list(&kube::api::ListParams::default()).await?.items.len(), 0);
        let real = pods.create(&PostParams::default(), &pod).await?;
        assert_eq!(dry.metadata.annotations, real.metadata.annotations);
        assert_eq!(dry.spec.unwrap().containers[0].resources, real.spec.unwrap().containers[0].resources);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_running_peer_pod_is_not_resized_onto_its_node() {
    in_namespace(plain().await, "resize", |client, namespace| async move {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        create(&client, &namespace, &peer_pod("fixed", &json!([{"name": "a", "image": "x"}]))).await?;
        let more = json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}});
        let error = pods
            .patch_subresource("resize", "fixed", &PatchParams::default(), &Patch::Strategic(more))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("Delete the pod and create it"), "{error}");
        Ok(())
    })
    .await;
}

pub(crate) async fn metrics(port: u16) -> anyhow::Result<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nhost: localhost\r\n\r\n").await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
