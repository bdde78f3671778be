use std::collections::BTreeMap;

use podwright_api::keys;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::resources::Amounts;

/// The annotation with which a pod says what was put into it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OverrideRecord {
    pub(super) digest: String,
    pub(super) containers: Vec<String>,
}

/// What is known of the overrides of a running pod. What its containers have now is not asked where it says itself what was
/// put in: admission may have added to it since.
#[derive(Clone, Debug, PartialEq)]
pub enum PodRecord {
    /// It was made without any.
    Plain,
    /// It says what it was made with.
    Recorded(String),
    /// The Go controller made it with overrides; what it has must do.
    Foreign {
        /// The digest of its node's annotations at that time.
        node_hash: Option<String>,
        /// The setting's name.
        setting: Option<String>,
        /// What its containers have.
        containers: ContainerAmounts,
    },
}

/// What a pod's containers have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerAmounts(BTreeMap<String, Amounts>);

impl ContainerAmounts {
    pub(super) fn get(&self, container: &str) -> Option<&Amounts> {
        self.0.get(container)
    }
}

impl PodRecord {
    /// Reads a pod's labels and annotations, and its containers' names and resources only if these do not tell.
    #[must_use]
    pub fn read(
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        containers: impl FnOnce() -> Vec<(String, Value)>,
    ) -> Self {
        let record = annotations.get(keys::EDS_POD_OVERRIDES);
        if let Some(record) = record.and_then(|text| serde_json::from_str::<OverrideRecord>(text).ok()) {
            return Self::Recorded(record.digest);
        }
        let node_hash = annotations.get(keys::EDS_NODE_OVERRIDES).cloned();
        let setting = labels.get(keys::EDS_SETTING).cloned();
        if node_hash.is_none() && setting.is_none() {
            return Self::Plain;
        }
        let read = |(name, resources): (String, Value)| Some((name, Amounts::read(&resources).ok()?.0));
        let containers = ContainerAmounts(containers().into_iter().filter_map(read).collect());
        Self::Foreign { node_hash, setting, containers }
    }
}

/// The containers of which a pod's annotation says that they are overridden.
pub(crate) fn overridden_containers(annotation: &str) -> Option<Vec<String>> {
    serde_json::from_str::<OverrideRecord>(annotation).ok().map(|record| record.containers)
}
