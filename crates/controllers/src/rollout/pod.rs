//! A daemon's pod, of which only what is looked at is read.

use k8s_openapi::api::core::v1::{NodeAffinity, PodStatus, ResourceRequirements};
use serde::Deserialize;

use crate::slim;

/// A pod as it comes from the API server. There are as many as nodes, and each changes several times while it comes up.
pub(super) type DaemonPod = slim::Pod<DaemonPodSpec, PodStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DaemonPodSpec {
    pub(super) node_name: Option<String>,
    pub(super) affinity: Option<Affinity>,
    pub(super) containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Affinity {
    pub(super) node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) resources: Option<ResourceRequirements>,
}
