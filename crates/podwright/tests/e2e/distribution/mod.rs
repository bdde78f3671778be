//! Pods over node labels by weight, with the real Deployment and ReplicaSet controllers and three replicas of the webhook.

mod bad_input;
mod bursts;
mod faults;
mod protocol;
mod spill;
mod versprei;
mod workloads;

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use podwright_api::{distributor::PodDistributor, keys};
use podwright_lab::{Lab, NodeShape, eventually};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::labs::{await_event, soon, start};

/// How long hundreds of pods may take on a busy machine.
const BURST: Duration = Duration::from_mins(3);

/// Three replicas that only spread pods.
async fn lab() -> &'static Lab {
    static LAB: OnceCell<Lab> = OnceCell::const_new();
    LAB.get_or_init(|| start(3, CONFIG)).await
}

const CONFIG: &str =
    "features: [distribution]\nleaderElection: {leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 500ms}\n";

/// One test's rule, Deployment and nodes. Nodes carry the namespace as a label, which every entry names too, so all keys count.
struct Scene<'a> {
    lab: &'a Lab,
    client: Client,
    namespace: String,
}

impl<'a> Scene<'a> {
    fn new(lab: &'a Lab, client: Client, namespace: String) -> Self {
        Self { lab, client, namespace }
    }

    /// So many nodes of each tier, named after it.
    async fn nodes(&self, tiers: &[(&str, usize)]) -> anyhow::Result<()> {
        for (tier, count) in tiers {
            for index in 0..*count {
                self.lab.add_node(&self.node(tier, index)).await?;
            }
        }
        Ok(())
    }

    fn node(&self, tier: &str, index: usize) -> NodeShape {
        NodeShape::new(self.node_name(tier, index)).label("scene", &self.namespace).label("tier", tier)
    }

    fn node_name(&self, tier: &str, index: usize) -> String {
        format!("{}-{tier}-{index}", self.namespace)
    }

    fn rule(&self, weights: &[(&str, i32)]) -> Value {
        let entries: Vec<Value> = weights
            .iter()
            .map(|(tier, weight)| json!({"nodeLabel": {"scene": self.namespace, "tier": tier}, "weight": weight}))
            .collect();
        json!({
            "apiVersion": "versprei.versprei.io/v1beta1", "kind": "PodDistributor", "metadata": {"name": "web"},
            "spec": {
                "distribution": entries, "target": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            },
        })
    }

    fn deployment(&self, replicas: i32) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    // Never left to the lab's own nodes.
                    "spec": {"nodeSelector": {"scene": self.namespace}, "containers": [{"name": "app", "image": "app:1"}]},
                },
            },
        })
    }

    async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        self.lab.apply(&self.namespace, &object.to_string()).await
    }

    async fn patch_deployment(&self, spec: Value) -> anyhow::Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        api.patch("web", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
        Ok(())
    }

    async fn patch_rule(&self, spec: Value) -> anyhow::Result<()> {
        let api: Api<PodDistributor> = Api::namespaced(self.client.clone(), &self.namespace);
        api.patch("web", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
        Ok(())
    }

    async fn status(&self) -> anyhow::Result<Value> {
        let api: Api<PodDistributor> = Api::namespaced(self.client.clone(), &self.namespace);
        Ok(serde_json::to_value(api.get("web").await?.status)?)
    }

    fn pods_api(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Pods that are not on their way out.
    async fn pods(&self) -> anyhow::Result<Vec<Value>> {
        let pods = self.pods_api().list(&ListParams::default()).await?.items;
        let pods = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.map(|pod| Ok(serde_json::to_value(pod)?)).collect()
    }

    /// How many of the pods each tier has, by what they were given; `none` for those that were given nothing. A pod that was given
    /// a place on creation must also be held to it.
    fn tally(pods: &[Value]) -> BTreeMap<String, usize> {
        let mut tally = BTreeMap::new();
        for pod in pods {
            let mark = pod["metadata"]["annotations"][keys::DISTRIBUTION].as_str().unwrap_or("{}");
            let mark: Value = serde_json::from_str(mark).unwrap();
            let entry = mark["entry"].as_str().and_then(|entry| entry.split_once("tier="));
            let tier = entry.map_or("none", |(_, tier)| tier);
            let held = pod["spec"]["nodeSelector"]["tier"].as_str();
            let prefers = !pod["spec"]["affinity"]["nodeAffinity"].is_null();
            assert!(mark["ticket"].is_null() || prefers || held == Some(tier), "{pod}");
            *tally.entry(tier.to_owned()).or_default() += 1;
        }
        tally
    }

    /// Waits until the leader has the rule in force, so that the others have it too, or will within moments.
    async fn await_rule(&self) -> anyhow::Result<()> {
        soon(|| async {
            let status = self.status().await?;
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
            anyhow::ensure!(ready, "{status}");
            Ok(())
        })
        .await
    }

    /// Waits until so many pods run, all of this image and no other, and gives them.
    async fn await_pods(&self, count: usize, image: &str) -> anyhow::Result<Vec<Value>> {
        eventually(BURST, || async {
            let pods = self.pods().await?;
            let good = pods.iter().filter(|pod| {
                pod["status"]["phase"] == "Running" && pod["spec"]["containers"][0]["image"] == image
            });
            let good = good.count();
            anyhow::ensure!(
                good == count && pods.len() == count,
                "{good} of {count} pods run {image}, {} in all: {:?}",
                pods.len(),
                Self::tally(&pods)
            );
            Ok(pods)
        })
        .await
    }

    /// Waits until so many pods of the image run, each tier has its share of them to less than a pod, and none is without one.
    ///
    /// A pod that came to be before a replica knew of its rule is made anew or taken over; no other is ever touched.
    async fn expect_ratio(&self, count: usize, image: &str, weights: &[(&str, i32)]) -> anyhow::Result<()> {
        eventually(BURST, || async {
            let pods = self.await_pods(count, image).await?;
            let tally = Self::tally(&pods);
            anyhow::ensure!(
                is_within_one(&tally, count, weights),
                "{count} of {image} as {weights:?}: {tally:?}"
            );
            Ok(())
        })
        .await
    }

    async fn await_event(&self, reason: &str, part: &str) -> anyhow::Result<()> {
        await_event(&self.client, &self.namespace, reason, part).await
    }
}

/// Whether each tier has the floor or the ceiling of its share, and nobody else has any.
fn is_within_one(tally: &BTreeMap<String, usize>, count: usize, weights: &[(&str, i32)]) -> bool {
    let total: usize = weights.iter().map(|(_, weight)| usize::try_from(*weight).unwrap()).sum();
    let assigned: usize = weights.iter().map(|(tier, _)| tally.get(*tier).copied().unwrap_or_default()).sum();
    assigned == count
        && weights.iter().all(|(tier, weight)| {
            let actual = tally.get(*tier).copied().unwrap_or_default();
            let ideal = count * usize::try_from(*weight).unwrap();
            (actual * total).abs_diff(ideal) < total
        })
}
