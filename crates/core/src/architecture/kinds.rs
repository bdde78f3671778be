//! Kinds of node, and which of them a cluster has.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use podwright_api::{
    config::{TaintConfig, TaintEffect},
    keys,
};

use super::compatibility::build_of;
use crate::image::Platform;

/// What a node is, as far as images care.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKind {
    /// As in the label `kubernetes.io/os`.
    pub os: String,
    /// As in the label `kubernetes.io/arch`.
    pub architecture: String,
    /// Of a Windows node: its build, such as `10.0.20348`.
    pub windows_build: Option<String>,
}

impl NodeKind {
    /// A Linux node of this architecture.
    #[must_use]
    pub fn linux(architecture: &str) -> Self {
        Self { os: "linux".to_owned(), architecture: architecture.to_owned(), windows_build: None }
    }

    /// What a node with these labels is; none if it does not say its architecture.
    #[must_use]
    pub fn of_labels(labels: &BTreeMap<String, String>) -> Option<Self> {
        let either = |new: &str, old: &str| labels.get(new).or_else(|| labels.get(old)).cloned();
        let os = either(keys::OS_LABEL, keys::OLD_OS_LABEL).unwrap_or_else(|| "linux".to_owned());
        let build = labels.get(keys::WINDOWS_BUILD_LABEL).filter(|_| os == "windows");
        Some(Self {
            architecture: either(keys::ARCH_LABEL, keys::OLD_ARCH_LABEL)?,
            windows_build: build.cloned(),
            os,
        })
    }

    /// The node that something built for this platform would want.
    pub(super) fn for_platform(platform: &Platform) -> Self {
        let os = platform.os().to_owned();
        let build = platform.version().filter(|_| os == "windows").map(build_of);
        Self { architecture: platform.architecture().to_owned(), windows_build: build, os }
    }
}

impl std::fmt::Display for NodeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.windows_build.iter().try_for_each(|build| write!(f, " ({build})"))
    }
}

/// Which kinds of node a cluster has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterPlatforms {
    /// The kinds.
    pub kinds: BTreeSet<NodeKind>,
    /// By architecture: the taints that only say which architecture a node is of, as GKE sets them.
    pub taints: BTreeMap<String, BTreeSet<TaintConfig>>,
}

/// What is known of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Counted {
    kind: NodeKind,
    effects: Vec<&'static str>,
}

/// Keeps count of the nodes, so that nobody has to go through all of them to know of which kinds they are.
#[derive(Clone, Debug, Default)]
pub struct Census {
    nodes: HashMap<String, Counted>,
    counts: HashMap<Counted, usize>,
}

impl Census {
    /// Notes a node; whether the kinds of the cluster may have changed by that. `taints` are keys, values and effects.
    pub fn note<'t>(
        &mut self,
        name: &str,
        labels: &BTreeMap<String, String>,
        taints: impl IntoIterator<Item = (&'t str, &'t str, &'t str)>,
    ) -> bool {
        let Some(kind) = NodeKind::of_labels(labels) else {
            return self.forget(name);
        };
        let ours = taints
            .into_iter()
            .filter(|(key, value, _)| *key == keys::ARCH_LABEL && *value == kind.architecture);
        let mut effects: Vec<&'static str> =
            ours.filter_map(|(_, _, effect)| known(effect)).map(TaintEffect::name).collect();
        effects.sort_unstable();
        let now = Counted { kind, effects };
        if self.nodes.get(name) == Some(&now) {
            return false;
        }
        let gone = self.forget(name);
        self.nodes.insert(name.to_owned(), now.clone());
        let count = self.counts.entry(now).or_default();
        *count += 1;
        gone || *count == 1
    }

    /// Notes that a node is gone; whether the kinds of the cluster may have changed by that.
    pub fn forget(&mut self, name: &str) -> bool {
        let Some(before) = self.nodes.remove(name) else { return false };
        let Some(count) = self.counts.get_mut(&before) else { return false };
        *count -= 1;
        let last = *count == 0;
        if last {
            self.counts.remove(&before);
        }
        last
    }

    /// The kinds of the cluster.
    #[must_use]
    pub fn platforms(&self) -> ClusterPlatforms {
        let mut platforms = ClusterPlatforms::default();
        for counted in self.counts.keys() {
            let architecture = &counted.kind.architecture;
            for effect in counted.effects.iter().filter_map(|effect| known(effect)) {
                platforms.taints.entry(architecture.clone()).or_default().insert(TaintConfig {
                    key: keys::ARCH_LABEL.to_owned(),
                    value: Some(architecture.clone()),
                    effect: Some(effect),
                });
            }
            platforms.kinds.insert(counted.kind.clone());
        }
        platforms
    }
}

fn known(effect: &str) -> Option<TaintEffect> {
    [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute]
        .into_iter()
        .find(|one| one.name() == effect)
}
