use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, transform::RecursiveTransform};
use serde::{Deserialize, Serialize};

use crate::schema::{self, absent_not_null};

/// How a rule fares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = RecursiveTransform(absent_not_null))]
pub struct PodDistributorStatus {
    /// The kind of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_target_kind: Option<String>,
    /// How it fares in one word: Balanced, Unbalanced, Unsatisfied, NoPods, Shadowed or Invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The generation of the rule that this speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many active pods of the newest revision there are, in whichever entry or in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<i32>,
    /// How many pods each entry should have, in the order of the rule, such as `16/4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<String>,
    /// How many pods each entry has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// The same, entry by entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub entries: Vec<EntryStatus>,
    /// Whether the rule is in force, whether the ratio is kept, and whether every entry can take pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Places given to pods that have been admitted and are not seen yet. Written by the webhook's replicas, which agree through
    /// it; empty at rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub reserved: Vec<Reserved>,
}

/// How one entry fares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryStatus {
    /// The entry's labels.
    pub entry: String,
    /// How many pods it should have.
    pub desired: i32,
    /// How many it has.
    pub actual: i32,
    /// How many nodes have its labels and can take pods.
    pub nodes: i32,
    /// Whether it can take pods.
    pub state: EntryState,
    /// Why not, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// While NoRoom: not tried again before (seconds since 1970).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<i64>,
    /// While NoRoom: for how many seconds it was set aside, which doubles when it is full again at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside_for: Option<i64>,
}

/// Whether an entry can take pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EntryState {
    /// It can.
    #[default]
    Open,
    /// No node has its labels and can take pods.
    NoNodes,
    /// Pods of this workload do not fit on its nodes now.
    NoRoom,
}

/// Places given to pods of one revision in one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reserved {
    /// The revision of the workload.
    pub revision: String,
    /// The entry's labels.
    pub entry: String,
    /// A ticket for each pod: what stands in the pod's annotation, `@`, and when it was given (milliseconds since 1970).
    pub tickets: Vec<String>,
}
