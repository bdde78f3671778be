//! Where pods land, as the real scheduler sees it.

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use podwright_api::keys;
use podwright_lab::{NodeShape, registry::image};
use serde_json::{Value, json};

use super::ground::{Scene, architectures, ground, pod, scene, terms, tolerates_arm};
use crate::{injector, labs::soon};

/// Pushes an image for these platforms and gives its name.
pub(super) async fn pushed(scene: &Scene<'_>, name: &str, platforms: &[&str]) -> anyhow::Result<String> {
    let repository = format!("{}/{name}", scene.namespace);
    let made = image(&repository).tag("1").platforms(platforms.iter().copied());
    Ok(made.push(&scene.ground.registries.open).await?.by_tag())
}

#[tokio::test]
async fn each_pod_lands_where_its_images_run_and_disjoint_ones_wait_with_a_reason() {
    scene(ground().await, "lands", |scene| async move {
        let arm = pushed(&scene, "arm", &["linux/arm64"]).await?;
        let amd = pushed(&scene, "amd", &["linux/amd64"]).await?;
        let both = pushed(&scene, "both", &["linux/amd64", "linux/arm64"]).await?;
        for (name, images) in
            [("arm", &[&arm[..]][..]), ("amd", &[&amd]), ("both", &[&both]), ("side", &[&both, &arm])]
        {
            let answer = scene.create(&pod(name, images)).await?;
            assert_eq!(answer.warnings, Vec::<String>::new());
        }
        assert_eq!(scene.lands_on("arm").await?, "arm64");
        assert_eq!(scene.lands_on("amd").await?, "amd64");
        assert_eq!(scene.lands_on("side").await?, "arm64");
        scene.lands_on("both").await?;
        let open = scene.get("both").await?;
        assert!(terms(&open).is_null() && tolerates_arm(&open), "{}", open["spec"]);
        assert!(!tolerates_arm(&scene.get("amd").await?));

        let answer = scene.create(&pod("torn", &[&arm, &amd])).await?;
        let told = answer.warnings.join("\n");
        assert!(
            told.contains(&format!("{arm} offers linux/arm64"))
                && told.contains(&format!("{amd} offers linux/amd64")),
            "{told}"
        );
        let event = scene.await_event("torn", "NoCommonPlatform").await?;
        assert!(event.contains(&arm) && event.contains("linux/arm64") && event.contains(&amd), "{event}");
        let event = scene.await_event("torn", "FailedScheduling").await?;
        assert!(event.contains("node affinity"), "{event}");
        let torn = scene.get("torn").await?;
        assert!(terms(&torn).to_string().contains(keys::IMPOSSIBLE_NO_COMMON_PLATFORM), "{torn}");
        assert_eq!(torn["status"]["phase"], "Pending");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_preference_is_followed_where_there_is_room_and_given_up_where_there_is_none() {
    scene(ground().await, "prefers", |scene| async move {
        let both = pushed(&scene, "both", &["linux/amd64", "linux/arm64"]).await?;
        for (architecture, other) in [("arm64", "amd64"), ("amd64", "arm64")] {
            let mut wish = pod(&format!("wants-{architecture}"), &[&both]);
            wish["metadata"]["annotations"] = json!({keys::PREFERRED_ARCHITECTURES: architecture});
            scene.create(&wish).await?;
            assert_eq!(scene.lands_on(&format!("wants-{architecture}")).await?, architecture);
            let mut elsewhere = wish.clone();
            elsewhere["metadata"]["name"] = json!(format!("settles-for-{other}"));
            elsewhere["spec"]["nodeSelector"] = if other == "arm64" {
                json!({"kubernetes.io/hostname": "arm-0"})
            } else {
                json!({"kubernetes.io/hostname": "node-000"})
            };
            scene.create(&elsewhere).await?;
            assert_eq!(scene.lands_on(&format!("settles-for-{other}")).await?, other);
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn of_two_alternatives_neither_escapes_the_architecture() {
    scene(ground().await, "escape", |scene| async move {
        let name = &scene.namespace;
        let lab = &scene.ground.lab;
        for (suffix, zone) in [("a", "lab-a"), ("b", "lab-b")] {
            lab.add_node(&NodeShape::new(format!("{name}-{suffix}")).zone(zone).label("scene", name)).await?;
        }
        let arm = pushed(&scene, "arm", &["linux/arm64"]).await?;
        let mut torn = pod("two-terms", &[&arm]);
        let zone = |zone: &str| json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]});
        // The nodes of this test, which are amd64, or any in zone b, one of which is arm64.
        let ours = json!({"matchExpressions": [{"key": "scene", "operator": "In", "values": [name]}]});
        torn["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [ours, zone("lab-b")],
        }}});
        scene.create(&torn).await?;
        assert_eq!(scene.lands_on("two-terms").await?, "arm64");
        let placed = scene.get("two-terms").await?;
        assert_eq!(terms(&placed).as_array().map(Vec::len), Some(2), "{placed}");
        for term in terms(&placed).as_array().unwrap() {
            let last = term["matchExpressions"].as_array().unwrap().last().unwrap();
            assert_eq!(*last, json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}));
        }
        // With both alternatives closed the pod waits: there is no way around.
        torn["metadata"]["name"] = json!("closed");
        torn["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
            json!([ours, {"matchExpressions": [{"key": "scene", "operator": "Exists"}, {"key": "topology.kubernetes.io/zone", "operator": "Exists"}]}]);
        scene.create(&torn).await?;
        scene.await_event("closed", "FailedScheduling").await?;
        assert_eq!(scene.get("closed").await?["status"]["phase"], "Pending");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn an_injected_sidecar_has_its_say() {
    scene(ground().await, "sidecar", |scene| async move {
        let both = pushed(&scene, "both", &["linux/amd64", "linux/arm64"]).await?;
        let arm = pushed(&scene, "arm", &["linux/arm64"]).await?;
        let sidecar = json!({"name": "injected", "image": arm, "imagePullPolicy": "IfNotPresent"});
        let _injector = injector::start(&scene.client, &scene.namespace, sidecar).await?;
        soon(|| async {
            let answer = scene.try_out(&pod("probe", &[&both])).await?;
            anyhow::ensure!(
                answer.object["spec"]["containers"][1]["name"] == "injected",
                "nothing is injected yet"
            );
            Ok(())
        })
        .await?;
        scene.create(&pod("app", &[&both])).await?;
        assert_eq!(scene.lands_on("app").await?, "arm64");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn pods_that_are_none_of_our_business_never_leave_the_api_server() {
    scene(ground().await, "alone", |scene| async move {
        let arm = pushed(&scene, "arm", &["linux/arm64"]).await?;
        let with = |pointer: &str, value: Value| {
            let mut made = pod("left-alone", &[&arm]);
            let (section, field) = pointer.split_once('.').unwrap();
            made[section][field] = value;
            made
        };
        for untouched in [
            with("metadata.labels", json!({keys::ARCHITECTURE: keys::OFF})),
            with("spec.nodeName", json!("node-000")),
            with("spec.nodeSelector", json!({"kubernetes.io/arch": "amd64"})),
            with("spec.nodeSelector", json!({"beta.kubernetes.io/arch": "amd64"})),
        ] {
            let answer = scene.try_out(&untouched).await?;
            assert_eq!(answer.status, 201, "{answer:?}");
            assert!(terms(&answer.object).is_null() && !tolerates_arm(&answer.object), "{answer:?}");
            assert!(answer.object["metadata"]["annotations"].is_null(), "{answer:?}");
        }
        assert_eq!(architectures(&scene.try_out(&pod("ours", &[&arm])).await?.object), ["arm64"]);

        let daemon_set: DaemonSet = serde_json::from_value(json!({
            "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}},
                "template": {"metadata": {"labels": {"app": "agent"}}, "spec": pod("x", &[&arm])["spec"]},
            },
        }))?;
        Api::<DaemonSet>::namespaced(scene.client.clone(), &scene.namespace)
            .create(&PostParams::default(), &daemon_set)
            .await?;
        let made = soon(|| async {
            let all = scene.pods().list(&ListParams::default().labels("app=agent")).await?.items;
            all.into_iter().next().ok_or_else(|| anyhow::anyhow!("no pod of the DaemonSet yet"))
        })
        .await?;
        let made = serde_json::to_value(made)?;
        assert!(made["metadata"]["annotations"].is_null() && architectures(&made).is_empty(), "{made}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_peer_pods_image_does_not_choose_its_node() {
    scene(ground().await, "peers", |scene| async move {
        let arm = pushed(&scene, "arm", &["linux/arm64"]).await?;
        let mut peer = pod("peer", &[&arm]);
        peer["spec"]["runtimeClassName"] = json!("kata-remote");
        let answer = scene.try_out(&peer).await?;
        assert_eq!(answer.status, 201, "{answer:?}");
        assert!(terms(&answer.object).is_null() && !tolerates_arm(&answer.object), "{answer:?}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_examples_land_as_they_say() {
    scene(ground().await, "examples", |scene| async move {
        for (name, tag, platforms) in [
            ("library/nginx", "1.29", &["linux/amd64", "linux/arm64"][..]),
            ("arm64v8/nginx", "1.29", &["linux/arm64"]),
            ("amd64/busybox", "1.37", &["linux/amd64"]),
        ] {
            let made = image(name).tag(tag).platforms(platforms.iter().copied());
            made.push(&scene.ground.registries.open).await?;
        }
        for manifest in [
            include_str!("../../../../../examples/architecture/deployment.yaml"),
            include_str!("../../../../../examples/architecture/arm64-only.yaml"),
            include_str!("../../../../../examples/architecture/amd64-sidecar.yaml"),
            include_str!("../../../../../examples/architecture/no-common-platform.yaml"),
        ] {
            scene.ground.lab.apply(&scene.namespace, manifest).await?;
        }
        assert_eq!(scene.lands_on("arm64-only").await?, "arm64");
        assert_eq!(scene.lands_on("amd64-sidecar").await?, "amd64");
        scene.await_event("no-common-platform", "NoCommonPlatform").await?;
        soon(|| async {
            let running = ListParams::default().labels("app=web").fields("status.phase=Running");
            let pods = scene.pods().list(&running).await?.items;
            let nodes = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
            anyhow::ensure!(
                nodes.filter(|node| node.starts_with("arm-")).count() == 3,
                "not all run on arm64"
            );
            Ok(())
        })
        .await
    })
    .await;
}
