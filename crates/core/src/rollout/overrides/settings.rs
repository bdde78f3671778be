//! ExtendedDaemonsetSettings: which of them are used.

use std::collections::BTreeMap;

use podwright_api::{
    Moment, NodeSelector,
    eds::{BadSelector, ExtendedDaemonsetSettingSpec, ExtendedDaemonsetSettingStatus, words},
};

use super::resources::{Amounts, BadResources};
use crate::node::selects;

/// A setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// When it was created.
    pub created: Moment,
    /// The ExtendedDaemonSet that it is for. Only the name counts, as it always did.
    reference: Option<String>,
    selector: Result<NodeSelector, BadSelector>,
    pub(super) amounts: BTreeMap<String, Amounts>,
    /// The first container whose resources cannot be read.
    bad: Option<(String, BadResources)>,
}

impl Setting {
    /// Reads a setting.
    #[must_use]
    pub fn read(namespace: &str, name: &str, created: Moment, spec: &ExtendedDaemonsetSettingSpec) -> Self {
        let reference = spec.reference.as_ref().map(|reference| reference.name.clone());
        let mut setting = Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            created,
            reference: reference.filter(|name| !name.is_empty()),
            selector: spec.node_selector.checked(),
            amounts: BTreeMap::new(),
            bad: None,
        };
        for container in &spec.containers {
            match Amounts::read(&container.resources) {
                Ok((amounts, _)) => {
                    setting.amounts.insert(container.name.clone(), amounts);
                }
                Err(error) => {
                    setting.bad.get_or_insert_with(|| (container.name.clone(), error));
                }
            }
        }
        setting
    }

    /// The ExtendedDaemonSet that it is for.
    #[must_use]
    pub fn reference(&self) -> Option<&str> {
        self.reference.as_deref()
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector.as_ref().is_ok_and(|selector| selects(selector, labels))
    }

    fn fault(&self) -> Option<String> {
        if self.reference.is_none() {
            return Some("missing reference in spec".to_owned());
        }
        if let Err(error) = &self.selector {
            return Some(format!("nodeSelector: {error}"));
        }
        let (container, error) = self.bad.as_ref()?;
        Some(format!("container {container:?}: {error}"))
    }
}

/// Whether each of these settings of one namespace is used, in their order, given the labels of all nodes.
///
/// Of two for the same ExtendedDaemonSet that select a node in common the newer is used, or at the same age the one whose name
/// comes last, and the other is not, on any node. What is not used stands in nobody's way.
#[must_use]
pub fn judge(
    settings: &[Setting],
    nodes: &[&BTreeMap<String, String>],
) -> Vec<ExtendedDaemonsetSettingStatus> {
    let mut newest_first: Vec<usize> = (0..settings.len()).collect();
    newest_first.sort_by_key(|&index| {
        let setting = &settings[index];
        std::cmp::Reverse((setting.created, setting.name.as_str()))
    });
    let mut statuses = vec![ExtendedDaemonsetSettingStatus::default(); settings.len()];
    // By ExtendedDaemonSet: whose each node is.
    let mut taken: BTreeMap<&str, Vec<Option<usize>>> = BTreeMap::new();
    for index in newest_first {
        let setting = &settings[index];
        let error = setting.fault().or_else(|| {
            let owners = taken.entry(setting.reference()?).or_insert_with(|| vec![None; nodes.len()]);
            let selected: Vec<usize> =
                (0..nodes.len()).filter(|&node| setting.matches(nodes[node])).collect();
            if let Some(other) = selected.iter().find_map(|&node| owners[node]) {
                return Some(format!(
                    "conflict with another ExtendedDaemonsetSetting: {}",
                    settings[other].name
                ));
            }
            for node in selected {
                owners[node] = Some(index);
            }
            None
        });
        let status = if error.is_none() { words::setting::VALID } else { words::setting::ERROR };
        statuses[index] =
            ExtendedDaemonsetSettingStatus { status: status.to_owned(), error: error.unwrap_or_default() };
    }
    statuses
}

/// The setting that applies to the pods of an ExtendedDaemonSet on a node with these labels, given [`judge`]'s answer.
#[must_use]
pub fn chosen<'s>(
    settings: &'s [Setting],
    statuses: &[ExtendedDaemonsetSettingStatus],
    daemon_set: &str,
    labels: &BTreeMap<String, String>,
) -> Option<&'s Setting> {
    settings.iter().zip(statuses).find_map(|(setting, status)| {
        let applies = status.status == words::setting::VALID && setting.reference() == Some(daemon_set);
        (applies && setting.matches(labels)).then_some(setting)
    })
}
