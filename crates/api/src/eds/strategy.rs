use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IntOrText, LabelSelector, schema};

/// How a new template reaches the nodes. What is unset has its default, which is never written into the object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// How pods are replaced.
    #[serde(skip_serializing_if = "is_default")]
    pub rolling_update: RollingUpdate,
    /// A trial on a few nodes first. Unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// How long a pod that is not ready counts as starting. Changes are seen at once, whatever it says. Unset: 10s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::span()))]
    pub reconcile_frequency: Option<String>,
}

/// How pods are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many nodes may be without an available pod at a time: a number, or a percentage of all nodes, rounded up. Unset: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::amount")]
    pub max_unavailable: Option<IntOrText>,
    /// How many nodes whose pod can't be scheduled or doesn't go away are left out of that count. Unset: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::amount")]
    pub max_pod_scheduler_failure: Option<IntOrText>,
    /// How many pods may be starting at a time, at most. Unset: 250.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::at_least_one()))]
    pub max_parallel_pod_creation: Option<i32>,
    /// After each such interval more pods may be starting at a time. Unset: 1m.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::positive_span()))]
    pub slow_start_interval_duration: Option<String>,
    /// How many pods may be starting at a time in the first interval, and how many more in each that follows: a number, or a
    /// percentage of all nodes, rounded up. Unset: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::positive_amount")]
    pub slow_start_additive_increase: Option<IntOrText>,
}

/// A trial of a new template on a few nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = schema::canary()))]
pub struct Canary {
    /// On how many nodes: a number, or a percentage of all nodes, rounded up. Unset: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::amount")]
    pub replicas: Option<IntOrText>,
    /// How long. Unset: 10m, or without end when a person validates.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::span()))]
    pub duration: Option<String>,
    /// On which nodes. Unset: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// Labels over whose values the nodes are spread.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub node_anti_affinity_keys: Vec<String>,
    /// When it is paused without a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_pause: Option<AutoPause>,
    /// When it fails without a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_fail: Option<AutoFail>,
    /// How long no pod may have restarted before it ends. Unset: 5m, or nothing when a person validates.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::span()))]
    pub no_restarts_duration: Option<String>,
    /// Whether it ends by itself (auto) or when a person says so (manual). Unset: as the controller's EDS_VALIDATION_MODE says,
    /// else auto.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["auto", "manual"]))]
    pub validation_mode: Option<String>,
    /// Whether it only ends well once every canary pod is there and available. Unset: false, and time alone decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_ready: Option<bool>,
    /// Whether the time during which it is paused does not count for its duration. Unset: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_stops_clock: Option<bool>,
    /// Labels of nodes: the canary's nodes represent each combination of their values in proportion. Unset: no such care.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub spread_by: Vec<String>,
    /// What becomes of the template when it fails: the active one is put back into the spec (Restore, the default), or the
    /// spec stays as it is and the active version runs on (HoldActive), for those who keep the spec elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Restore", "HoldActive"]))]
    pub on_failure: Option<String>,
}

/// When a canary is paused without a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoPause {
    /// Unset: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// When a container has restarted more often than this. Unset: 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_restarts: Option<i32>,
    /// When a pod needs longer than this to start. Unset: no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::span()))]
    pub max_slow_start_duration: Option<String>,
}

/// When a canary fails without a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoFail {
    /// Unset: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// When a container has restarted more often than this. Unset: 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_restarts: Option<i32>,
    /// When containers have gone on restarting for longer than this. Unset: no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::span()))]
    pub max_restarts_duration: Option<String>,
    /// When the canary takes longer than this. Unset: no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = schema::span()))]
    pub canary_timeout: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
