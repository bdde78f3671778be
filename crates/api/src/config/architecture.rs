use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FailurePolicy, NodeSelector};
use crate::LongDuration;

/// Architecture: pods go where their images can run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ArchitectureConfig {
    /// How long the platforms of an image are remembered that is pulled only if it is not present (`7d`, `1w`, `36h`). What
    /// is named by digest is remembered for ever.
    pub if_not_present_cache_time: LongDuration,
    /// How long the platforms of an image are remembered that is always pulled. Unset (`null`): not at all, its registry is
    /// asked each time.
    pub pull_always_cache_time: Option<LongDuration>,
    /// A Secret in our namespace with a docker config (`.dockerconfigjson` or `.dockercfg`) for images that the pods' own
    /// pull secrets do not open. Empty: none.
    pub docker_config_secret_name: String,
    /// Whether the pull secrets of pods and of their ServiceAccounts are used, each read by its name when it is needed. Off:
    /// only `dockerConfigSecretName`, and the right to read Secrets can be taken away.
    pub use_pull_secrets: bool,
    /// What to know about architectures, by the value of the label `kubernetes.io/arch`. Those that the nodes have need no
    /// entry; one that is listed counts as there, also while no node has it (an autoscaler may bring one).
    pub architectures: BTreeMap<String, ArchitectureRules>,
    /// What becomes of a pod when the platforms of an image cannot be had in time.
    pub on_unknown: OnUnknown,
    /// How long admission waits for registries, all images of a pod together. Must be shorter than `webhook.timeout`.
    pub lookup_timeout: LongDuration,
    /// Pods that are held back by `onUnknown: Gate`.
    pub gate: GateConfig,
    /// What becomes of a pod whose images have no platform in common.
    pub on_no_common_platform: OnNoCommonPlatform,
    /// How registries are reached, by host as image names have it (`docker.io`, `registry.example.com:5000`).
    pub registries: BTreeMap<String, RegistryConfig>,
    /// Whether the images of Deployments, StatefulSets and CronJobs are looked up before their pods come.
    pub warm_up: bool,
    /// What the API server does with a pod when we cannot be reached. `Fail` holds up nearly every pod of the cluster.
    pub failure_policy: FailurePolicy,
    /// Only pods of namespaces with these labels are treated. Those of kube-system and of our own namespace never are.
    pub namespace_selector: NodeSelector,
    /// Only pods with these labels are treated. Those with the label `podwright.io/architecture: "off"` never are.
    pub object_selector: NodeSelector,
    /// Whether the API server asks again after other webhooks have changed the pod, so that injected sidecars count.
    pub reinvocation_policy: ReinvocationPolicy,
}

impl Default for ArchitectureConfig {
    fn default() -> Self {
        Self {
            if_not_present_cache_time: LongDuration::seconds(7 * 24 * 3600),
            pull_always_cache_time: None,
            docker_config_secret_name: String::new(),
            use_pull_secrets: true,
            architectures: BTreeMap::new(),
            on_unknown: OnUnknown::Allow,
            lookup_timeout: LongDuration::millis(1500),
            gate: GateConfig::default(),
            on_no_common_platform: OnNoCommonPlatform::Pend,
            registries: BTreeMap::new(),
            warm_up: true,
            failure_policy: FailurePolicy::Ignore,
            namespace_selector: NodeSelector::default(),
            object_selector: NodeSelector::default(),
            reinvocation_policy: ReinvocationPolicy::IfNeeded,
        }
    }
}

/// What to know about an architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ArchitectureRules {
    /// Taints that pods tolerate whose images run on it. Unset: `kubernetes.io/arch=<architecture>`, as GKE taints nodes.
    pub taints_to_tolerate: Option<Vec<TaintConfig>>,
    /// Labels that its nodes must have for such pods; a map or several, all of whose labels count.
    pub require_node_labels: Vec<BTreeMap<String, String>>,
    /// How much the scheduler prefers it among those that a pod can run on (1 to 100). Unset: not at all. A pod's annotation
    /// `podwright.io/preferred-architectures` comes first.
    pub preference: Option<u8>,
    /// Which variant its nodes are, such as `v3` (amd64). Unset: v7 for arm, the oldest for others. Images of a higher one
    /// do not run.
    pub variant: Option<String>,
    /// The machine type that peer pods get whose images run on it.
    pub machine_type: Option<String>,
    /// The VM image that such peer pods get.
    pub machine_image: Option<String>,
}

/// A taint, by its parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaintConfig {
    /// Its key.
    pub key: String,
    /// Its value. Unset: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its effect. Unset: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// They are not scheduled there.
    NoSchedule,
    /// They are scheduled there if there is nothing better.
    PreferNoSchedule,
    /// They are not scheduled there, and evicted.
    NoExecute,
}

impl TaintEffect {
    /// As the API spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// What becomes of a pod when the platforms of an image cannot be had in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnUnknown {
    /// It is placed by what is known of its other images, with a warning.
    #[default]
    Allow,
    /// It is created, but held back from the scheduler until the platforms are known.
    Gate,
    /// It is refused, with the reason; whatever made it tries again.
    Deny,
}

/// Pods that are held back until the platforms of their images are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GateConfig {
    /// How long a pod is held back at most, from its creation.
    pub deadline: LongDuration,
    /// What becomes of it then.
    pub on_deadline: OnDeadline,
}

impl Default for GateConfig {
    fn default() -> Self {
        Self { deadline: LongDuration::seconds(600), on_deadline: OnDeadline::Allow }
    }
}

/// What becomes of a pod that was held back too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnDeadline {
    /// It is placed by what is known of its other images.
    #[default]
    Allow,
    /// It stays pending, with a node affinity that says why and that no node fulfils.
    Pend,
}

/// What becomes of a pod whose images have no platform in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnNoCommonPlatform {
    /// It stays pending, with a node affinity that says why and that no node fulfils.
    #[default]
    Pend,
    /// It is refused, with what each image offers.
    Deny,
}

/// Whether the API server asks again after other webhooks have changed the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReinvocationPolicy {
    /// It asks again.
    #[default]
    IfNeeded,
    /// It asks once.
    Never,
}

impl ReinvocationPolicy {
    /// As the API spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::IfNeeded => "IfNeeded",
            Self::Never => "Never",
        }
    }
}

/// How a registry is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RegistryConfig {
    /// Hosts that are asked first, in this order, as `host[:port][/prefix]`. Each may have an entry of its own.
    pub mirrors: Vec<String>,
    /// Whether it speaks plain HTTP.
    pub insecure: bool,
    /// The CA of its certificate, as PEM text. Unset: the usual ones.
    pub ca: Option<String>,
}
