use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rollout: ExtendedDaemonSets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RolloutConfig {
    /// The Lease, in our namespace, that the replica holds which rolls out. It is the one that the ExtendedDaemonSet
    /// controller holds, so that the two never work at the same time.
    pub lease: String,
    /// How a canary ends where its ExtendedDaemonSet does not say (EDS_VALIDATION_MODE).
    pub validation_mode: ValidationMode,
}

impl Default for RolloutConfig {
    fn default() -> Self {
        Self { lease: "extendeddaemonset-lock".to_owned(), validation_mode: ValidationMode::Auto }
    }
}

/// How a canary ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ValidationMode {
    /// By itself, after its duration.
    #[default]
    Auto,
    /// When a person says so.
    Manual,
}

impl FromStr for ValidationMode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "manual" => Ok(Self::Manual),
            _ => Err("must be auto or manual"),
        }
    }
}
