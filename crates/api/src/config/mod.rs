//! `podwright.yaml`: every setting with its default, read strictly.
//!
//! The file comes first, then the environment variables that the replaced projects' users have set, then flags.

mod architecture;
mod check;
mod distribution;
mod environment;
mod peer_pods;
mod read;
mod rollout;
mod serving;
mod sizing;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use architecture::{
    ArchitectureConfig, ArchitectureRules, GateConfig, OnDeadline, OnNoCommonPlatform, OnUnknown,
    RegistryConfig, ReinvocationPolicy, TaintConfig, TaintEffect,
};
pub use check::InvalidConfig;
pub use distribution::DistributionConfig;
pub use environment::BadVariable;
pub use peer_pods::{
    CapacityConfig, DownwardApi, FailurePolicy, NodeCapacity, PeerPodsConfig, PeerPodsMode, Shrunk, VmSizing,
};
pub use read::ReadError;
pub use rollout::{RolloutConfig, ValidationMode};
pub use serving::{LeaderElectionConfig, LogFormat, LoggingConfig, TlsConfig, TlsMode, WebhookConfig};
pub use sizing::{DriftConfig, OnError, SizingConfig, UnknownOnError};

use crate::Feature;
pub use crate::selector::{NodeSelector, Operator, Requirement};

/// Everything that can be configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Which features run. All by default.
    pub features: Vec<Feature>,
    /// The namespace that Podwright runs in (POD_NAMESPACE). Default: `podwright-system`.
    pub namespace: Option<String>,
    /// Only pods and ExtendedDaemonSets of these namespaces are treated (WATCH_NAMESPACE). Empty: pods of every namespace but
    /// our own and kube-system, and ExtendedDaemonSets of every namespace.
    pub watch_namespaces: Vec<String>,
    /// How Podwright logs.
    pub logging: LoggingConfig,
    /// The admission server and its registration.
    pub webhook: WebhookConfig,
    /// Where the server's certificate comes from.
    pub tls: TlsConfig,
    /// Which replica controls.
    pub leader_election: LeaderElectionConfig,
    /// Architecture: pods go where their images can run.
    pub architecture: ArchitectureConfig,
    /// Distribution: pods spread over node labels by weight.
    pub distribution: DistributionConfig,
    /// Sizing: DaemonSet pods as a share of their node.
    pub sizing: SizingConfig,
    /// Peer pods: VM-backed pods accounted as VMs.
    pub peer_pods: PeerPodsConfig,
    /// Rollout: ExtendedDaemonSets.
    pub rollout: RolloutConfig,
}

/// Where Podwright lives when nothing else says so.
pub const DEFAULT_NAMESPACE: &str = "podwright-system";

impl Default for Config {
    fn default() -> Self {
        Self {
            features: Feature::ALL.to_vec(),
            namespace: None,
            watch_namespaces: Vec::new(),
            logging: LoggingConfig::default(),
            webhook: WebhookConfig::default(),
            tls: TlsConfig::default(),
            leader_election: LeaderElectionConfig::default(),
            architecture: ArchitectureConfig::default(),
            distribution: DistributionConfig::default(),
            sizing: SizingConfig::default(),
            peer_pods: PeerPodsConfig::default(),
            rollout: RolloutConfig::default(),
        }
    }
}

impl Config {
    /// The namespace that Podwright runs in.
    #[must_use]
    pub fn home(&self) -> &str {
        self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)
    }

    /// Whether this feature is switched on.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Whether any feature that is switched on has pods sent to it.
    #[must_use]
    pub fn admits(&self) -> bool {
        self.features.iter().any(|feature| feature.has_webhook())
    }

    /// The JSON schema of the file, for editors and for the reference page.
    #[must_use]
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }
}
