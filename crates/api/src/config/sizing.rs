use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FailurePolicy;

/// Sizing: DaemonSet pods as a share of their node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SizingConfig {
    /// What becomes of a pod whose template or node is missing or whose template is invalid. A DaemonSet's annotation
    /// `podwright.io/sizing-on-error` comes first.
    pub on_error: OnError,
    /// What the API server does with a DaemonSet's pod when we cannot be reached. `Fail` holds up the pods of every
    /// DaemonSet, the network's own among them: a cluster may then not come up by itself.
    pub failure_policy: FailurePolicy,
    /// Running pods whose share has changed.
    pub drift: DriftConfig,
}

impl Default for SizingConfig {
    fn default() -> Self {
        Self { on_error: OnError::Deny, failure_policy: FailurePolicy::Ignore, drift: DriftConfig::default() }
    }
}

/// Running pods whose share has changed, or that were created while we could not be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DriftConfig {
    /// Whether they are resized in place where that is possible, and reported where it is not.
    pub enabled: bool,
    /// How many pods of one DaemonSet may be away at a time while templates with `onDrift: Recreate` replace them.
    pub max_unavailable: u32,
}

impl Default for DriftConfig {
    fn default() -> Self {
        Self { enabled: true, max_unavailable: 1 }
    }
}

/// What becomes of a pod that cannot be sized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnError {
    /// It is refused, with the reason; its DaemonSet tries again.
    #[default]
    Deny,
    /// It is let through as it is, with a warning.
    Allow,
}

/// A word that is neither `Deny` nor `Allow`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is neither Deny nor Allow")]
pub struct UnknownOnError {
    given: String,
}

impl FromStr for OnError {
    type Err = UnknownOnError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "Deny" => Ok(Self::Deny),
            "Allow" => Ok(Self::Allow),
            _ => Err(UnknownOnError { given: text.to_owned() }),
        }
    }
}
