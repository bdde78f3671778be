//! One test's ExtendedDaemonSet and nodes, all named after its namespace, and what is asked of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Event, Node, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use podwright_api::eds::{
    ExtendedDaemonSet, ExtendedDaemonSetReplicaSet, ExtendedDaemonSetStatus, ExtendedDaemonsetSetting,
};
use podwright_lab::{Lab, NodeShape};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::invariants::{Bounds, Invariants};
use crate::{
    audit::Audit,
    labs::{in_namespace, soon, start_with},
};

pub(crate) const NAME_LABEL: &str = "extendeddaemonset.datadoghq.com/name";

/// The lease by which we lead.
pub(crate) const LEASE: &str = "extendeddaemonset-lock";
/// Renewals are how tests see that the manager has had its turn: often, and without a shorter life for the lease.
pub(crate) const CONFIG: &str = "leaderElection: {retryPeriod: 500ms}\n";

/// One replica that does nothing but roll out.
pub(crate) async fn alone() -> &'static Lab {
    static LAB: OnceCell<Lab> = OnceCell::const_new();
    LAB.get_or_init(|| start_with(1, CONFIG, &["--features", "rollout"])).await
}

pub(crate) struct Scene<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) client: Client,
    /// The namespace.
    pub(crate) name: String,
    pub(crate) bounds: Arc<Bounds>,
    /// What is written in the namespace.
    pub(crate) audit: Audit,
}

