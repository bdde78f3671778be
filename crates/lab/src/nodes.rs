//! Fake nodes: shapes in rotation, and a builder for the one that a test needs.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};

use crate::binaries::KUBERNETES_VERSION;

/// kwok keeps the nodes that carry this annotation, and no others: a real node may stand beside them.
pub const FAKE_NODE: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

/// One fake node, as its kubelet would report it.
///
/// ```
/// let node = podwright_lab::NodeShape::new("edge-0").cpu("2").memory("4Gi").arch("arm64").node();
/// assert_eq!(node.metadata.name.as_deref(), Some("edge-0"));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct NodeShape {
    name: String,
    cpu: String,
    memory: String,
    storage: Option<String>,
    arch: String,
    zone: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    taints: Vec<Taint>,
}

impl NodeShape {
    /// 4 cpu, 16Gi, 100Gi of ephemeral storage, amd64, zone `lab-a`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            cpu: "4".to_owned(),
            memory: "16Gi".to_owned(),
            storage: Some("100Gi".to_owned()),
            arch: "amd64".to_owned(),
            zone: "lab-a".to_owned(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
        }
    }

    /// The node at `index` of the rotation: 4/16/64 cpu, amd64 and arm64, three zones, `type=default|spot`.
    pub fn in_rotation(index: usize) -> Self {
        let (cpu, memory, storage) =
            [("4", "16Gi", "100Gi"), ("16", "64Gi", "200Gi"), ("64", "256Gi", "400Gi")][index % 3];
        // Each round of three has another architecture, and its zones are shifted, so that every size meets every
        // zone and both architectures.
        let round = index / 3;
        let arch = ["amd64", "arm64"][round % 2];
        let zone = ["lab-a", "lab-b", "lab-c"][(index + round) % 3];
        let kind = if index % 4 == 3 { "spot" } else { "default" };
        Self::new(format!("node-{index:03}"))
            .cpu(cpu)
            .memory(memory)
            .storage(Some(storage))
            .arch(arch)
            .zone(zone)
            .label("type", kind)
    }

    /// Whole or fractional CPUs, as a quantity.
    pub fn cpu(mut self, cpu: &str) -> Self {
        cpu.clone_into(&mut self.cpu);
        self
    }

    /// Memory, as a quantity.
    pub fn memory(mut self, memory: &str) -> Self {
        memory.clone_into(&mut self.memory);
        self
    }

    /// Ephemeral storage, as a quantity; `None` for a node that reports none.
    pub fn storage(mut self, storage: Option<&str>) -> Self {
        self.storage = storage.map(str::to_owned);
        self
    }

    /// `kubernetes.io/arch`.
    pub fn arch(mut self, arch: &str) -> Self {
        arch.clone_into(&mut self.arch);
        self
    }

    /// `topology.kubernetes.io/zone`.
    pub fn zone(mut self, zone: &str) -> Self {
        zone.clone_into(&mut self.zone);
        self
    }

    /// One label more.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// One annotation more.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// One taint more.
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints.push(Taint {
            key: key.to_owned(),
            value: Some(value.to_owned()),
            effect: effect.to_owned(),
            time_added: None,
        });
        self
    }

    /// The Node object, status included.
    #[must_use]
    pub fn node(&self) -> Node {
        let well_known = [
            ("kubernetes.io/arch", self.arch.as_str()),
            ("kubernetes.io/os", "linux"),
            ("beta.kubernetes.io/arch", &self.arch),
            ("beta.kubernetes.io/os", "linux"),
            ("kubernetes.io/hostname", &self.name),
            ("topology.kubernetes.io/region", "lab"),
            ("topology.kubernetes.io/zone", &self.zone),
            ("node.kubernetes.io/instance-type", &format!("lab-{}-{}", self.arch, self.cpu)),
        ];
        let mut labels: BTreeMap<String, String> =
            well_known.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        labels.extend(self.labels.clone());
        let mut annotations = self.annotations.clone();
        annotations.insert(FAKE_NODE.0.to_owned(), FAKE_NODE.1.to_owned());
        Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(labels),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            spec: (!self.taints.is_empty())
                .then(|| NodeSpec { taints: Some(self.taints.clone()), ..NodeSpec::default() }),
            status: Some(self.status()),
        }
    }

    fn status(&self) -> NodeStatus {
        let mut resources = BTreeMap::from([
            ("cpu".to_owned(), Quantity(self.cpu.clone())),
            ("memory".to_owned(), Quantity(self.memory.clone())),
            ("pods".to_owned(), Quantity("110".to_owned())),
        ]);
        if let Some(storage) = &self.storage {
            resources.insert("ephemeral-storage".to_owned(), Quantity(storage.clone()));
        }
        let address = |kind: &str, address: String| NodeAddress { type_: kind.to_owned(), address };
        NodeStatus {
            capacity: Some(resources.clone()),
            allocatable: Some(resources),
            // Ready from the start: of a thousand nodes, first becoming it is thousands of writes more.
            conditions: Some(conditions()),
            addresses: Some(vec![
                address("InternalIP", internal_ip(&self.name).to_string()),
                address("Hostname", self.name.clone()),
            ]),
            node_info: Some(NodeSystemInfo {
                architecture: self.arch.clone(),
                operating_system: "linux".to_owned(),
                kubelet_version: KUBERNETES_VERSION.to_owned(),
                os_image: "lab".to_owned(),
                container_runtime_version: "lab://1".to_owned(),
                ..NodeSystemInfo::default()
            }),
            ..NodeStatus::default()
        }
    }
}

