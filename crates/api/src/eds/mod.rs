//! ExtendedDaemonSet, its replica sets and its settings: a DaemonSet that tries a new template on a few nodes first.
//!
//! Fields, columns, words and the protocol between the kinds are those that users of the Go ExtendedDaemonSet controller
//! know, so that one can take the other's place. New fields are optional and change nothing while they are unset. Whatever was
//! stored under an older definition is read: what makes no sense becomes a [`Problem`], never a fault.

mod amount;
mod condition;
mod definition;
mod effective;
mod replicaset;
mod schema;
mod selector;
mod setting;
mod span;
mod strategy;
mod template;
#[cfg(test)]
mod tests;
pub mod words;

use kube::CustomResource;
use schemars::{JsonSchema, transform::RecursiveTransform};
use serde::{Deserialize, Serialize};

pub use amount::{Amount, BadAmount, IntOrText};
pub use condition::{Condition, find as find_condition};
pub use definition::definitions;
pub use effective::{EffectiveAutoFail, EffectiveAutoPause, EffectiveCanary, EffectiveStrategy, Problem};
pub use replicaset::{
    ExtendedDaemonSetReplicaSet, ExtendedDaemonSetReplicaSetSpec, ExtendedDaemonSetReplicaSetStatus,
};
pub use selector::{BadSelector, LabelRequirement, LabelSelector};
pub use setting::{
    ContainerResources, ExtendedDaemonsetSetting, ExtendedDaemonsetSettingSpec,
    ExtendedDaemonsetSettingStatus, Reference,
};
pub use span::BadSpan;
pub use strategy::{AutoFail, AutoPause, Canary, RollingUpdate, Strategy};
pub use template::PodTemplate;

use crate::schema::absent_not_null;

/// Which pods run on which nodes, and how a new template reaches them.
#[derive(Clone, CustomResource, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "datadoghq.com",
    version = "v1alpha1",
    kind = "ExtendedDaemonSet",
    plural = "extendeddaemonsets",
    singular = "extendeddaemonset",
    shortname = "eds",
    namespaced,
    status = "ExtendedDaemonSetStatus",
    derive = "PartialEq",
    doc = "A DaemonSet with budgets, canaries and overrides for some nodes.",
    printcolumn = r#"{"name": "desired", "type": "integer", "jsonPath": ".status.desired"}"#,
    printcolumn = r#"{"name": "current", "type": "integer", "jsonPath": ".status.current"}"#,
    printcolumn = r#"{"name": "ready", "type": "integer", "jsonPath": ".status.ready"}"#,
    printcolumn = r#"{"name": "up-to-date", "type": "integer", "jsonPath": ".status.upToDate"}"#,
    printcolumn = r#"{"name": "available", "type": "integer", "jsonPath": ".status.available"}"#,
    printcolumn = r#"{"name": "ignored unresponsive nodes", "type": "integer", "jsonPath": ".status.ignoredUnresponsiveNodes"}"#,
    printcolumn = r#"{"name": "status", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "reason", "type": "string", "jsonPath": ".status.reason"}"#,
    printcolumn = r#"{"name": "active rs", "type": "string", "jsonPath": ".status.activeReplicaSet"}"#,
    printcolumn = r#"{"name": "canary rs", "type": "string", "jsonPath": ".status.canary.replicaSet"}"#,
    printcolumn = r#"{"name": "age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(
    transform = RecursiveTransform(absent_not_null),
    transform = RecursiveTransform(schema::no_default),
    extend("required" = ["strategy", "template"])
)]
pub struct ExtendedDaemonSetSpec {
    /// Which nodes, by their labels. Unset: all that the template allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// What each pod is.
    pub template: PodTemplate,
    /// How a new template reaches the nodes.
    pub strategy: Strategy,
    /// How many seconds a pod must have been ready before it counts as available, for the status, the budget and the canary
    /// alike. Unset: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
}

/// How far it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(
    transform = RecursiveTransform(absent_not_null),
    transform = RecursiveTransform(schema::no_default),
    extend("required" = ["activeReplicaSet", "available", "current", "desired", "ignoredUnresponsiveNodes", "ready", "upToDate"])
)]
pub struct ExtendedDaemonSetStatus {
    /// How many nodes should have a pod.
    pub desired: i32,
    /// How many pods there are.
    pub current: i32,
    /// How many of them are ready.
    pub ready: i32,
    /// How many of them are available.
    pub available: i32,
    /// How many of them have the newest template.
    pub up_to_date: i32,
    /// How many nodes are left out of the count because their pod can't be scheduled or doesn't go away.
    pub ignored_unresponsive_nodes: i32,
    /// What it is doing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// The replica set whose pods run everywhere but on the canary's nodes.
    pub active_replica_set: String,
    /// The canary, while there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryStatus>,
    /// Why the canary is paused.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What is known of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "condition::list")]
    pub conditions: Vec<Condition>,
    /// The generation that all this speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A canary that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["replicaSet"]))]
pub struct CanaryStatus {
    /// The replica set that is tried.
    pub replica_set: String,
    /// On which nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub nodes: Vec<String>,
    /// With `spreadBy`: what decided between nodes that are alike. The same seed gives the same nodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub seed: String,
    /// With `pauseStopsClock`: how many seconds it was paused, pauses that have ended only.
    #[serde(skip_serializing_if = "is_zero")]
    pub paused_seconds: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(number: &i64) -> bool {
    *number == 0
}
