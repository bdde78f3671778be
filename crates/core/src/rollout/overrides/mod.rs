//! Other resources for a container on some nodes.
//!
//! One precedence, a node's annotation over a setting over the template, gives one [`Wanted`]. From it pods are made, and with
//! it running pods are compared; so what is added, changed or removed reaches exactly the pods that it concerns.

mod node;
mod record;
mod resources;
pub mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use podwright_api::keys;
use serde_json::{Value, json};

pub use node::{NodeOverrides, OverrideProblem};
use record::OverrideRecord;
pub(crate) use record::overridden_containers;
pub use record::{ContainerAmounts, PodRecord};
use resources::Amounts;
use settings::Setting;

use super::fingerprint::md5_hex;

/// What a pod of one template should have on one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// The resources of each container that has others than the template's.
    containers: BTreeMap<String, Amounts>,
    /// The digest of the node's annotations.
    node_hash: Option<String>,
    /// Namespace and name of the setting that applies.
    setting: Option<(String, String)>,
}

impl Wanted {
    /// What a pod of this template should have on a node with these annotations, where this setting applies. Containers that
    /// the template does not have are of no concern to its pods; init containers are never overridden.
    #[must_use]
    pub fn of(template: &Value, node: &NodeOverrides, setting: Option<&Setting>) -> Self {
        let mut containers = BTreeMap::new();
        if setting.is_some() || !node.containers.is_empty() {
            for name in container_names(template) {
                let of_setting = || setting.and_then(|setting| setting.amounts.get(name));
                if let Some(amounts) = node.containers.get(name).or_else(of_setting) {
                    containers.insert(name.to_owned(), amounts.clone());
                }
            }
        }
        Self {
            containers,
            node_hash: node.hash.clone(),
            setting: setting.map(|setting| (setting.namespace.clone(), setting.name.clone())),
        }
    }

    /// Whether a running pod has what it should have.
    #[must_use]
    pub fn is_met_by(&self, pod: &PodRecord) -> bool {
        match pod {
            PodRecord::Plain => self.containers.is_empty(),
            PodRecord::Recorded(digest) => *digest == self.digest(),
            PodRecord::Foreign { node_hash, setting, containers } => {
                let names_setting = match (&self.setting, setting) {
                    (Some((_, wanted)), Some(setting)) => wanted == setting,
                    (wanted, setting) => wanted.is_none() && setting.is_none(),
                };
                let includes = |(name, wanted): (&String, &Amounts)| {
                    containers.get(name).is_some_and(|amounts| amounts.includes(wanted))
                };
                *node_hash == self.node_hash && names_setting && self.containers.iter().all(includes)
            }
        }
    }

    /// Puts it into a pod that is being made.
    pub(super) fn apply(&self, pod: &mut Value) {
        let containers = pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let amounts = container["name"].as_str().and_then(|name| self.containers.get(name));
            if let Some(amounts) = amounts {
                container["resources"] = amounts.to_json();
            }
        }
    }

    /// Annotations by which the pod says what was put into it.
    pub(super) fn annotations(&self) -> Vec<(&'static str, String)> {
        if self.node_hash.is_none() && self.setting.is_none() {
            return Vec::new();
        }
        let record =
            OverrideRecord { digest: self.digest(), containers: self.containers.keys().cloned().collect() };
        let mut all = vec![(keys::EDS_POD_OVERRIDES, json!(record).to_string())];
        all.extend(self.node_hash.clone().map(|hash| (keys::EDS_NODE_OVERRIDES, hash)));
        all
    }

    /// Labels that name the setting. A name that is too long for a label is left out.
    pub(super) fn labels(&self) -> Vec<(&'static str, &str)> {
        let fits = |(_, name): &&(String, String)| name.len() <= 63;
        self.setting.as_ref().filter(fits).map_or_else(Vec::new, |(namespace, name)| {
            vec![(keys::EDS_SETTING, name.as_str()), (keys::EDS_SETTING_NAMESPACE, namespace.as_str())]
        })
    }

    /// Equal for equal amounts, however they are written.
    fn digest(&self) -> String {
        let mut text = String::new();
        for (name, amounts) in &self.containers {
            amounts.describe(name, &mut text);
        }
        md5_hex(text.as_bytes())
    }
}

fn container_names(template: &Value) -> impl Iterator<Item = &str> {
    let containers = template.pointer("/spec/containers").and_then(Value::as_array);
    containers.into_iter().flatten().filter_map(|container| container["name"].as_str())
}