fn conditions() -> Vec<NodeCondition> {
    let now = Time(Timestamp::now());
    [
        ("Ready", "True", "KubeletReady"),
        ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID"),
        ("NetworkUnavailable", "False", "RouteCreated"),
    ]
    .map(|(kind, status, reason)| NodeCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: None,
        last_heartbeat_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    })
    .into()
}

/// An address of the node's own, in 10.128.0.0/9; the pods' are in 10.32.0.0/12.
fn internal_ip(name: &str) -> Ipv4Addr {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let [a, b, c, ..] = hasher.finish().to_le_bytes();
    Ipv4Addr::new(10, 128 | a, b, c)
}

/// Creates one node. It is Ready a moment later: [`await_ready`].
pub async fn create(client: &Client, shape: &NodeShape) -> Result<()> {
    Api::<Node>::all(client.clone())
        .create(&PostParams::default(), &shape.node())
        .await
        .with_context(|| format!("failed to create node {}", shape.name))?;
    Ok(())
}

/// Creates the first `count` nodes of the rotation, many at a time.
pub async fn create_rotation(client: &Client, count: usize) -> Result<()> {
    stream::iter((0..count).map(NodeShape::in_rotation))
        .map(|shape| async move { create(client, &shape).await })
        .buffer_unordered(32)
        .try_collect()
        .await
}

/// Waits until there are at least `count` fake nodes, all Ready and free of the taint that keeps pods off new nodes.
///
/// Watches rather than lists again and again, which of a thousand nodes would keep the API server busy by itself.
pub async fn await_ready(client: &Client, count: usize, timeout: Duration) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    let mut usable = BTreeMap::new();
    let done = |usable: &BTreeMap<String, bool>| usable.len() >= count && usable.values().all(|is| *is);
    let watched = tokio::time::timeout(timeout, async {
        let events = watcher(nodes, watcher::Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match &event {
                Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node)) if is_fake(node) => {
                    usable.insert(node.name_any(), is_usable(node));
                }
                Ok(watcher::Event::Delete(node)) => {
                    usable.remove(&node.name_any());
                }
                Ok(watcher::Event::Init) => usable.clear(),
                // The watch is taken up again; nodes of other kinds do not count.
                Ok(_) | Err(_) => {}
            }
            if !matches!(event, Ok(watcher::Event::Init | watcher::Event::InitApply(_))) && done(&usable) {
                return;
            }
        }
    })
    .await;
    let ready = usable.values().filter(|is| **is).count();
    ensure!(
        watched.is_ok(),
        "{ready} of {} nodes are ready after {} s",
        usable.len().max(count),
        timeout.as_secs()
    );
    Ok(())
}

fn is_fake(node: &Node) -> bool {
    node.metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(FAKE_NODE.0))
        .is_some_and(|kind| kind == FAKE_NODE.1)
}

/// Ready, and pods may come.
pub(crate) fn is_usable(node: &Node) -> bool {
    let ready = node.status.as_ref().and_then(|status| status.conditions.as_ref()).is_some_and(|all| {
        all.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    });
    let tainted = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_ref())
        .is_some_and(|taints| taints.iter().any(|taint| taint.key == "node.kubernetes.io/not-ready"));
    ready && !tainted
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ten_nodes_have_every_size_architecture_zone_and_type() {
        let label = |node: &Node, key: &str| node.metadata.labels.as_ref().unwrap()[key].clone();
        let nodes: Vec<Node> = (0..10).map(|index| NodeShape::in_rotation(index).node()).collect();
        for (key, count) in [
            ("node.kubernetes.io/instance-type", 6),
            ("kubernetes.io/arch", 2),
            ("topology.kubernetes.io/zone", 3),
            ("type", 2),
        ] {
            let values: BTreeSet<String> = nodes.iter().map(|node| label(node, key)).collect();
            assert_eq!(values.len(), count, "{key}: {values:?}");
        }
    }

    #[test]
    fn every_size_meets_every_zone_and_both_architectures() {
        let combinations: BTreeSet<(String, String, String)> =
            (0..18).map(NodeShape::in_rotation).map(|shape| (shape.cpu, shape.zone, shape.arch)).collect();
        assert_eq!(combinations.len(), 18);
    }

    #[test]
    fn a_node_without_storage_reports_none() {
        let node = NodeShape::new("n").storage(None).taint("a", "b", "NoSchedule").node();
        assert!(!node.status.unwrap().capacity.unwrap().contains_key("ephemeral-storage"));
        assert_eq!(node.spec.unwrap().taints.unwrap().len(), 1);
    }

    #[test]
    fn a_thousand_nodes_have_addresses_of_their_own() {
        let addresses: BTreeSet<Ipv4Addr> =
            (0..1000).map(|index| internal_ip(&format!("node-{index:03}"))).collect();
        assert_eq!(addresses.len(), 1000);
    }
}
