//! Peer pods: nodes offer VMs. Each Node's status is kept at the offer that the core wants for it.
//!
//! The offer is written by server-side apply under a field manager of its own, so the API server itself remembers which
//! offers are ours: only those are ever taken away. Kubelets that zero it, and people who change it, are corrected on the
//! Node's next event.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    runtime::{
        Controller,
        controller::{Action, Config as ControllerConfig},
        events::{Event, EventType, Recorder, Reporter},
        reflector::Store,
    },
};
use podwright_api::{config::PeerPodsConfig, keys};
use podwright_core::{
    capacity::{self, NodeOffer, Step, Wanted},
    quantity::Quantity,
};
use podwright_runtime::lease::Leadership;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::caches::Subscription;

/// The field manager of what we write into Nodes.
const FIELD_MANAGER: &str = "podwright-capacity";
/// When to look again at a node whose offer its pods hold up.
const HELD: Duration = Duration::from_secs(15);
/// When to try again after an error.
const RETRY: Duration = Duration::from_secs(5);
/// How many nodes are worked on at once.
const CONCURRENCY: u16 = 16;

/// What the controller works with.
pub struct Capacity {
    /// The API server.
    pub client: Client,
    /// How many VMs nodes offer, and by which resource.
    pub config: PeerPodsConfig,
    /// Whether this replica may write.
    pub leadership: Leadership,
    /// What is counted.
    pub metrics: CapacityMetrics,
}

/// What the controller counts.
#[derive(Clone, Debug, Default)]
pub struct CapacityMetrics {
    writes: Family<DeedLabels, Counter>,
    failures: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeedLabels {
    deed: &'static str,
}

impl CapacityMetrics {
    /// Registers what the controller counts.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("capacity");
        registry.register("writes", "Writes of VM offers to nodes", metrics.writes.clone());
        registry.register(
            "failures",
            "Failed attempts to bring a node to its VM offer",
            metrics.failures.clone(),
        );
        metrics
    }
}

/// Why a node could not be brought to its offer.
#[derive(Debug, thiserror::Error)]
pub enum CapacityError {
    /// Its pods could not be listed.
    #[error("failed to count the VMs in use on node {node}")]
    Count {
        /// Which node.
        node: String,
        /// Why not.
        source: kube::Error,
    },
    /// Its status could not be written.
    #[error("failed to write the VM offer of node {node}")]
    Write {
        /// Which node.
        node: String,
        /// Why not.
        source: kube::Error,
    },
}

struct Context {
    nodes: Api<Node>,
    pods: Api<Pod>,
    recorder: Recorder,
    capacity: Capacity,
}

impl Capacity {
    /// Runs until cancelled.
    pub async fn run(self, changes: Subscription<Node>, nodes: Store<Node>, cancel: CancellationToken) {
        let context = Arc::new(Context {
            nodes: Api::all(self.client.clone()),
            pods: Api::all(self.client.clone()),
            recorder: Recorder::new(
                self.client.clone(),
                Reporter { controller: "podwright".to_owned(), instance: None },
            ),
            capacity: self,
        });
        let elections = elections(context.capacity.leadership.clone());
        Controller::for_shared_stream(changes, nodes)
            .with_config(ControllerConfig::default().concurrency(CONCURRENCY))
            .reconcile_all_on(elections)
            .graceful_shutdown_on(cancel.cancelled_owned())
            .run(reconcile, failed, context)
            // What could not be done has been told by `failed`.
            .for_each(|_| std::future::ready(()))
            .await;
    }
}

/// An item each time that leadership changes hands: whoever takes over looks at every node.
pub(crate) fn elections(leadership: Leadership) -> impl Stream<Item = ()> + Send + Sync + 'static {
    futures::stream::unfold(leadership, |mut leadership| async move {
        leadership.changed().await;
        Some(((), leadership))
    })
}

async fn reconcile(node: Arc<Node>, context: Arc<Context>) -> Result<Action, CapacityError> {
    let capacity = &context.capacity;
    if !capacity.leadership.is_current() {
        return Ok(Action::await_change());
    }
    let (name, offer) = (node.name_any(), offer(&node, &capacity.config.resource));
    let rules = &capacity.config.capacity;
    if let Wanted::Unreadable { value } = capacity::wanted(&offer, rules) {
        let text = format!(
            "annotation {} is {value:?}: write a whole number of VMs, or off. The node's offer stays as it is until then",
            keys::NODE_VM_CAPACITY
        );
        context.tell(&node, EventType::Warning, "UnreadableVMCapacity", text).await;
    }
    let mut step = capacity::plan(&offer, rules, None);
    if step == Step::Count {
        let in_use = context
            .vms_in_use(&name)
            .await
            .map_err(|source| CapacityError::Count { node: name.clone(), source })?;
        step = capacity::plan(&offer, rules, Some(in_use));
    }
    let held = match step {
        Step::Leave | Step::Count => return Ok(Action::await_change()),
        Step::Hold => return Ok(Action::requeue(HELD)),
        Step::Offer { vms, held } => {
            context.offer(&name, Some(vms)).await?;
            if held {
                let text = format!("the offer of VMs stays at {vms}, which pods hold, until they end");
                context.tell(&node, EventType::Normal, "VMCapacityHeld", text).await;
            }
            held
        }
        Step::Withdraw => {
            context.offer(&name, None).await?;
            false
        }
    };
    Ok(if held { Action::requeue(HELD) } else { Action::await_change() })
}

