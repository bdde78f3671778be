//! DaemonSet pods as a share of their node, with the real DaemonSet controller.

mod running;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Event, Pod},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use podwright_api::{flex::FlexDaemonsetTemplate, keys};
use podwright_lab::NodeShape;
use serde_json::{Value, json};

use crate::labs::{in_namespace, options, peer_pod, plain, soon};

const TEMPLATE: &str = include_str!("../../../../examples/sizing/template.yaml");
const DAEMON_SET: &str = include_str!("../../../../examples/sizing/daemonset.yaml");

/// One test's template, DaemonSet and nodes, all named after its namespace.
struct Scene {
    client: Client,
    name: String,
}

impl Scene {
    fn template(&self) -> Value {
        let mut template: Value = serde_saphyr::from_str(TEMPLATE).unwrap();
        template["metadata"]["name"] = json!(self.name);
        template
    }

    /// The example's DaemonSet, kept to this test's nodes.
    fn daemon_set(&self) -> Value {
        let mut daemon_set: Value = serde_saphyr::from_str(DAEMON_SET).unwrap();
        daemon_set["metadata"]["annotations"][keys::RESOURCE_TEMPLATE] = json!(self.name);
        daemon_set["spec"]["template"]["spec"]["nodeSelector"] = json!({"scene": self.name});
        daemon_set
    }

    async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        plain().await.apply(&self.name, &object.to_string()).await
    }

    fn shape(&self, suffix: &str) -> NodeShape {
        NodeShape::new(format!("{}-{suffix}", self.name)).label("scene", &self.name)
    }

    async fn node(&self, suffix: &str, cpu: &str, memory: &str, storage: Option<&str>) -> anyhow::Result<()> {
        plain().await.add_node(&self.shape(suffix).cpu(cpu).memory(memory).storage(storage)).await
    }

    fn pods_api(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Running pods by the suffix of their node.
    async fn pods(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        let pods = self.pods_api().list(&ListParams::default().fields("status.phase=Running")).await?;
        pods.items
            .into_iter()
            .map(|pod| {
                let pod = serde_json::to_value(pod)?;
                let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
                Ok((node.strip_prefix(&format!("{}-", self.name)).unwrap_or(&node).to_owned(), pod))
            })
            .collect()
    }

    async fn await_pods(&self, count: usize) -> anyhow::Result<BTreeMap<String, Value>> {
        soon(|| async {
            let pods = self.pods().await?;
            anyhow::ensure!(pods.len() == count, "{} of {count} pods run", pods.len());
            Ok(pods)
        })
        .await
    }

    async fn patch_template(&self, spec: Value) -> anyhow::Result<()> {
        let api: Api<FlexDaemonsetTemplate> = Api::all(self.client.clone());
        api.patch(&self.name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
        Ok(())
    }

    async fn status(&self) -> anyhow::Result<Value> {
        let api: Api<FlexDaemonsetTemplate> = Api::all(self.client.clone());
        Ok(serde_json::to_value(api.get(&self.name).await?.status)?)
    }

    async fn await_event(&self, reason: &str, part: &str) -> anyhow::Result<()> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.name);
        soon(|| async {
            let all = events.list(&ListParams::default()).await?.items;
            let told = all.iter().any(|event| {
                event.reason.as_deref() == Some(reason)
                    && event.message.as_deref().unwrap_or_default().contains(part)
            });
            anyhow::ensure!(told, "no event {reason} that says {part:?}");
            Ok(())
        })
        .await
    }
}

fn resources(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["resources"]
}

fn equal(cpu: &str, memory: &str, storage: Option<&str>) -> Value {
    let mut amounts = json!({"cpu": cpu, "memory": memory});
    if let Some(storage) = storage {
        amounts["ephemeral-storage"] = json!(storage);
    }
    json!({"requests": amounts, "limits": amounts})
}

async fn scene<F: Future<Output = anyhow::Result<()>>>(prefix: &str, body: impl FnOnce(Scene) -> F) {
    in_namespace(plain().await, prefix, |client, name| body(Scene { client, name })).await;
}

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
async fn a_changed_template_resizes_fifty_running_pods_in_place_and_then_rests() {
    scene("resize", |scene| async move {
        for index in 0..50 {
            scene.node(&index.to_string(), "4", "16Gi", Some("100Gi")).await?;
        }
        scene.apply(&scene.template()).await?;
        scene.apply(&scene.daemon_set()).await?;
        let before = scene.await_pods(50).await?;
        let started = Instant::now();
        scene.patch_template(json!({"cpuPercentage": 20})).await?;
        soon(|| async {
            let pods = scene.pods().await?;
            let done = pods.values().filter(|pod| resources(pod)["limits"]["cpu"] == "800m").count();
            anyhow::ensure!(done == 50, "{done} of 50 pods are resized");
            Ok(())
        })
        .await?;
        let took = started.elapsed();
        println!("50 pods resized in {:.1} s", took.as_secs_f64());
        anyhow::ensure!(took < Duration::from_secs(10), "it took {took:?}");
        let after = scene.pods().await?;
        for (node, pod) in &before {
            assert_eq!(after[node]["metadata"]["uid"], pod["metadata"]["uid"]);
            assert_eq!(after[node]["status"]["containerStatuses"][0]["restartCount"], 0);
        }
        rests(&scene).await
    })
    .await;
}

/// No pod of the scene is written to by us while the lease is renewed three times.
async fn rests(scene: &Scene) -> anyhow::Result<()> {
    let audit = || {
        let text = std::fs::read_to_string(plain_log()).unwrap();
        let ours = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(|entry| {
            entry["user"]["username"] == "system:serviceaccount:podwright-system:podwright"
                && !matches!(entry["verb"].as_str(), Some("get" | "list" | "watch"))
        });
        let (mut leases, mut pods) = (0, 0);
        for entry in ours {
            leases += usize::from(entry["objectRef"]["resource"] == "leases");
            pods += usize::from(entry["objectRef"]["namespace"] == scene.name.as_str());
        }
        (leases, pods)
    };
    // The annotation and the status follow the resize.
    let mut last = audit();
    soon(|| {
        let now = audit();
        let settled = now.1 == last.1 && now.0 > last.0;
        if now.1 != last.1 {
            last = now;
        }
        async move {
            anyhow::ensure!(settled, "still writing");
            Ok(())
        }
    })
    .await?;
    let (leases, pods) = audit();
    soon(|| async {
        anyhow::ensure!(audit().0 >= leases + 3, "no three renewals yet");
        Ok(())
    })
    .await?;
    anyhow::ensure!(audit().1 == pods, "{} writes at rest", audit().1 - pods);
    Ok(())
}

fn plain_log() -> std::path::PathBuf {
    crate::labs::plain_now().log("audit")
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
            soon(|| async {
                let pods = scene.pods().await?;
                let cpu = pods.get("n").map(|pod| resources(pod)["limits"]["cpu"].clone());
                anyhow::ensure!(cpu == Some(json!(format!("{}m", 40 * percent))), "{cpu:?}");
                Ok(())
            })
            .await?;
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
