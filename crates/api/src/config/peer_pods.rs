use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{NodeSelector, keys};

/// What the API server does with a pod when we cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// The pod is refused.
    Fail,
    /// The pod is let through unchanged.
    Ignore,
}

impl FailurePolicy {
    /// As the API spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}

/// Peer pods: VM-backed pods accounted as VMs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PeerPodsConfig {
    /// Pods of these runtime classes are peer pods (TARGET_RUNTIMECLASS, comma-separated).
    pub runtime_classes: Vec<String>,
    /// The extended resource that stands for one VM (POD_VM_EXTENDED_RESOURCE).
    pub resource: String,
    /// What becomes of the containers' own requests and limits.
    pub mode: PeerPodsMode,
    /// The requests that `mode: shrink` leaves.
    pub shrink_to: Shrunk,
    /// How the VM's size follows from the containers' resources.
    pub sizing: VmSizing,
    /// Whether the computed size replaces sizing annotations that the user has set on the pod.
    pub override_annotations: bool,
    /// Devices of the VM: the resource, and the annotation that carries how many.
    pub devices: BTreeMap<String, String>,
    /// Resources that are really the node's own and stay on the containers.
    pub keep: Vec<String>,
    /// What becomes of `resourceFieldRef` variables, which would read the node's size once the limits are gone.
    pub downward_api: DownwardApi,
    /// What the API server does with a peer pod when we cannot be reached.
    pub failure_policy: FailurePolicy,
    /// How many VMs the nodes offer.
    pub capacity: CapacityConfig,
}

impl Default for PeerPodsConfig {
    fn default() -> Self {
        Self {
            runtime_classes: vec![keys::PEER_POD_RUNTIME_CLASS.to_owned()],
            resource: keys::VM_RESOURCE.to_owned(),
            mode: PeerPodsMode::Strip,
            shrink_to: Shrunk::default(),
            sizing: VmSizing::Sum,
            override_annotations: true,
            devices: BTreeMap::from([("nvidia.com/gpu".to_owned(), keys::VM_GPUS.to_owned())]),
            keep: Vec::new(),
            downward_api: DownwardApi::Keep,
            failure_policy: FailurePolicy::Fail,
            capacity: CapacityConfig::default(),
        }
    }
}

/// What becomes of a peer pod's own requests and limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PeerPodsMode {
    /// They go: the node is charged the runtime class's overhead and one VM.
    #[default]
    Strip,
    /// Requests become small and limits stay: quotas, minimums of limit ranges up to `shrinkTo`, and variables that read
    /// limits go on working.
    Shrink,
}

/// The requests that `mode: shrink` leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Shrunk {
    /// The cpu request of a container that had one.
    pub cpu: String,
    /// The memory request of a container that had one.
    pub memory: String,
}

impl Default for Shrunk {
    fn default() -> Self {
        Self { cpu: "1m".to_owned(), memory: "1Mi".to_owned() }
    }
}

/// How a VM's size follows from the containers' resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VmSizing {
    /// Everything added up, init containers too, as the peer-pods webhook does.
    #[default]
    Sum,
    /// What the pod needs at its peak: the larger of any init container and all that run together.
    Effective,
}

/// What becomes of `resourceFieldRef` variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DownwardApi {
    /// They stay references.
    #[default]
    Keep,
    /// They become the number that the container asked for.
    Literal,
}

/// How many VMs the nodes offer. A Node's annotation `podwright.io/peer-pod-vms` comes first, then the first entry of
/// `nodes` that selects it, then `default`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CapacityConfig {
    /// VMs of a node that nothing else speaks of. Unset: such a node offers none.
    pub default: Option<u32>,
    /// VMs by node selector; the first that matches counts.
    pub nodes: Vec<NodeCapacity>,
    /// Whether a node may offer fewer VMs than its pods hold.
    pub allow_below_use: bool,
}

/// So many VMs for the nodes with these labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeCapacity {
    /// Which nodes.
    pub selector: NodeSelector,
    /// How many VMs each of them offers.
    pub vms: u32,
}
