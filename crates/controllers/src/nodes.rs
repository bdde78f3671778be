//! Nodes as they are kept and as sizing sees them.

use std::{collections::BTreeMap, sync::Arc};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus};
use kube::{
    ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};
use podwright_api::flex::ManagedResource;
use podwright_core::{pod::ResourceList, sizing::NodeFacts};

use crate::{caches::Subscription, capacity};

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

/// What each node was like when it last changed.
struct Known<T> {
    nodes: BTreeMap<String, T>,
    store: Store<Node>,
}

impl<T: PartialEq> Known<T> {
    fn new(store: Store<Node>) -> Self {
        Self { nodes: BTreeMap::new(), store }
    }

    /// Whether the node was different before, or is new. Nodes that are gone are forgotten in passing: an autoscaler names each
    /// one differently.
    fn is_news(&mut self, node: &Node, now: T) -> bool {
        let name = node.name_any();
        let news = self.nodes.get(&name) != Some(&now);
        if news {
            self.nodes.insert(name, now);
        }
        if self.nodes.len() > 2 * self.store.len() {
            self.nodes.retain(|name, _| self.store.get(&ObjectRef::new(name)).is_some());
        }
        news
    }
}

/// An item each time that a node comes to give other shares: a heartbeat does not count.
pub(crate) fn share_changes(
    nodes: Subscription<Node>,
    store: Store<Node>,
) -> impl Stream<Item = ()> + Send + 'static {
    let mut known = Known::new(store);
    nodes.filter_map(move |node: Arc<Node>| {
        std::future::ready(known.is_news(&node, facts(&node)).then_some(()))
    })
}

/// An item each time that a node comes to take other pods: by its labels, its taints, whether it is ready or cordoned, what it
/// has, or because it goes.
pub(crate) fn placement_changes(
    nodes: Subscription<Node>,
    store: Store<Node>,
) -> impl Stream<Item = ()> + Send + Sync + 'static {
    let mut known = Known::new(store);
    nodes.filter_map(move |node: Arc<Node>| {
        let status = node.status.as_ref();
        let ready =
            status.and_then(|status| status.conditions.as_ref()?.first()).map(|ready| ready.status.clone());
        let now = (node.labels().clone(), allocatable(&node, |_| true), node.spec.clone(), ready);
        std::future::ready(known.is_news(&node, now).then_some(()))
    })
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher};
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

    #[test]
    fn a_node_is_news_when_it_comes_and_when_it_changes_and_forgotten_once_it_is_gone() {
        let (store, mut writer) = reflector::store();
        let mut known = Known::new(store);
        for index in 0..1000 {
            let mut node = node("0", "4", "b");
            node.metadata.name = Some(format!("n{index}"));
            writer.apply_watcher_event(&watcher::Event::Apply(node.clone()));
            let news = [known.is_news(&node, 1), known.is_news(&node, 1), known.is_news(&node, 2)];
            assert_eq!(news, [true, false, true]);
            // One is left beside the next.
            if index > 0 {
                node.metadata.name = Some(format!("n{}", index - 1));
                writer.apply_watcher_event(&watcher::Event::Delete(node));
            }
        }
        assert!(known.nodes.len() <= 4, "twice as many as were there at once, not {}", known.nodes.len());
    }
}
