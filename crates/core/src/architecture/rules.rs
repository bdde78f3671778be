//! What the configuration says about architectures.

use std::collections::{BTreeMap, BTreeSet};

use podwright_api::{
    config::{ArchitectureRules, TaintConfig, TaintEffect},
    keys,
};

use super::{ClusterPlatforms, NodeKind};

/// What the configuration says about architectures, by their names.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    architectures: BTreeMap<String, ArchitectureRules>,
}

impl From<BTreeMap<String, ArchitectureRules>> for Rules {
    fn from(architectures: BTreeMap<String, ArchitectureRules>) -> Self {
        Self { architectures }
    }
}

impl Rules {
    /// The kinds of node that there are, or that are configured to be.
    #[must_use]
    pub fn kinds(&self, cluster: &ClusterPlatforms) -> BTreeSet<NodeKind> {
        let has = |architecture: &str| cluster.kinds.iter().any(|kind| kind.architecture == architecture);
        let configured =
            self.architectures.keys().filter(|name| !has(name)).map(|name| NodeKind::linux(name));
        cluster.kinds.iter().cloned().chain(configured).collect()
    }

    /// Which variant the nodes of an architecture are, where the configuration says so.
    #[must_use]
    pub fn variant(&self, architecture: &str) -> Option<&str> {
        self.architectures.get(architecture)?.variant.as_deref()
    }

    /// The labels that nodes of an architecture must have, beside those that name the architecture itself.
    #[must_use]
    pub fn labels(&self, architecture: &str) -> BTreeMap<String, String> {
        let rules = self.architectures.get(architecture);
        let all = rules.into_iter().flat_map(|rules| &rules.require_node_labels).flatten();
        all.filter(|(key, _)| !is_arch_label(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    pub(super) fn any_labels(&self, architectures: &BTreeSet<String>) -> bool {
        architectures.iter().any(|name| !self.labels(name).is_empty())
    }

    /// The taints of these architectures: as configured, else as GKE sets them, where nodes have them or are yet to come.
    #[must_use]
    pub fn taints(&self, architectures: &BTreeSet<String>, cluster: &ClusterPlatforms) -> Vec<TaintConfig> {
        let mut taints = BTreeSet::new();
        for name in architectures {
            match (self.architectures.get(name), cluster.taints.get(name)) {
                (Some(ArchitectureRules { taints_to_tolerate: Some(given), .. }), _) => {
                    taints.extend(given.iter().cloned());
                }
                (_, Some(seen)) => taints.extend(seen.iter().cloned()),
                (Some(_), None) => {
                    taints.insert(TaintConfig {
                        key: keys::ARCH_LABEL.to_owned(),
                        value: Some(name.clone()),
                        effect: Some(TaintEffect::NoSchedule),
                    });
                }
                (None, None) => {}
            }
        }
        taints.into_iter().collect()
    }

    /// Every taint that is configured.
    pub fn configured_taints(&self) -> impl Iterator<Item = &TaintConfig> {
        self.architectures.values().flat_map(|rules| rules.taints_to_tolerate.iter().flatten())
    }

    /// Every label that is configured to be required.
    pub fn configured_labels(&self) -> impl Iterator<Item = (&String, &String)> {
        self.architectures.values().flat_map(|rules| &rules.require_node_labels).flatten()
    }

    /// How much architectures are preferred.
    #[must_use]
    pub fn weights(&self) -> BTreeMap<String, u8> {
        self.architectures
            .iter()
            .filter_map(|(name, rules)| Some((name.clone(), rules.preference?)))
            .collect()
    }

    /// The architectures that have a machine type for peer pods, with what is configured of them.
    pub fn machines(&self) -> impl Iterator<Item = (&str, &ArchitectureRules)> {
        self.architectures
            .iter()
            .filter(|(_, rules)| rules.machine_type.is_some())
            .map(|(name, rules)| (name.as_str(), rules))
    }

    /// Whether there is only one kind of node, so that there is nothing to choose from.
    #[must_use]
    pub fn leaves_no_choice(&self, cluster: &ClusterPlatforms) -> bool {
        self.architectures.is_empty() && cluster.kinds.len() <= 1
    }
}

pub(crate) fn is_arch_label(key: &str) -> bool {
    key == keys::ARCH_LABEL || key == keys::OLD_ARCH_LABEL
}

/// A preference that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is not a preference: write architectures with weights from 1 to 100, such as arm64=80,amd64=20"
)]
pub struct BadPreference {
    given: String,
}

/// Reads preferences as pods have them: `arm64=80,amd64=20`; an architecture alone weighs 100.
pub fn preferences(text: &str) -> Result<BTreeMap<String, u8>, BadPreference> {
    let bad = || BadPreference { given: text.to_owned() };
    text.split(',')
        .map(|entry| {
            let (name, weight) = entry.split_once('=').unwrap_or((entry, "100"));
            let name = name.trim();
            let weight: u8 = weight.trim().parse().map_err(|_| bad())?;
            let named = !name.is_empty()
                && name.len() <= 63
                && name.starts_with(|c: char| c.is_ascii_alphanumeric())
                && name.ends_with(|c: char| c.is_ascii_alphanumeric())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
            if named && (1..=100).contains(&weight) { Ok((name.to_owned(), weight)) } else { Err(bad()) }
        })
        .collect()
}
