//! Peer pods where the settings are not the default ones.

use podwright_api::keys;
use serde_json::json;

use crate::labs::{create, in_namespace, options, peer_pod, soon};

#[tokio::test]
async fn shrunk_pods_are_accepted_where_quotas_and_minimums_are() {
    in_namespace(options().await, "quota", |client, namespace| async move {
        let rules = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {requests.cpu: '1', requests.memory: 1Gi, limits.cpu: '100'}}\n---\n\
                     apiVersion: v1\nkind: LimitRange\nmetadata: {name: least}\nspec: {limits: [{type: Container, min: {cpu: 1m, memory: 1Mi}}]}\n";
        options().await.apply(&namespace, rules).await?;
        let pod = peer_pod("big", &json!([{"name": "a", "image": "x", "resources": {"requests": {"cpu": "8", "memory": "16Gi"}, "limits": {"cpu": "16", "memory": "16Gi"}}}]));
        // The quota is usable once its controller has counted.
        let pod = soon(|| async { Ok(create(&client, &namespace, &pod).await?) }).await?;
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({
                "requests": {"cpu": "1m", "memory": "1Mi", "kata.peerpods.io/vm": "1"},
                "limits": {"cpu": "16", "memory": "16Gi", "kata.peerpods.io/vm": "1"},
            })
        );
        assert_eq!(pod["status"]["qosClass"], "Burstable");
        assert_eq!(pod["metadata"]["annotations"][keys::VM_VCPUS], "16");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn init_containers_count_only_as_far_as_they_need_more_than_the_rest() {
    in_namespace(options().await, "effective", |client, namespace| async move {
        let mut pod = peer_pod(
            "p",
            &json!([{"name": "a", "image": "x", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]),
        );
        let init =
            json!([{"name": "i", "image": "x", "resources": {"requests": {"cpu": "3", "memory": "512Mi"}}}]);
        pod.spec.as_mut().unwrap().init_containers = serde_json::from_value(init)?;
        let pod = create(&client, &namespace, &pod).await?;
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(
            (&annotations[keys::VM_VCPUS], &annotations[keys::VM_MEMORY]),
            (&json!("3"), &json!("1024"))
        );
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_users_annotation_wins_and_the_other_class_of_the_list_is_treated() {
    in_namespace(options().await, "users", |client, namespace| async move {
        let mut pod = peer_pod(
            "p",
            &json!([{"name": "a", "image": "x", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]),
        );
        pod.metadata.annotations = Some([(keys::VM_VCPUS.to_owned(), "32".to_owned())].into());
        pod.spec.as_mut().unwrap().runtime_class_name = Some("kata-two".to_owned());
        let pod = create(&client, &namespace, &pod).await?;
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(
            (&annotations[keys::VM_VCPUS], &annotations[keys::VM_MEMORY]),
            (&json!("32"), &json!("1024"))
        );
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn variables_and_pod_level_resources_are_accepted_by_the_api_server() {
    in_namespace(options().await, "literal", |client, namespace| async move {
        let env = json!([{"name": "MIB", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}}]);
        let mut pod = peer_pod("p", &json!([{"name": "a", "image": "x", "env": env, "resources": {"limits": {"memory": "1Gi"}}}, {"name": "b", "image": "x"}]));
        pod.spec.as_mut().unwrap().resources = serde_json::from_value(json!({"requests": {"cpu": "4", "memory": "2Gi"}, "limits": {"cpu": "4", "memory": "8Gi"}}))?;
        let pod = create(&client, &namespace, &pod).await?;
        assert_eq!(pod["spec"]["containers"][0]["env"], json!([{"name": "MIB", "value": "1024"}]));
        assert_eq!(pod["spec"]["resources"]["requests"], json!({"cpu": "1m", "memory": "1Mi"}));
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!((&annotations[keys::VM_VCPUS], &annotations[keys::VM_MEMORY]), (&json!("4"), &json!("8192")));
        Ok(())
    })
    .await;
}
