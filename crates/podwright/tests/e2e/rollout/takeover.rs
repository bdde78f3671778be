//! What the Go controller leaves is taken on as it is: nothing is deleted, nothing created.
//!
//! The objects are written by hand, in the shapes that it writes: defaults in the spec, hashes that only it can compute (here any
//! text, because no recomputing may be needed), random names, tolerations without pid-pressure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Pod, PodTemplate},
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use md5::{Digest, Md5};
use podwright_api::eds::{ExtendedDaemonSet, ExtendedDaemonSetReplicaSet, ExtendedDaemonsetSetting};
use podwright_lab::Lab;
use serde_json::{Value, json};

use super::scene::{CONFIG, Scene, scene_in, uid_of};
use crate::labs::{SOON, soon, start_with};

/// What the Go controller writes for a template is up to its library's version: no hash of ours can be equal to it.
const HASH: &str = "0123456789abcdef0123456789abcdef";
const OLD_HASH: &str = "fedcba9876543210fedcba9876543210";

/// A lab whose Podwright does not run yet.
async fn stopped() -> Lab {
    let lab = start_with(1, CONFIG, &["--features", "rollout"]).await;
    lab.replica(0).unwrap().terminate().await.unwrap();
    lab
}

async fn swap_in(scene: &Scene<'_>) -> anyhow::Result<()> {
    scene.lab.replica(0)?.start().await?;
    scene.lab.replica(0)?.await_ready(SOON).await
}

impl Scene<'_> {
    /// The spec as the Go controller leaves it: with every default written into it.
    fn defaulted(&self, version: &str) -> Value {
        let mut wanted = self.foo(version);
        wanted["spec"]["strategy"] = json!({
            "reconcileFrequency": "10s",
            "rollingUpdate": {
                "maxUnavailable": 1, "maxPodSchedulerFailure": 0, "maxParallelPodCreation": 250,
                "slowStartIntervalDuration": "1m0s", "slowStartAdditiveIncrease": 1,
            },
        });
        wanted["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
        wanted["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
        wanted
    }

    async fn make_set(&self, set: &Value) -> anyhow::Result<ExtendedDaemonSet> {
        let set = serde_json::from_value(set.clone())?;
        Ok(self.sets().create(&PostParams::default(), &set).await?)
    }

    async fn make_replica_set(
        &self,
        set: &ExtendedDaemonSet,
        name: &str,
        template: &Value,
        hash: &str,
        status: Value,
    ) -> anyhow::Result<ExtendedDaemonSetReplicaSet> {
        let mut labels = json!({"extendeddaemonset.datadoghq.com/name": set.name_any()});
        for (key, value) in set.labels() {
            labels[key] = json!(value);
        }
        let object = serde_json::from_value(json!({
            "apiVersion": "datadoghq.com/v1alpha1", "kind": "ExtendedDaemonSetReplicaSet",
            "metadata": {
                "name": name, "generateName": format!("{}-", set.name_any()), "labels": labels,
                "annotations": {"extendeddaemonset.datadoghq.com/templatehash": hash},
                "ownerReferences": [owner("ExtendedDaemonSet", &set.name_any(), &set.uid().unwrap_or_default())],
            },
            "spec": {"template": template, "templateGeneration": hash},
        }))?;
        let made = self.replica_sets().create(&PostParams::default(), &object).await?;
        let status = json!({"status": status});
        let stored =
            self.replica_sets().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(ExtendedDaemonSetReplicaSet { metadata: made.metadata, ..stored })
    }

    /// A pod as the Go controller makes it.
    async fn make_pod(&self, made: &PodOf<'_>) -> anyhow::Result<()> {
        let (set, replica_set) = (made.set, made.replica_set.name_any());
        let mut pod = replica_set_template(made.replica_set);
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(format!("{replica_set}-{}", made.suffix));
        pod["metadata"]["generateName"] = json!(format!("{replica_set}-"));
        pod["metadata"]["labels"]["extendeddaemonset.datadoghq.com/name"] = json!(set);
        pod["metadata"]["labels"]["extendeddaemonsetreplicaset.datadoghq.com/name"] = json!(replica_set);
        pod["metadata"]["annotations"]["extendeddaemonset.datadoghq.com/templatehash"] =
            json!(made.replica_set.spec.template_generation);
        pod["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/daemonset-pod"] = json!("true");
        for (key, value) in &made.labels {
            pod["metadata"]["labels"][key] = json!(value);
        }
        for (key, value) in &made.annotations {
            pod["metadata"]["annotations"][key] = json!(value);
        }
        if let Some(resources) = &made.resources {
            pod["spec"]["containers"][0]["resources"] = resources.clone();
        }
        let uid = made.replica_set.uid().unwrap_or_default();
        pod["metadata"]["ownerReferences"] =
            json!([owner("ExtendedDaemonSetReplicaSet", &replica_set, &uid)]);
        let tolerations: Vec<Value> = [
            ("not-ready", "NoExecute"),
            ("unreachable", "NoExecute"),
            ("disk-pressure", "NoSchedule"),
            ("memory-pressure", "NoSchedule"),
            ("unschedulable", "NoSchedule"),
            ("network-unavailable", "NoSchedule"),
        ]
        .map(|(key, effect)| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect}))
        .into();
        pod["spec"]["tolerations"] = json!(tolerations);
        pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [self.node_name(made.node)]},
            ]}],
        }}});
        let pod: Pod = serde_json::from_value(pod)?;
        self.pods_api().create(&PostParams::default(), &pod).await?;
        Ok(())
    }

    async fn store(&self, name: &str, status: Value) -> anyhow::Result<()> {
        let status = json!({"status": status});
        self.sets().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// So many pods serve, whatever they are.
    async fn await_serving(&self, count: usize) -> anyhow::Result<BTreeMap<String, Value>> {
        soon(|| async {
            let pods = self.serving().await?;
            anyhow::ensure!(pods.len() == count, "{} of {count}", pods.len());
            Ok(pods)
        })
        .await
    }

    /// After the swap: what was there is there, and no pod and no replica set was written.
    async fn was_taken_over(&self, before: &BTreeMap<String, Value>, count: i32) -> anyhow::Result<()> {
        self.await_done("foo", count).await?;
        self.settled().await?;
        let after = self.serving().await?;
        anyhow::ensure!(after.len() == before.len(), "{:?}", after.keys());
        for (node, pod) in before {
            anyhow::ensure!(uid_of(pod) == uid_of(&after[node]), "the pod on {node} was replaced");
        }
        let writes = self.writes()?;
        for deed in [
            "create pods",
            "delete pods",
            "create extendeddaemonsetreplicasets",
            "delete extendeddaemonsetreplicasets",
        ] {
            anyhow::ensure!(!writes.contains_key(deed), "{deed}: {writes:?}");
        }
        println!("{writes:?}");
        Ok(())
    }
}

