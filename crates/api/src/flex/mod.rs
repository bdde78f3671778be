//! FlexDaemonsetTemplate: how much of its node each pod of a DaemonSet gets.
//!
//! The six fields that FlexDaemonsets knows mean what they mean there. All others are optional and change nothing while they
//! are unset.

mod schema;
mod status;
#[cfg(test)]
mod tests;

use kube::CustomResource;
use schemars::{JsonSchema, transform::RecursiveTransform};
use serde::{Deserialize, Serialize};

pub use status::FlexDaemonsetTemplateStatus;

use crate::{NodeSelector, schema::absent_not_null};

/// Shares of a node's allocatable resources.
#[derive(Clone, CustomResource, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "flexdaemonsets.xai",
    version = "v1alpha1",
    kind = "FlexDaemonsetTemplate",
    plural = "flexdaemonsettemplates",
    singular = "flexdaemonsettemplate",
    shortname = "fdt",
    status = "FlexDaemonsetTemplateStatus",
    derive = "PartialEq",
    doc = "How much of its node each pod of a DaemonSet gets. A DaemonSet asks for it with the annotation flexdaemonsets.xai/resource-template.",
    printcolumn = r#"{"name": "CPU", "type": "integer", "jsonPath": ".spec.cpuPercentage", "description": "Percent of the node's allocatable cpu"}"#,
    printcolumn = r#"{"name": "Memory", "type": "integer", "jsonPath": ".spec.memoryPercentage", "description": "Percent of the node's allocatable memory"}"#,
    printcolumn = r#"{"name": "Storage", "type": "integer", "jsonPath": ".spec.storagePercentage", "description": "Percent of the node's allocatable ephemeral storage"}"#,
    printcolumn = r#"{"name": "In use", "type": "integer", "jsonPath": ".status.inUse", "description": "Pods that are sized by it"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "description": "Whether it can be used"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = RecursiveTransform(absent_not_null), extend("x-kubernetes-validations" = schema::bounds()))]
pub struct FlexDaemonsetTemplateSpec {
    /// Percent of the node's allocatable cpu.
    #[schemars(range(min = 1, max = 100))]
    pub cpu_percentage: i32,
    /// Percent of the node's allocatable memory.
    #[schemars(range(min = 1, max = 100))]
    pub memory_percentage: i32,
    /// Percent of the node's allocatable ephemeral storage.
    #[schemars(range(min = 1, max = 100))]
    pub storage_percentage: i32,
    /// At least so much cpu, such as 100m.
    #[serde(rename = "minCPU", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::quantity()))]
    pub min_cpu: Option<String>,
    /// At least so much memory, such as 128Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::quantity()))]
    pub min_memory: Option<String>,
    /// At least so much ephemeral storage, such as 1Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::quantity()))]
    pub min_storage: Option<String>,
    /// At most so much cpu.
    #[serde(rename = "maxCPU", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::quantity()))]
    pub max_cpu: Option<String>,
    /// At most so much memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::quantity()))]
    pub max_memory: Option<String>,
    /// At most so much ephemeral storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::quantity()))]
    pub max_storage: Option<String>,
    /// The resources that are set; the others stay as the pod has them. Unset: all three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1), extend("x-kubernetes-list-type" = "set"))]
    pub managed_resources: Vec<ManagedResource>,
    /// Whether each container gets the whole figure (EachContainer, the default), or the pod's containers share it in
    /// the ratio of their requests (PodTotal).
    #[serde(default, skip_serializing_if = "is_default")]
    pub apply_to: ApplyTo,
    /// Which containers are sized. Unset: all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub containers: ContainerChoice,
    /// Whether init containers, sidecars among them, are sized. Unset: true.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub init_containers: bool,
    /// Whether limits are set to the same figure (Equal, the default), or only requests are set (RequestsOnly). A limit
    /// that would be below its request is raised to it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: Limits,
    /// Whether a minimum may not ask for more than the node has. Unset: false, and a pod whose minimum is too large stays
    /// pending.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cap_at_allocatable: bool,
    /// Other figures for some nodes; the first entry that selects the node counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub overrides: Vec<Override>,
    /// What becomes of running pods that can't be resized in place: they are reported (Report, the default), or also
    /// replaced within a budget (Recreate).
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_drift: OnDrift,
}

/// Other figures for some nodes. What is unset here is as the template says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::bounds()))]
pub struct Override {
    /// Which nodes.
    pub node_selector: NodeSelector,
    /// Percent of the node's allocatable cpu.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub cpu_percentage: Option<i32>,
    /// Percent of the node's allocatable memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub memory_percentage: Option<i32>,
    /// Percent of the node's allocatable ephemeral storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub storage_percentage: Option<i32>,
    /// At least so much cpu.
    #[serde(rename = "minCPU", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::quantity()))]
    pub min_cpu: Option<String>,
    /// At least so much memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::quantity()))]
    pub min_memory: Option<String>,
    /// At least so much ephemeral storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::quantity()))]
    pub min_storage: Option<String>,
    /// At most so much cpu.
    #[serde(rename = "maxCPU", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::quantity()))]
    pub max_cpu: Option<String>,
    /// At most so much memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::quantity()))]
    pub max_memory: Option<String>,
    /// At most so much ephemeral storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::quantity()))]
    pub max_storage: Option<String>,
}

/// A resource that a template can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ManagedResource {
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// The node's local disk: writable layers, logs, emptyDir volumes.
    EphemeralStorage,
}

impl ManagedResource {
    /// All of them, in the order in which they are computed.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::EphemeralStorage];

    /// The resource's name in Kubernetes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
        }
    }
}

/// Who gets the figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApplyTo {
    /// Each container the whole of it.
    #[default]
    EachContainer,
    /// All containers of the pod together.
    PodTotal,
}

/// Which containers are sized, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerChoice {
    /// Only these. Unset: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Not these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// What becomes of limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Limits {
    /// They equal the requests.
    #[default]
    Equal,
    /// They stay, unless they would be below the requests.
    RequestsOnly,
}

/// What becomes of running pods that can't be resized in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnDrift {
    /// They are reported.
    #[default]
    Report,
    /// They are reported, and replaced within a budget.
    Recreate,
}

impl FlexDaemonsetTemplateSpec {
    /// Whether the template sets this resource.
    #[must_use]
    pub fn manages(&self, resource: ManagedResource) -> bool {
        self.managed_resources.is_empty() || self.managed_resources.contains(&resource)
    }
}

impl ContainerChoice {
    /// Whether a container of this name is sized.
    #[must_use]
    pub fn chooses(&self, name: &str) -> bool {
        let listed = |list: &[String]| list.iter().any(|entry| entry == name);
        (self.include.is_empty() || listed(&self.include)) && !listed(&self.exclude)
    }
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_yes(value: &bool) -> bool {
    *value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
