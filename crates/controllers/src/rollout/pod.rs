//! A daemon's pod, of which only what is looked at is read.

use std::borrow::Cow;

use k8s_openapi::{
    api::core::v1::{NodeAffinity, Pod, PodStatus, ResourceRequirements},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, core::NamespaceResourceScope};
use serde::Deserialize;

use crate::slim;

/// A pod as it comes from the API server. There are as many as nodes, and each changes several times while it comes up.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DaemonPod {
    #[serde(deserialize_with = "slim::metadata")]
    pub(super) metadata: ObjectMeta,
    pub(super) spec: DaemonPodSpec,
    pub(super) status: PodStatus,
}

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

impl Resource for DaemonPod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