struct PodOf<'a> {
    set: &'a str,
    replica_set: &'a ExtendedDaemonSetReplicaSet,
    node: &'a str,
    suffix: &'a str,
    labels: Vec<(String, String)>,
    annotations: Vec<(String, String)>,
    resources: Option<Value>,
}

impl<'a> PodOf<'a> {
    fn plain(replica_set: &'a ExtendedDaemonSetReplicaSet, node: &'a str, suffix: &'a str) -> Self {
        Self {
            set: "foo",
            replica_set,
            node,
            suffix,
            labels: Vec::new(),
            annotations: Vec::new(),
            resources: None,
        }
    }
}

fn replica_set_template(replica_set: &ExtendedDaemonSetReplicaSet) -> Value {
    replica_set.spec.template.0.clone()
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "datadoghq.com/v1alpha1", "kind": kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

fn active_status(count: i32) -> Value {
    let now = jiff_now();
    json!({
        "status": "active", "desired": count, "current": count, "ready": count, "available": count,
        "ignoredUnresponsiveNodes": 0,
        "conditions": [
            {"type": "Active", "status": "True", "lastTransitionTime": now, "lastUpdateTime": now},
            {"type": "PodCreation", "status": "True", "lastTransitionTime": now, "lastUpdateTime": now, "message": "pods created"},
            {"type": "LastFullSync", "status": "True", "lastTransitionTime": now, "lastUpdateTime": now, "message": "full sync"},
        ],
    })
}

fn set_status(count: i32, active: &str) -> Value {
    json!({
        "desired": count, "current": count, "ready": count, "available": count, "upToDate": count,
        "ignoredUnresponsiveNodes": 0, "state": "Running", "activeReplicaSet": active,
    })
}

fn jiff_now() -> String {
    let now = Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[tokio::test]
async fn pods_overrides_and_replica_sets_of_the_go_controller_are_taken_on_as_they_are() {
    let lab = stopped().await;
    scene_in(&lab, "swap", |scene| async move {
        scene.nodes(3).await?;
        let limits = r#"{"limits":{"cpu": "1"}}"#;
        let key = format!("resources.extendeddaemonset.datadoghq.com/{}.foo.daemon", scene.name);
        scene.patch_node("1", json!({"metadata": {"annotations": {key.as_str(): limits}}})).await?;
        scene.patch_node("2", json!({"metadata": {"labels": {"pool": "big"}}})).await?;
        let set = scene.make_set(&scene.defaulted("3.0")).await?;
        let setting = json!({
            "apiVersion": "datadoghq.com/v1alpha1", "kind": "ExtendedDaemonsetSetting", "metadata": {"name": "big"},
            "spec": {
                "reference": {"kind": "ExtendedDaemonset", "name": "foo"}, "nodeSelector": {"matchLabels": {"pool": "big"}},
                "containers": [{"name": "daemon", "resources": {"requests": {"cpu": "500m"}}}],
            },
        });
        scene.apply(&setting).await?;
        let settings: Api<ExtendedDaemonsetSetting> = scene.settings();
        let valid = json!({"status": {"status": "valid"}});
        settings.patch_status("big", &PatchParams::default(), &Patch::Merge(valid)).await?;
        let template = set.spec.template.0.clone();
        let active = scene.make_replica_set(&set, "foo-8z7lr", &template, HASH, active_status(3)).await?;
        scene.make_pod(&PodOf::plain(&active, "0", "bp9w8")).await?;
        // The digest of the annotation, which is the same in every language.
        let digest = Md5::digest(format!("{key}={limits}"));
        let digest = digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        scene
            .make_pod(&PodOf {
                annotations: vec![("extendeddaemonset.datadoghq.com/nodehash".to_owned(), digest)],
                resources: Some(json!({"limits": {"cpu": "1"}})),
                ..PodOf::plain(&active, "1", "jlvrq")
            })
            .await?;
        scene
            .make_pod(&PodOf {
                labels: vec![
                    ("extendeddaemonsetsetting.datadoghq.com/name".to_owned(), "big".to_owned()),
                    ("extendeddaemonsetsetting.datadoghq.com/namespace".to_owned(), scene.name.clone()),
                ],
                resources: Some(json!({"requests": {"cpu": "500m"}})),
                ..PodOf::plain(&active, "2", "zvss2")
            })
            .await?;
        let templates: Api<PodTemplate> = Api::namespaced(scene.client.clone(), &scene.name);
        let pod_template: PodTemplate = serde_json::from_value(json!({
            "metadata": {
                "name": "foo", "labels": {"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"},
                "annotations": {"extendeddaemonset.datadoghq.com/templatehash": HASH},
                "ownerReferences": [owner("ExtendedDaemonSet", "foo", &set.uid().unwrap_or_default())],
            },
            "template": template,
        }))?;
        templates.create(&PostParams::default(), &pod_template).await?;
        scene.store("foo", set_status(3, "foo-8z7lr")).await?;
        let before = scene.await_serving(3).await?;
        swap_in(&scene).await?;
        scene.was_taken_over(&before, 3).await?;

        // And from then on it is ours: a new template goes everywhere, the overrides with it.
        let mut wanted = scene.foo("3.1");
        wanted["spec"]["strategy"]["rollingUpdate"]["slowStartAdditiveIncrease"] = json!(10);
        scene.apply(&wanted).await?;
        let after = scene.await_version("3.1", 3).await?;
        let resources = |node: &str| after[node]["spec"]["containers"][0]["resources"].clone();
        anyhow::ensure!(resources("1")["limits"]["cpu"] == "1", "{}", resources("1"));
        anyhow::ensure!(resources("2")["requests"]["cpu"] == "500m", "{}", resources("2"));
        soon(|| async {
            let roles = scene.roles().await?;
            anyhow::ensure!(roles.len() == 1 && !roles.contains_key("foo-8z7lr"), "{roles:?}");
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn a_rollout_that_the_go_controller_began_is_finished_and_nothing_begins_anew() {
    let lab = stopped().await;
    scene_in(&lab, "halfway", |scene| async move {
        scene.nodes(3).await?;
        let mut spec = scene.defaulted("3.1");
        spec["spec"]["strategy"]["rollingUpdate"]["slowStartAdditiveIncrease"] = json!(10);
        let set = scene.make_set(&spec).await?;
        let template = set.spec.template.0.clone();
        let mut old_template = template.clone();
        old_template["spec"]["containers"][0]["image"] = json!("registry.k8s.io/pause:3.0");
        let old_status = json!({"status": "unknown", "desired": 0, "current": 2, "ready": 2, "available": 2, "ignoredUnresponsiveNodes": 0});
        let old = scene.make_replica_set(&set, "foo-8z7lr", &old_template, OLD_HASH, old_status).await?;
        let active = scene.make_replica_set(&set, "foo-xdj4b", &template, HASH, active_status(3)).await?;
        scene.make_pod(&PodOf::plain(&active, "0", "hh6d8")).await?;
        scene.make_pod(&PodOf::plain(&old, "1", "bp9w8")).await?;
        scene.make_pod(&PodOf::plain(&old, "2", "jlvrq")).await?;
        let mut status = set_status(3, "foo-xdj4b");
        status["upToDate"] = json!(1);
        scene.store("foo", status).await?;
        let before = scene.await_serving(3).await?;
        swap_in(&scene).await?;
        let after = scene.await_version("3.1", 3).await?;
        anyhow::ensure!(uid_of(&after["0"]) == uid_of(&before["0"]), "the pod that was done is left alone");
        let writes = scene.writes()?;
        let of = |deed: &str| writes.get(deed).copied().unwrap_or(0);
        anyhow::ensure!(of("create pods") == 2 && of("delete pods") == 2, "{writes:?}");
        anyhow::ensure!(of("create extendeddaemonsetreplicasets") == 0, "{writes:?}");
        let status = scene.await_done("foo", 3).await?;
        anyhow::ensure!(status.active_replica_set == "foo-xdj4b", "{}", status.active_replica_set);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_canary_that_the_go_controller_began_goes_on_where_it_is() {
    let lab = stopped().await;
    scene_in(&lab, "trial", |scene| async move {
        scene.nodes(3).await?;
        let mut spec = scene.defaulted("3.1");
        spec["spec"]["strategy"]["canary"] = json!({
            "replicas": 1, "duration": "10m0s", "noRestartsDuration": "5m0s", "validationMode": "auto",
            "nodeSelector": {"matchLabels": {}}, "autoPause": {"enabled": true, "maxRestarts": 2},
            "autoFail": {"enabled": true, "maxRestarts": 5},
        });
        let set = scene.make_set(&spec).await?;
        let template = set.spec.template.0.clone();
        let mut old_template = template.clone();
        old_template["spec"]["containers"][0]["image"] = json!("registry.k8s.io/pause:3.0");
        let active = scene.make_replica_set(&set, "foo-8z7lr", &old_template, OLD_HASH, active_status(2)).await?;
        let now = jiff_now();
        let tried = json!({
            "status": "canary", "desired": 1, "current": 1, "ready": 1, "available": 1, "ignoredUnresponsiveNodes": 0,
            "conditions": [{"type": "Canary", "status": "True", "lastTransitionTime": now, "lastUpdateTime": now}],
        });
        let canary = scene.make_replica_set(&set, "foo-xdj4b", &template, HASH, tried).await?;
        scene.make_pod(&PodOf::plain(&active, "0", "bp9w8")).await?;
        scene.make_pod(&PodOf::plain(&active, "1", "jlvrq")).await?;
        let label = ("extendeddaemonsetreplicaset.datadoghq.com/canary".to_owned(), "true".to_owned());
        scene.make_pod(&PodOf { labels: vec![label], ..PodOf::plain(&canary, "2", "zvss2") }).await?;
        let mut status = set_status(3, "foo-8z7lr");
        status["state"] = json!("Canary");
        status["upToDate"] = json!(1);
        status["canary"] = json!({"replicaSet": "foo-xdj4b", "nodes": [scene.node_name("2")]});
        scene.store("foo", status).await?;
        let before = scene.await_serving(3).await?;
        swap_in(&scene).await?;
        soon(|| async {
            let status = scene.status().await?;
            anyhow::ensure!(status.observed_generation.is_some(), "not looked at yet");
            Ok(())
        })
        .await?;
        scene.settled().await?;
        let after = scene.serving().await?;
        anyhow::ensure!(before.iter().all(|(node, pod)| uid_of(pod) == uid_of(&after[node])), "a pod was replaced");
        let writes = scene.writes()?;
        anyhow::ensure!(!writes.keys().any(|deed| deed.ends_with(" pods")), "{writes:?}");
        anyhow::ensure!(!writes.contains_key("create extendeddaemonsetreplicasets"), "{writes:?}");
        let status = scene.status().await?;
        let nodes = status.canary.clone().unwrap_or_default().nodes;
        anyhow::ensure!(status.state == "Canary" && nodes == [scene.node_name("2")], "{status:?}");
        // And a person ends it by the name that the Go controller gave.
        scene.annotate("canary-valid", Some("foo-xdj4b")).await?;
        scene.await_version("3.1", 3).await?;
        let status = scene.await_done("foo", 3).await?;
        anyhow::ensure!(status.active_replica_set == "foo-xdj4b", "{status:?}");
        Ok(())
    })
    .await;
}
