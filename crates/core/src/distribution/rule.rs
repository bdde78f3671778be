//! Which rule counts for which pod.

use std::{cmp::Ordering, sync::Arc};

use podwright_api::distributor::{Entry, PodDistributorSpec, PodDistributorStatus};

use super::{Member, Weights};
use crate::pod::OwnerReference;

/// A PodDistributor, as decisions see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its namespace, which is also that of its pods.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// The generation of its spec.
    pub generation: Option<i64>,
    /// What it asks for.
    pub spec: PodDistributorSpec,
    /// How it fares, and which places are reserved.
    pub status: PodDistributorStatus,
}

/// By whom a pod was made: what rules are matched against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The pod's controller, then that one's own controller. Both are in the pod's namespace.
    pub owners: Vec<OwnerReference>,
    /// The pod's label `app`, by which a pod without a controller finds its rule.
    pub app: Option<String>,
}

impl Rule {
    /// Where pods may go.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.spec.distribution
    }

    /// The entry of this name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<usize> {
        self.entries().iter().position(|entry| entry.name() == name)
    }

    /// The weights, or what is wrong with the rule. The API server refuses such rules, but may have stored one before it did.
    pub fn weights(&self) -> Result<Weights, String> {
        if matches!(self.spec.target.kind(), "DaemonSet" | "ExtendedDaemonSet") {
            return Err(format!(
                "each pod of a {} has its own node, so there is nothing to spread; target a Deployment or another controller",
                self.spec.target.kind()
            ));
        }
        if self.entries().is_empty() {
            return Err("spec.distribution has no entries: name at least one".to_owned());
        }
        if let Some((index, entry)) = self.entries().iter().enumerate().find(|(_, entry)| entry.weight < 0) {
            return Err(format!(
                "spec.distribution[{index}] ({}) has the weight {}: a weight must not be negative",
                entry.name(),
                entry.weight
            ));
        }
        for (index, entry) in self.entries().iter().enumerate() {
            if self.entry(&entry.name()) != Some(index) {
                return Err(format!("two entries have the same labels, {}: make them one", entry.name()));
            }
        }
        let weights: Vec<u32> = self.entries().iter().map(|entry| entry.weight.unsigned_abs()).collect();
        Weights::new(&weights).ok_or_else(|| "all weights are 0: no entry ever gets a pod".to_owned())
    }

    /// Whether it is for pods of this lineage.
    #[must_use]
    pub fn targets(&self, lineage: &Lineage) -> bool {
        let target = &self.spec.target;
        let Some(direct) = lineage.owners.first() else {
            return lineage.app.as_ref() == Some(&target.name);
        };
        // A Job's pods come and go by themselves: they are spread only if somebody asks for just that.
        let owners = if direct.kind == "Job" { &lineage.owners[..1] } else { &lineage.owners[..] };
        owners.iter().any(|owner| {
            owner.name == target.name
                && owner.kind == target.kind()
                && target
                    .api_version
                    .as_deref()
                    .is_none_or(|version| group(version) == group(&owner.api_version))
        })
    }

    /// The entry in which a pod counts: the one that it was given, else the one that its node selector names, else the one
    /// whose labels its node has.
    #[must_use]
    pub fn entry_of(&self, member: &Member, labels: impl Fn(&str) -> Option<Arc<Labels>>) -> Option<usize> {
        if let Some(given) = member
            .mark
            .as_ref()
            .filter(|mark| mark.rule == self.name)
            .and_then(|mark| self.entry(&mark.entry))
        {
            return Some(given);
        }
        let named = |entry: &Entry| {
            !entry.node_label.is_empty()
                && entry.node_label.iter().all(|(key, value)| member.node_selector.get(key) == Some(value))
        };
        if let Some(named) = self.entries().iter().position(named) {
            return Some(named);
        }
        let node = labels(member.node.as_deref()?)?;
        let mut on =
            self.entries().iter().enumerate().filter(|(_, entry)| {
                entry.node_label.iter().all(|(key, value)| node.get(key) == Some(value))
            });
        // The most particular of those that hold, so that one without labels is the last resort.
        let first = on.next()?;
        Some(on.fold(
            first,
            |best, one| {
                if one.1.node_label.len() > best.1.node_label.len() { one } else { best }
            },
        ))
        .map(|(index, _)| index)
    }

    /// Older rules come first, then those whose name does.
    #[must_use]
    pub fn precedence(&self, other: &Self) -> Ordering {
        (self.created, &self.name).cmp(&(other.created, &other.name))
    }
}

/// A node's labels.
pub type Labels = std::collections::BTreeMap<String, String>;

/// The rule that counts for pods of this lineage: of those that can be used, the oldest.
#[must_use]
pub fn governing<'r>(rules: &'r [Arc<Rule>], lineage: &Lineage) -> Option<&'r Arc<Rule>> {
    rules
        .iter()
        .filter(|rule| rule.targets(lineage) && rule.weights().is_ok())
        .min_by(|one, other| one.precedence(other))
}

/// The rule that counts instead of this one, because it has the same target and is older.
#[must_use]
pub fn shadowing<'r>(rule: &Rule, rules: &'r [Arc<Rule>]) -> Option<&'r Arc<Rule>> {
    let same = |other: &Rule| {
        let (mine, its) = (&rule.spec.target, &other.spec.target);
        let groups = mine.api_version.as_deref().zip(its.api_version.as_deref());
        mine.name == its.name
            && mine.kind() == its.kind()
            && groups.is_none_or(|(mine, its)| group(mine) == group(its))
    };
    rules
        .iter()
        .filter(|other| other.namespace == rule.namespace && other.name != rule.name)
        .filter(|other| same(other) && other.weights().is_ok())
        .filter(|other| other.precedence(rule) == Ordering::Less)
        .min_by(|one, other| one.precedence(other))
}

fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}
