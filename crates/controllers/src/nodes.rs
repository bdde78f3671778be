//! Nodes as they are kept and as sizing sees them.

use std::{collections::BTreeMap, sync::Arc};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus};
use kube::{
    ResourceExt,
    runtime::reflector::{ObjectRef, ReflectHandle, Store},
};
use podwright_api::flex::ManagedResource;
use podwright_core::{pod::ResourceList, sizing::NodeFacts};

use crate::capacity;

/// Keeps what is looked at, so that thousands of nodes fit in little memory.
pub(crate) fn prune(node: &mut Node, vm_resource: &str) {
    capacity::keep_only_our_fields(node, vm_resource);
    node.spec = node.spec.take().map(|spec| NodeSpec {
        unschedulable: spec.unschedulable,
        taints: spec.taints,
        ..NodeSpec::default()
    });
    if let Some(status) = &mut node.status {
        let capacity = status.capacity.take();
        *status = NodeStatus {
            capacity: capacity.map(|all| all.into_iter().filter(|(name, _)| name == vm_resource).collect()),
            allocatable: status.allocatable.take(),
            conditions: status.conditions.take().map(readiness),
            ..NodeStatus::default()
        };
    }
}

/// Of the conditions only whether it is ready, without the time of its last heartbeat.
fn readiness(mut conditions: Vec<NodeCondition>) -> Vec<NodeCondition> {
    conditions.retain(|condition| condition.type_ == "Ready");
    for condition in &mut conditions {
        condition.last_heartbeat_time = None;
        condition.message = None;
    }
    conditions
}

/// The node as sizing sees it: of what it can give only what shares are taken of. Its VMs are not, so that our own offer of them
/// is no change to sizing.
#[must_use]
pub(crate) fn facts(node: &Node) -> NodeFacts {
    let shared = |resource: &str| ManagedResource::ALL.iter().any(|managed| managed.name() == resource);
    NodeFacts { name: node.name_any(), labels: node.labels().clone(), allocatable: allocatable(node, shared) }
}

/// The API server gives only quantities that can be read; another would be of no use.
fn allocatable(node: &Node, wanted: impl Fn(&str) -> bool) -> ResourceList {
    let list = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    list.into_iter()
        .flatten()
        .filter(|(name, _)| wanted(name))
        .filter_map(|(name, amount)| Some((name.clone(), amount.0.parse().ok()?)))
        .collect()
}

/// An item each time that a node comes to give other shares: a heartbeat does not count.
pub(crate) fn share_changes(nodes: ReflectHandle<Node>) -> impl Stream<Item = ()> + Send + 'static {
    let mut known: BTreeMap<String, NodeFacts> = BTreeMap::new();
    nodes.filter_map(move |node: Arc<Node>| {
        let now = facts(&node);
        let changed = known.get(&now.name) != Some(&now);
        if changed {
            known.insert(now.name.clone(), now);
        }
        std::future::ready(changed.then_some(()))
    })
}

/// An item each time that a node comes to take other pods: by its labels, its taints, whether it is ready or cordoned, what it
/// has, or because it goes.
pub(crate) fn placement_changes(
    nodes: ReflectHandle<Node>,
    store: Store<Node>,
) -> impl Stream<Item = ()> + Send + Sync + 'static {
    type Taken = (BTreeMap<String, String>, ResourceList, Option<NodeSpec>, Option<String>);
    let mut known: BTreeMap<String, Taken> = BTreeMap::new();
    nodes.filter_map(move |node: Arc<Node>| {
        let status = node.status.as_ref();
        let ready =
            status.and_then(|status| status.conditions.as_ref()?.first()).map(|ready| ready.status.clone());
        let now = (node.labels().clone(), allocatable(&node, |_| true), node.spec.clone(), ready);
        let name = node.name_any();
        let changed = known.get(&name) != Some(&now);
        if changed {
            known.insert(name, now);
        }
        if known.len() > 2 * store.len() {
            known.retain(|name, _| store.get(&ObjectRef::new(name)).is_some());
        }
        std::future::ready(changed.then_some(()))
    })
}

#[cfg(test)]
mod tests {
    use podwright_api::keys;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_kept_of_a_node_is_what_is_looked_at() {
        let mut node: Node = serde_json::from_value(json!({
            "metadata": {"name": "n", "labels": {"a": "b"}},
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {
                "capacity": {"cpu": "4", "kata.peerpods.io/vm": "10"}, "images": [{"names": ["x"]}],
                "allocatable": {"cpu": "3920m", "memory": "8Gi", "kata.peerpods.io/vm": "10"},
            },
        }))
        .unwrap();
        prune(&mut node, keys::VM_RESOURCE);
        let facts = facts(&node);
        let status = node.status.clone().unwrap();
        assert!(node.spec.unwrap().pod_cidr.is_none() && status.images.is_none());
        assert_eq!(status.capacity.unwrap().len(), 1);
        assert_eq!((facts.name.as_str(), facts.allocatable["cpu"].to_string().as_str()), ("n", "3920m"));
    }

    fn node(vms: &str, cpu: &str, label: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n", "labels": {"a": label}},
            "status": {"allocatable": {"cpu": cpu, "kata.peerpods.io/vm": vms}},
        }))
        .unwrap()
    }

    #[test]
    fn an_offer_of_vms_does_not_change_shares_and_cpu_and_labels_do() {
        let before = facts(&node("0", "4", "b"));
        assert_eq!(facts(&node("10", "4", "b")), before);
        assert_ne!(facts(&node("0", "8", "b")), before);
        assert_ne!(facts(&node("0", "4", "c")), before, "an override may select by it");
    }
}
