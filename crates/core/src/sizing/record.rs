use std::{collections::BTreeMap, fmt};

use podwright_api::keys;
use serde::{Deserialize, Serialize};

use super::{Share, exempt};
use crate::pod::PodView;

/// By what a pod was sized, kept on the pod as an annotation: `podwright.io/sized-by`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizedBy {
    /// The FlexDaemonsetTemplate.
    pub template: String,
    /// The node that it is a share of.
    pub node: String,
    /// By resource: the percentage, or which bound counted.
    pub rules: BTreeMap<String, String>,
    /// Which of the template's overrides selected the node, by index.
    #[serde(rename = "override", default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<usize>,
    /// Containers that have their resources from an ExtendedDaemonSet's override for this node, and keep them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

impl SizedBy {
    /// What is to be written onto the pod.
    #[must_use]
    pub fn new(template: &str, share: &Share, pod: &PodView) -> Self {
        Self {
            template: template.to_owned(),
            node: share.node.clone(),
            rules: share
                .resources
                .iter()
                .map(|one| (one.resource.name().to_owned(), one.rule.to_string()))
                .collect(),
            overridden: share.overridden,
            kept: exempt::kept(pod),
        }
    }

    /// What was written onto the pod. One that cannot be read is as good as none.
    #[must_use]
    pub fn of(pod: &PodView) -> Option<Self> {
        serde_json::from_str(pod.annotation(keys::SIZED_BY)?).ok()
    }
}

impl fmt::Display for SizedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}
