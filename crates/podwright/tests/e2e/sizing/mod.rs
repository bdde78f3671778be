//! DaemonSet pods as a share of their node, with the real DaemonSet controller.

mod running;
mod scene;

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Event, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use podwright_api::{flex::FlexDaemonsetTemplate, keys};
use serde_json::json;

use self::scene::{equal, resources, scene};
use crate::labs::{in_namespace, options, peer_pod, soon};

#[tokio::test]
async fn each_pod_of_the_example_gets_its_share_of_its_own_node() {
    scene("shares", |scene| async move {
        scene.node("4", "4", "16Gi", Some("100Gi")).await?;
        scene.node("16", "16", "64Gi", Some("200Gi")).await?;
        scene.node("64", "64", "256Gi", Some("400Gi")).await?;
        scene.node("tiny", "500m", "512Mi", Some("10Gi")).await?;
        scene.node("bare", "3920m", "15842424Ki", None).await?;
        scene.apply(&scene.template()).await?;
        scene.apply(&scene.daemon_set()).await?;
        let pods = scene.await_pods(5).await?;
        for (node, expected) in [
            ("4", equal("400m", "2576980377", Some("5Gi"))),
            ("16", equal("1600m", "10307921510", Some("10Gi"))),
            ("64", equal("6400m", "41231686041", Some("20Gi"))),
            ("tiny", equal("100m", "128Mi", Some("512Mi"))),
            ("bare", equal("392m", "2433396326", None)),
        ] {
            assert_eq!(*resources(&pods[node]), expected, "{node}");
            let sized_by = pods[node]["metadata"]["annotations"][keys::SIZED_BY].as_str().unwrap();
            assert!(sized_by.contains(&scene.name), "{sized_by}");
        }
        soon(|| async {
            let status = scene.status().await?;
            anyhow::ensure!(
                status["inUse"] == 5 && status["drifted"] == 0 && status["daemonSets"] == 1,
                "{status}"
            );
            anyhow::ensure!(status["conditions"][0]["status"] == "True", "{status}");
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn twenty_nine_percent_of_three_cpus_is_870m() {
    scene("exact", |scene| async move {
        scene.node("three", "3", "8Gi", Some("50Gi")).await?;
        let mut template = scene.template();
        template["spec"] = json!({"cpuPercentage": 29, "memoryPercentage": 50, "storagePercentage": 1});
        scene.apply(&template).await?;
        scene.apply(&scene.daemon_set()).await?;
        assert_eq!(*resources(&scene.await_pods(1).await?["three"]), equal("870m", "4Gi", Some("512Mi")));
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn pods_wait_for_their_template_and_running_ones_outlive_it() {
    scene("late", |scene| async move {
        scene.node("a", "4", "16Gi", Some("100Gi")).await?;
        scene.node("b", "4", "16Gi", Some("100Gi")).await?;
        scene.apply(&scene.daemon_set()).await?;
        scene.await_event("FailedCreate", "FlexDaemonsetTemplate").await?;
        scene.apply(&scene.template()).await?;
        let before = scene.await_pods(2).await?;
        assert_eq!(*resources(&before["a"]), equal("400m", "2576980377", Some("5Gi")));

        let templates: Api<FlexDaemonsetTemplate> = Api::all(scene.client.clone());
        templates.delete(&scene.name, &DeleteParams::default()).await?;
        // Until the caches have learned of it a pod may still be made by it.
        soon(|| async {
            for pod in scene
                .pods()
                .await?
                .into_values()
                .filter(|pod| pod["metadata"]["uid"] != before["b"]["metadata"]["uid"])
            {
                scene
                    .pods_api()
                    .delete(
                        pod["metadata"]["name"].as_str().unwrap(),
                        &DeleteParams::default().grace_period(0),
                    )
                    .await?;
            }
            let events: Api<Event> = Api::namespaced(scene.client.clone(), &scene.name);
            let all = events.list(&ListParams::default()).await?.items;
            let denials = all
                .iter()
                .filter(|event| event.reason.as_deref() == Some("FailedCreate"))
                .filter_map(|event| event.count)
                .sum::<i32>();
            anyhow::ensure!(
                denials > 1 && scene.pods().await?.len() == 1,
                "{denials} denials, {} pods",
                scene.pods().await?.len()
            );
            Ok(())
        })
        .await?;
        let after = scene.pods().await?;
        assert_eq!(after["b"], before["b"], "a running pod is not touched");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn what_is_not_ours_stays_on_every_kind_of_container() {
    scene("others", |scene| async move {
        scene.node("n", "4", "16Gi", Some("100Gi")).await?;
        let mut template = scene.template();
        template["spec"]["managedResources"] = json!(["cpu", "memory"]);
        scene.apply(&template).await?;
        let limits = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"},
            "spec": {"limits": [{"type": "Container", "default": {"cpu": "7", "memory": "7Gi", "ephemeral-storage": "7Gi"}}]}});
        scene.apply(&limits).await?;
        let mut daemon_set = scene.daemon_set();
        let spec = &mut daemon_set["spec"]["template"]["spec"];
        spec["containers"] = json!([
            {"name": "plain", "image": "x"},
            {"name": "asking", "image": "x", "resources": {"requests": {"cpu": "3", "memory": "1Gi", "ephemeral-storage": "1Gi"}, "limits": {"cpu": "3", "memory": "2Gi", "ephemeral-storage": "2Gi"}}},
        ]);
        spec["initContainers"] = json!([
            {"name": "first", "image": "x"},
            {"name": "sidecar", "image": "x", "restartPolicy": "Always", "resources": {"limits": {"hugepages-2Mi": "2Mi", "memory": "64Mi", "cpu": "1"}}},
        ]);
        scene.apply(&daemon_set).await?;
        let api: Api<Pod> = scene.pods_api();
        let pod = soon(|| async {
            let pods = api.list(&ListParams::default()).await?.items;
            let pod = pods.into_iter().next().ok_or_else(|| anyhow::anyhow!("no pod"))?;
            Ok(serde_json::to_value(pod)?)
        })
        .await?;
        for section in ["containers", "initContainers"] {
            for container in pod["spec"][section].as_array().unwrap() {
                let resources = &container["resources"];
                assert_eq!((&resources["limits"]["cpu"], &resources["requests"]["memory"]), (&json!("400m"), &json!("2576980377")), "{container}");
            }
        }
        assert_eq!(pod["spec"]["containers"][1]["resources"]["limits"]["ephemeral-storage"], "2Gi");
        assert_eq!(pod["spec"]["initContainers"][1]["resources"]["limits"]["hugepages-2Mi"], "2Mi");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn pods_made_without_us_are_resized_or_reported_and_replaced_only_when_asked() {
    scene("drift", |scene| async move {
        scene.node("n", "4", "16Gi", Some("100Gi")).await?;
        let mut template = scene.template();
        template["spec"]["managedResources"] = json!(["cpu", "memory"]);
        scene.apply(&template).await?;
        // Made before its DaemonSet asks for the template, as a pod is that is made while we cannot be reached.
        let mut daemon_set = scene.daemon_set();
        daemon_set["metadata"]["annotations"] = json!({});
        scene.apply(&daemon_set).await?;
        let bare = scene.await_pods(1).await?;
        let asks = json!({"metadata": {"annotations": {keys::RESOURCE_TEMPLATE: scene.name}}});
        let api: Api<DaemonSet> = Api::namespaced(scene.client.clone(), &scene.name);
        api.patch("example-daemonset", &PatchParams::default(), &Patch::Merge(asks)).await?;
        scene.await_event("DriftedPods", "cannot be resized").await?;
        soon(|| async {
            let status = scene.status().await?;
            anyhow::ensure!(
                status["drifted"] == 1 && status["conditions"][1]["status"] == "False",
                "{status}"
            );
            Ok(())
        })
        .await?;
        assert_eq!(scene.pods().await?["n"]["metadata"]["uid"], bare["n"]["metadata"]["uid"]);
        scene.patch_template(json!({"onDrift": "Recreate"})).await?;
        soon(|| async {
            let pods = scene.pods().await?;
            let pod = pods.get("n").ok_or_else(|| anyhow::anyhow!("no pod"))?;
            anyhow::ensure!(resources(pod)["limits"]["cpu"] == "400m", "{}", resources(pod));
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn pods_that_admission_does_not_size_are_never_replaced() {
    scene("system", |scene| async move {
        scene.node("n", "4", "16Gi", Some("100Gi")).await?;
        let mut template = scene.template();
        template["spec"]["onDrift"] = json!("Recreate");
        scene.apply(&template).await?;
        // Our webhook is not registered for kube-system: a replacement would come back as it was, for ever.
        let mut system = scene.daemon_set();
        system["metadata"]["name"] = json!(scene.name);
        system["metadata"]["namespace"] = json!("kube-system");
        system["spec"]["selector"] = json!({"matchLabels": {"app": scene.name}});
        system["spec"]["template"]["metadata"]["labels"] = json!({"app": scene.name});
        scene.apply(&system).await?;
        let pods: Api<Pod> = Api::namespaced(scene.client.clone(), "kube-system");
        let running = || async {
            let all = pods.list(&ListParams::default().labels(&format!("app={}", scene.name))).await?.items;
            let pod = all.into_iter().next().ok_or_else(|| anyhow::anyhow!("no pod"))?;
            let pod = serde_json::to_value(pod)?;
            anyhow::ensure!(pod["status"]["phase"] == "Running", "it does not run");
            Ok(pod)
        };
        let before = soon(running).await?;
        // A DaemonSet that is ours shows when the controller has come by, twice.
        scene.apply(&scene.daemon_set()).await?;
        scene.await_pods(1).await?;
        for percent in [20, 30] {
            scene.patch_template(json!({"cpuPercentage": percent})).await?;
            scene.await_cpu("n", &format!("{}m", 40 * percent)).await?;
        }
        let after = soon(running).await?;
        assert_eq!((&after["metadata"]["uid"], resources(&after)), (&before["metadata"]["uid"], &json!({})));
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_deleted_daemon_set_no_longer_counts() {
    scene("gone", |scene| async move {
        scene.node("n", "4", "16Gi", Some("100Gi")).await?;
        scene.apply(&scene.template()).await?;
        scene.apply(&scene.daemon_set()).await?;
        let counts = |daemon_sets: i64, in_use: i64| {
            let scene = &scene;
            soon(move || async move {
                let status = scene.status().await?;
                anyhow::ensure!(status["daemonSets"] == daemon_sets && status["inUse"] == in_use, "{status}");
                Ok(())
            })
        };
        counts(1, 1).await?;
        let api: Api<DaemonSet> = Api::namespaced(scene.client.clone(), &scene.name);
        api.delete("example-daemonset", &DeleteParams::background()).await?;
        counts(0, 0).await
    })
    .await;
}

#[tokio::test]
async fn a_daemon_set_may_ask_for_its_pods_to_come_up_anyway() {
    scene("anyway", |scene| async move {
        scene.node("n", "4", "16Gi", Some("100Gi")).await?;
        let mut daemon_set = scene.daemon_set();
        daemon_set["metadata"]["annotations"][keys::SIZING_ON_ERROR] = json!("Allow");
        scene.apply(&daemon_set).await?;
        assert_eq!(*resources(&scene.await_pods(1).await?["n"]), json!({}));
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_bound_that_is_no_quantity_is_refused_by_the_api_server() {
    scene("bounds", |scene| async move {
        for (field, value, part) in
            [("minCPU", "lots", "must be a quantity"), ("maxMemory", "1Mi", "must not be more than")]
        {
            let mut template = scene.template();
            template["spec"][field] = json!(value);
            let error = scene.apply(&template).await.unwrap_err();
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
        let mut template = scene.template();
        template["spec"]["cpuPercentage"] = json!(101);
        assert!(scene.apply(&template).await.is_err());
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn pods_that_are_no_daemon_sets_never_reach_the_webhook() {
    in_namespace(options().await, "no-daemon", |client, namespace| async move {
        for index in 0..100 {
            let mut pod = peer_pod(&format!("p{index}"), &json!([{"name": "a", "image": "x"}]));
            pod.spec.as_mut().unwrap().runtime_class_name = None;
            crate::labs::create(&client, &namespace, &pod).await?;
        }
        let metrics = crate::peer_pods::metrics(options().await.replica(0)?.ports().metrics).await?;
        assert!(!metrics.contains("feature=\"sizing\""), "{metrics}");
        Ok(())
    })
    .await;
}
