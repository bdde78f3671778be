use kube::CustomResource;
use schemars::{JsonSchema, transform::RecursiveTransform};
use serde::{Deserialize, Serialize};

use super::{Condition, LabelSelector, PodTemplate, condition, schema};
use crate::schema::absent_not_null;

/// One template of an ExtendedDaemonSet.
#[derive(Clone, CustomResource, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "datadoghq.com",
    version = "v1alpha1",
    kind = "ExtendedDaemonSetReplicaSet",
    plural = "extendeddaemonsetreplicasets",
    singular = "extendeddaemonsetreplicaset",
    shortname = "ers",
    namespaced,
    status = "ExtendedDaemonSetReplicaSetStatus",
    derive = "PartialEq",
    doc = "One template of an ExtendedDaemonSet, and the pods made from it. Made by the controller.",
    printcolumn = r#"{"name": "status", "type": "string", "jsonPath": ".status.status"}"#,
    printcolumn = r#"{"name": "desired", "type": "integer", "jsonPath": ".status.desired"}"#,
    printcolumn = r#"{"name": "current", "type": "integer", "jsonPath": ".status.current"}"#,
    printcolumn = r#"{"name": "ready", "type": "integer", "jsonPath": ".status.ready"}"#,
    printcolumn = r#"{"name": "available", "type": "integer", "jsonPath": ".status.available"}"#,
    printcolumn = r#"{"name": "ignored unresponsive nodes", "type": "integer", "jsonPath": ".status.ignoredUnresponsiveNodes"}"#,
    printcolumn = r#"{"name": "node selector", "type": "string", "jsonPath": ".spec.selector"}"#,
    printcolumn = r#"{"name": "age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(
    transform = RecursiveTransform(absent_not_null),
    transform = RecursiveTransform(schema::no_default),
    extend("required" = ["template"])
)]
pub struct ExtendedDaemonSetReplicaSetSpec {
    /// Which nodes, by their labels. Unset: all that the template allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// What each pod is.
    pub template: PodTemplate,
    /// A digest of the template, which its pods carry.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template_generation: String,
}

/// How far it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(
    transform = RecursiveTransform(absent_not_null),
    transform = RecursiveTransform(schema::no_default),
    extend("required" = ["available", "current", "desired", "ignoredUnresponsiveNodes", "ready", "status"])
)]
pub struct ExtendedDaemonSetReplicaSetStatus {
    /// The part that it plays: active, canary, canary-failed or unknown.
    pub status: String,
    /// How many nodes should have a pod of it.
    pub desired: i32,
    /// How many pods it has.
    pub current: i32,
    /// How many of them are ready.
    pub ready: i32,
    /// How many of them are available.
    pub available: i32,
    /// How many nodes are left out of the count because their pod can't be scheduled or doesn't go away.
    pub ignored_unresponsive_nodes: i32,
    /// What is known of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "condition::list")]
    pub conditions: Vec<Condition>,
}
