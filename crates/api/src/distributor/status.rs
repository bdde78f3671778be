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
    /// The target that the rule is in force for, such as `Deployment.apps/web`. Unset while it is not in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Since when it has been in force for that target (seconds since 1970). Pods that are older stay where they are, even if no
    /// webhook placed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force_since: Option<i64>,
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
    /// With Spill, while NoRoom or NoNodes: not tried again before (seconds since 1970). Once it has opened: when it did, which
    /// stays for a minute and `spillAfterSeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<i64>,
    /// With Spill: for how many seconds it was set aside. Stays for as long as `retryAt` does, and doubles if the entry closes
    /// again by then, or a pod that tried it found no node: from 60 to 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside_for: Option<i64>,
    /// With Spill, while NoNodes and after `retryAt`: it takes pods up to so many, which is one more than it had, so that a pool
    /// that grows only for pods that wait gets one. If that one waits for longer than `spillAfterSeconds`, the entry is set
    /// aside again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<i32>,
    /// With Spill: since when pods that belong here are elsewhere because it had no node or no room for them (seconds since
    /// 1970). They return once it has. Unset when it has its share again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spilled_since: Option<i64>,
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