fn failed(_: Arc<Node>, error: &CapacityError, context: Arc<Context>) -> Action {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    tracing::warn!(%error, cause, "will try again");
    context.capacity.metrics.failures.inc();
    Action::requeue(RETRY)
}

impl Context {
    async fn offer(&self, node: &str, vms: Option<u64>) -> Result<(), CapacityError> {
        let resource = &self.capacity.config.resource;
        let amounts: BTreeMap<&str, String> =
            vms.iter().map(|vms| (resource.as_str(), vms.to_string())).collect();
        let status = json!({
            "apiVersion": "v1", "kind": "Node",
            "status": {"capacity": amounts, "allocatable": amounts},
        });
        let params = PatchParams::apply(FIELD_MANAGER).force();
        self.nodes
            .patch_status(node, &params, &Patch::Apply(&status))
            .await
            .map_err(|source| CapacityError::Write { node: node.to_owned(), source })?;
        let deed = if vms.is_some() { "offer" } else { "withdraw" };
        self.capacity.metrics.writes.get_or_create(&DeedLabels { deed }).inc();
        tracing::info!(node, %resource, vms, "VM offer written");
        Ok(())
    }

    async fn vms_in_use(&self, node: &str) -> Result<u64, kube::Error> {
        let alive = format!("spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed");
        let pods = self.pods.list(&ListParams::default().fields(&alive)).await?;
        let resource = &self.capacity.config.resource;
        let vms =
            pods.iter().filter_map(|pod| pod.spec.as_ref()).flat_map(|spec| &spec.containers).filter_map(
                |container| {
                    let requests = container.resources.as_ref()?.requests.as_ref()?;
                    whole(&requests.get(resource)?.0)
                },
            );
        Ok(vms.sum())
    }

    /// An event is worth having, but not worth failing for.
    async fn tell(&self, node: &Node, kind: EventType, reason: &str, text: String) {
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(text),
            action: "OfferVMs".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &node.object_ref(&())).await {
            tracing::warn!(%error, reason, "failed to publish an event");
        }
    }
}

/// Of all that the API server remembers of who wrote what, keeps whether the offer is ours.
pub(crate) fn keep_only_our_fields(node: &mut Node, resource: &str) {
    let ours = node.managed_fields().iter().any(|entry| {
        entry.manager.as_deref() == Some(FIELD_MANAGER)
            && entry
                .fields_v1
                .as_ref()
                .is_some_and(|fields| fields.0.pointer(&owned_path(resource)).is_some())
    });
    node.managed_fields_mut().retain(|entry| ours && entry.manager.as_deref() == Some(FIELD_MANAGER));
}

/// Where managed fields name the offer.
fn owned_path(resource: &str) -> String {
    format!("/f:status/f:capacity/f:{}", resource.replace('~', "~0").replace('/', "~1"))
}

fn offer(node: &Node, resource: &str) -> NodeOffer {
    let vms = |list: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>| {
        list.and_then(|list| whole(&list.get(resource)?.0))
    };
    let status = node.status.as_ref();
    NodeOffer {
        labels: node.labels().clone(),
        annotations: node.annotations().clone(),
        capacity: vms(status.and_then(|status| status.capacity.as_ref())),
        allocatable: vms(status.and_then(|status| status.allocatable.as_ref())),
        // Managed fields are kept only where they name the offer as ours.
        ours: !node.managed_fields().is_empty(),
    }
}

/// Extended resources are whole numbers.
fn whole(text: &str) -> Option<u64> {
    text.parse::<Quantity>().ok().and_then(|amount| u64::try_from(amount.ceil_to(&Quantity::units(1))).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(manager: &str, field: &str) -> Node {
        let mut node: Node = serde_json::from_value(json!({
            "metadata": {"name": "n", "labels": {"a": "b"}, "managedFields": [
                {"manager": "kubelet", "fieldsV1": {"f:status": {"f:capacity": {"f:cpu": {}}}}},
                {"manager": manager, "fieldsV1": {"f:status": {"f:capacity": {field: {}}}}},
            ]},
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {"capacity": {"cpu": "4", "kata.peerpods.io/vm": "10"}, "allocatable": {"kata.peerpods.io/vm": "9"}, "images": [{"names": ["x"]}]},
        }))
        .unwrap();
        keep_only_our_fields(&mut node, keys::VM_RESOURCE);
        node
    }

    #[test]
    fn an_offer_is_ours_when_the_api_server_remembers_it_so() {
        assert!(offer(&node(FIELD_MANAGER, "f:kata.peerpods.io/vm"), keys::VM_RESOURCE).ours);
        assert!(!offer(&node(FIELD_MANAGER, "f:example.com/other"), keys::VM_RESOURCE).ours);
        assert!(!offer(&node("cloud-api-adaptor", "f:kata.peerpods.io/vm"), keys::VM_RESOURCE).ours);
    }

    #[test]
    fn an_offer_is_read_from_the_status() {
        let offer = offer(&node(FIELD_MANAGER, "f:kata.peerpods.io/vm"), keys::VM_RESOURCE);
        assert_eq!((offer.capacity, offer.allocatable), (Some(10), Some(9)));
        assert_eq!(offer.labels["a"], "b");
    }
}
