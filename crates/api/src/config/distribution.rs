use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FailurePolicy;

/// Distribution: pods spread over node labels by weight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DistributionConfig {
    /// What the API server does with a pod when we cannot be reached. With `Ignore` the pod is created where the scheduler likes,
    /// and made anew once we are back. `Fail` holds up the pods of every workload.
    pub failure_policy: FailurePolicy,
    /// Whether pods get a deletion cost, so that a workload that shrinks keeps its ratio. A cost that a pod brings along is never
    /// changed.
    pub deletion_costs: bool,
}

impl Default for DistributionConfig {
    fn default() -> Self {
        Self { failure_policy: FailurePolicy::Ignore, deletion_costs: true }
    }
}