/// Runs a test's body with the invariants watched beside it.
pub(crate) async fn scene<F: Future<Output = anyhow::Result<()>>>(
    prefix: &str,
    body: impl FnOnce(Scene<'static>) -> F,
) {
    scene_in(alone().await, prefix, body).await;
}

pub(crate) async fn scene_in<'a, F: Future<Output = anyhow::Result<()>>>(
    lab: &'a Lab,
    prefix: &str,
    body: impl FnOnce(Scene<'a>) -> F,
) {
    in_namespace(lab, prefix, |client, name| async move {
        let bounds = Arc::new(Bounds::default());
        bounds.budget.store(1, Ordering::Release);
        let invariants = Invariants::watch(client.clone(), &name, bounds.clone());
        let audit = Audit::of_namespace(lab, &name)?;
        let outcome = body(Scene { lab, client, name, bounds, audit }).await;
        let verdict = invariants.verdict();
        outcome?;
        println!("{}", verdict.map_err(anyhow::Error::msg)?);
        Ok(())
    })
    .await;
}

impl Scene<'_> {
    /// Adds nodes `0`, `1`, … of this test in three zones.
    pub(crate) async fn nodes(&self, count: usize) -> anyhow::Result<()> {
        for index in 0..count {
            let zone = ["lab-a", "lab-b", "lab-c"][index % 3];
            self.node(self.shape(&index.to_string()).zone(zone)).await?;
        }
        Ok(())
    }

    pub(crate) fn shape(&self, suffix: &str) -> NodeShape {
        NodeShape::new(self.node_name(suffix)).label("scene", &self.name)
    }

    pub(crate) fn node_name(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.name)
    }

    pub(crate) async fn node(&self, shape: NodeShape) -> anyhow::Result<()> {
        self.lab.add_node(&shape).await?;
        self.bounds.slots.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    pub(crate) async fn patch_node(&self, suffix: &str, patch: Value) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.patch(&self.node_name(suffix), &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// From now on so many nodes may be bare.
    pub(crate) fn budget(&self, budget: usize) {
        self.bounds.budget.store(budget, Ordering::Release);
    }

    /// From now on the test itself disturbs.
    pub(crate) fn lenient(&self, lenient: bool) {
        self.bounds.lenient.store(lenient, Ordering::Release);
    }

    /// An ExtendedDaemonSet `foo` without canary on this test's nodes, fast enough not to be waited for.
    pub(crate) fn foo(&self, version: &str) -> Value {
        self.set("foo", version)
    }

    pub(crate) fn set(&self, name: &str, version: &str) -> Value {
        json!({
            "apiVersion": "datadoghq.com/v1alpha1", "kind": "ExtendedDaemonSet",
            "metadata": {"name": name},
            "spec": {
                "strategy": {"rollingUpdate": {"maxUnavailable": 1, "slowStartAdditiveIncrease": 100}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {
                        "nodeSelector": {"scene": self.name},
                        "terminationGracePeriodSeconds": 1,
                        "containers": [{"name": "daemon", "image": format!("registry.k8s.io/pause:{version}")}],
                    },
                },
            },
        })
    }

    /// `foo` of this version with a canary.
    pub(crate) fn canary(&self, version: &str, canary: Value) -> Value {
        let mut wanted = self.foo(version);
        wanted["spec"]["strategy"]["canary"] = canary;
        wanted
    }

    pub(crate) async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        self.lab.apply(&self.name, &object.to_string()).await
    }

    pub(crate) fn sets(&self) -> Api<ExtendedDaemonSet> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub(crate) fn replica_sets(&self) -> Api<ExtendedDaemonSetReplicaSet> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub(crate) fn settings(&self) -> Api<ExtendedDaemonsetSetting> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub(crate) fn pods_api(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) -> anyhow::Result<()> {
        self.sets().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Sets an annotation of `foo`, or takes it off.
    pub(crate) async fn annotate(&self, key: &str, value: Option<&str>) -> anyhow::Result<()> {
        let key = format!("extendeddaemonset.datadoghq.com/{key}");
        self.patch("foo", json!({"metadata": {"annotations": {key: value}}})).await
    }

    pub(crate) async fn status(&self) -> anyhow::Result<ExtendedDaemonSetStatus> {
        self.status_of("foo").await
    }

    pub(crate) async fn status_of(&self, name: &str) -> anyhow::Result<ExtendedDaemonSetStatus> {
        Ok(self.sets().get(name).await?.status.unwrap_or_default())
    }

    pub(crate) async fn await_status(
        &self,
        holds: impl Fn(&ExtendedDaemonSetStatus) -> bool,
    ) -> anyhow::Result<ExtendedDaemonSetStatus> {
        soon(|| async {
            let status = self.status().await?;
            anyhow::ensure!(holds(&status), "{status:?}");
            Ok(status)
        })
        .await
    }

    /// All pods, as JSON.
    pub(crate) async fn pods(&self) -> anyhow::Result<Vec<Value>> {
        let pods = self.pods_api().list(&ListParams::default()).await?.items;
        pods.into_iter().map(|pod| Ok(serde_json::to_value(pod)?)).collect()
    }

    /// Ready pods that are not about to go, by the suffix of their node.
    pub(crate) async fn serving(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        let prefix = format!("{}-", self.name);
        let serving = self.pods().await?.into_iter().filter(is_serving).map(|pod| {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            (node.strip_prefix(&prefix).unwrap_or(node).to_owned(), pod)
        });
        Ok(serving.collect())
    }

    /// Waits until so many nodes have a pod of this version that serves, and there is no other pod.
    pub(crate) async fn await_version(
        &self,
        version: &str,
        count: usize,
    ) -> anyhow::Result<BTreeMap<String, Value>> {
        soon(|| async {
            let (all, serving) = (self.pods().await?.len(), self.serving().await?);
            let done = serving.values().filter(|pod| version_of(pod) == version).count();
            anyhow::ensure!(
                done == count && all == count,
                "{done} of {count} pods are of {version}; {all} pods in all"
            );
            Ok(serving)
        })
        .await
    }

    /// Waits until the status says that all is done.
    pub(crate) async fn await_done(&self, name: &str, count: i32) -> anyhow::Result<ExtendedDaemonSetStatus> {
        soon(|| async {
            let status = self.status_of(name).await?;
            let figures = [status.desired, status.current, status.ready, status.available, status.up_to_date];
            anyhow::ensure!(figures == [count; 5], "{figures:?}");
            Ok(status)
        })
        .await
    }

    pub(crate) async fn await_event(&self, reason: &str, part: &str) -> anyhow::Result<String> {
        let events: Api<Event> = Api::all(self.client.clone());
        soon(|| async {
            let all = events.list(&ListParams::default()).await?.items;
            let ours = |event: &&Event| {
                let about = &event.involved_object;
                about.namespace.as_deref() == Some(&self.name)
                    || about.name.as_deref().is_some_and(|name| name.starts_with(&self.name))
            };
            let found = all.iter().filter(ours).find_map(|event| {
                let text = event.message.clone().unwrap_or_default();
                (event.reason.as_deref() == Some(reason) && text.contains(part)).then_some(text)
            });
            found.ok_or_else(|| anyhow::anyhow!("no event {reason} that says {part:?}"))
        })
        .await
    }

    /// The replica that leads.
    pub(crate) async fn leader(&self) -> anyhow::Result<usize> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "podwright-system");
        soon(|| async {
            let holder = leases.get(LEASE).await?.spec.and_then(|spec| spec.holder_identity);
            let holder =
                holder.filter(|name| !name.is_empty()).ok_or_else(|| anyhow::anyhow!("nobody leads"))?;
            let index =
                holder.strip_prefix("podwright-").and_then(|rest| rest.split('_').next()?.parse().ok());
            index.ok_or_else(|| anyhow::anyhow!("{holder} is no replica"))
        })
        .await
    }

    /// Takes a node away for good.
    pub(crate) async fn remove_node(&self, suffix: &str) -> anyhow::Result<()> {
        self.bounds.slots.fetch_sub(1, Ordering::AcqRel);
        Api::<Node>::all(self.client.clone())
            .delete(&self.node_name(suffix), &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Names of the replica sets, with the part that they play.
    pub(crate) async fn roles(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let all = self.replica_sets().list(&ListParams::default()).await?.items;
        Ok(all.into_iter().map(|set| (set.name_any(), set.status.unwrap_or_default().status)).collect())
    }
}

pub(crate) fn is_serving(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
    ready && pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] == "Running"
}

/// The tag of the first container's image.
pub(crate) fn version_of(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"]
        .as_str()
        .and_then(|image| image.rsplit(':').next())
        .unwrap_or_default()
}

pub(crate) fn uid_of(pod: &Value) -> &str {
    pod["metadata"]["uid"].as_str().unwrap_or_default()
}
