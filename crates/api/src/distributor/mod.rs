//! PodDistributor: over which node labels the pods of a workload are spread, and by which weights.
//!
//! `distribution` and `target` mean what they mean in Versprei. All else is optional and changes nothing while it is unset.

mod schema;
mod spelling;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::{JsonSchema, transform::RecursiveTransform};
use serde::{Deserialize, Serialize};

pub use status::{EntryState, EntryStatus, PodDistributorStatus, Reserved};

use crate::schema::absent_not_null;

/// How the pods of one workload are spread.
#[derive(Clone, CustomResource, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "versprei.versprei.io",
    version = "v1beta1",
    kind = "PodDistributor",
    plural = "poddistributors",
    singular = "poddistributor",
    namespaced,
    status = "PodDistributorStatus",
    derive = "PartialEq",
    doc = "Spreads the pods of a workload over node labels by weight.",
    printcolumn = r#"{"name": "Target", "type": "string", "jsonPath": ".spec.target.name", "description": "The workload whose pods are spread"}"#,
    printcolumn = r#"{"name": "Desired", "type": "string", "jsonPath": ".status.desired", "description": "How many pods each entry should have, in the order of the rule"}"#,
    printcolumn = r#"{"name": "Actual", "type": "string", "jsonPath": ".status.actual", "description": "How many pods each entry has, in the order of the rule"}"#,
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.status", "description": "How it fares in one word"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "description": "Whether the rule is in force"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = RecursiveTransform(absent_not_null))]
pub struct PodDistributorSpec {
    /// Where pods may go: each entry gets its weight's share of them.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = schema::distribution()))]
    pub distribution: Vec<Entry>,
    /// The workload whose pods are spread.
    pub target: Target,
    /// How the next pod's entry is chosen: the one that is furthest behind its share (LargestDeficit, the default), or the first
    /// in the list that is not above its share (FirstFit).
    #[serde(default, skip_serializing_if = "is_default")]
    pub strategy: Strategy,
    /// What becomes of pods whose entry has no node or no room for them: they stay pending (Wait, the default), or go to another
    /// entry (Spill). With Spill, as many as the entry lacks for that return by eviction once it can take them again. While it
    /// has no node at all, one pod now and then tries it, so that a pool which grows when pods wait for it does: after a minute
    /// at first, then after twice as long each time, up to an hour. With mode Preferred the scheduler sees to all that, and Spill
    /// changes nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// With Spill: how long a pod may be unschedulable before it goes elsewhere. Unset: 15. More suits pools whose nodes take
    /// longer to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub spill_after_seconds: Option<i32>,
    /// Whether a pod must run on nodes of its entry (Required, the default), or only rather there than elsewhere (Preferred).
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: Mode,
    /// Whether running pods are moved whenever the ratio is off: after a change of weights, labels or nodes, or when pods are in
    /// no entry. Without it, only those are moved that return from a spill.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rebalance: Rebalance,
}

/// One place for pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Labels that a node must have, all of them. Empty: any node.
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = schema::label_value()))]
    pub node_label: BTreeMap<String, String>,
    /// The share of this entry. Weights count in relation to each other and need not sum to 100.
    #[schemars(extend("x-kubernetes-validations" = schema::weight()))]
    pub weight: i32,
    /// Tolerations that pods of this entry get, for nodes that are tainted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Vec<Toleration>,
}

/// A toleration, as pods have them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = schema::toleration()))]
pub struct Toleration {
    /// The taint's key. Unset, with operator Exists: every taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317), extend("pattern" = schema::TAINT_KEY))]
    pub key: Option<String>,
    /// Equal (the default) or Exists; Lt or Gt where the cluster knows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = schema::OPERATORS))]
    pub operator: Option<String>,
    /// With Equal: the taint's value. With Lt or Gt: a whole number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// NoSchedule, PreferNoSchedule or NoExecute. Unset: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = schema::EFFECTS))]
    pub effect: Option<String>,
    /// With NoExecute: for how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// The workload whose pods are spread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Its group and version. Unset: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Its kind. Unset: Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::kind()))]
    pub kind: Option<String>,
    /// Its name, in the rule's namespace.
    #[schemars(extend("x-kubernetes-validations" = schema::name()))]
    pub name: String,
}

/// How the next pod's entry is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Strategy {
    /// The entry that is furthest behind its share.
    #[default]
    LargestDeficit,
    /// The first entry that is not above its share.
    FirstFit,
}

/// What becomes of pods whose entry has no node or no room for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenUnsatisfiable {
    /// They stay pending.
    #[default]
    Wait,
    /// They go to another entry, and return when there is room again.
    Spill,
}

/// How firmly a pod is held to its entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// It must run there.
    #[default]
    Required,
    /// It should run there, and may run elsewhere.
    Preferred,
}

/// Whether running pods are moved whenever the ratio is off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rebalance {
    /// Moves them, by eviction, so disruption budgets hold. Unset: false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enabled: bool,
    /// At most so many a minute, those that return from a spill included. Unset: 6, with Spill 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600))]
    pub max_per_minute: Option<i32>,
}

impl PodDistributorSpec {
    /// How long a pod may be unschedulable before it goes elsewhere, in seconds.
    #[must_use]
    pub fn spill_after(&self) -> i64 {
        i64::from(self.spill_after_seconds.unwrap_or(15).max(1))
    }
}

impl Rebalance {
    /// At most so many moves a minute.
    #[must_use]
    pub fn per_minute(&self) -> u32 {
        self.max_per_minute.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(6).max(1)
    }
}

impl Target {
    /// What it is called in a rule's status, such as `Deployment.apps/web`. Its version makes no difference.
    #[must_use]
    pub fn title(&self) -> String {
        let group = self.api_version.as_deref().and_then(|version| version.rsplit_once('/'));
        let group = group.map(|(group, _)| format!(".{group}")).unwrap_or_default();
        format!("{}{group}/{}", self.kind(), self.name)
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.kind.as_deref().filter(|kind| !kind.is_empty()).unwrap_or("Deployment")
    }
}

impl Entry {
    /// What it is called in status, annotations and events: its labels as a selector, which stays the same when the list is
    /// reordered.
    #[must_use]
    pub fn name(&self) -> String {
        if self.node_label.is_empty() {
            return ANYWHERE.to_owned();
        }
        self.node_label.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }
}

/// The name of an entry without labels.
pub const ANYWHERE: &str = "anywhere";

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
