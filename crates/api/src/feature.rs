use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A thing that Podwright does, which can be switched on by itself.
///
/// Later features add their variant with their code; the order of the variants is the order in which their
/// mutations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// Pods go where their images can run.
    Architecture,
    /// Pods are spread over node labels by weight.
    Distribution,
    /// DaemonSet pods get a share of their node.
    Sizing,
    /// VM-backed pods are accounted as VMs, and nodes offer VM capacity.
    PeerPods,
    /// ExtendedDaemonSets: canary and rolling updates of daemons. Controls only; admits nothing.
    Rollout,
}

impl Feature {
    /// Every feature, in the order in which mutations run.
    pub const ALL: &[Self] =
        &[Self::Architecture, Self::Distribution, Self::Sizing, Self::PeerPods, Self::Rollout];

    /// The name used in flags, in the configuration file, in webhook paths and in metric labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Architecture => "architecture",
            Self::Distribution => "distribution",
            Self::Sizing => "sizing",
            Self::PeerPods => "peer-pods",
            Self::Rollout => "rollout",
        }
    }

    /// Whether pods are sent to it while they are created. The others only control.
    #[must_use]
    pub const fn has_webhook(self) -> bool {
        !matches!(self, Self::Rollout)
    }

    /// The path at which its webhook is served and registered.
    #[must_use]
    pub fn path(self) -> String {
        format!("/mutate/{}", self.name())
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A feature name that does not exist.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown feature {given:?}; the features are: {}", known_names())]
pub struct UnknownFeature {
    given: String,
}

fn known_names() -> String {
    Feature::ALL.iter().map(|feature| feature.name()).collect::<Vec<_>>().join(", ")
}

impl FromStr for Feature {
    type Err = UnknownFeature;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .copied()
            .find(|feature| feature.name() == text.trim())
            .ok_or_else(|| UnknownFeature { given: text.to_owned() })
    }
}
