//! Which rule counts for which pod.

#[cfg(test)]
mod tests;

use std::{cmp::Ordering, sync::Arc};

use podwright_api::distributor::{Entry, Mode, PodDistributorSpec, PodDistributorStatus, WhenUnsatisfiable};

use super::{Mark, Member, Weights};
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

/// A rule that is met for the first time is taken to have been in force since it was created if that is no longer ago than this,
/// in seconds. An older one was made for somebody else, or before we came.
const NEW_FOR: i64 = 60;

/// A label of a pod's own node selector that keeps the pod from an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contradiction<'c> {
    /// The label's key.
    pub key: &'c str,
    /// Its value in the pod's node selector.
    pub value: &'c str,
    /// The entry, which wants another value.
    pub entry: &'c Entry,
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
            if let Some(problem) = entry.problem() {
                return Err(format!("spec.distribution[{index}] {problem}; pods with that would be refused"));
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

    /// Whether pods go elsewhere when their entry has no room. Where an entry is only preferred, the scheduler sees to that itself.
    #[must_use]
    pub fn spills(&self) -> bool {
        self.spec.when_unsatisfiable == WhenUnsatisfiable::Spill && self.spec.mode == Mode::Required
    }

    /// Since when it has been in force for its target, if it is at `now`, in seconds since 1970.
    #[must_use]
    pub fn in_force_since(&self, now: i64) -> i64 {
        match (&self.status.target, self.status.in_force_since) {
            (Some(target), Some(since)) if *target == self.spec.target.title() => since,
            (None, _) if now - self.created <= NEW_FOR => self.created,
            _ => now,
        }
    }

    /// What keeps admission from placing a pod: a label of its node selector that is its own, not that of the place which its
    /// mark names.
    #[must_use]
    pub fn contradiction<'c>(
        &'c self,
        selector: &'c Labels,
        mark: Option<&Mark>,
    ) -> Option<Contradiction<'c>> {
        let ours = |key: &str, value: &str| {
            mark.is_some_and(|mark| mark.labels().any(|(our, given)| (our, given) == (key, value)))
        };
        let differs = |entry: &Entry, key: &str, value: &str| {
            entry.node_label.get(key).is_some_and(|wanted| wanted != value) && !ours(key, value)
        };
        self.entries().iter().filter(|entry| entry.weight > 0).find_map(|entry| {
            let (key, value) = selector.iter().find(|(key, value)| differs(entry, key, value))?;
            Some(Contradiction { key, value, entry })
        })
    }

    /// The entry in which a pod counts: the one that it was given, or else that its node selector names, for as long as its node,
    /// if it has one that is known, has those labels; else the one whose labels its node has.
    #[must_use]
    pub fn entry_of<L: AsRef<Labels>>(
        &self,
        member: &Member,
        labels: impl Fn(&str) -> Option<L>,
    ) -> Option<usize> {
        let mark = member.mark.as_ref().filter(|mark| mark.rule == self.name);
        let named =
            |entry: &Entry| !entry.node_label.is_empty() && has(&member.node_selector, &entry.node_label);
        let given =
            mark.and_then(|mark| self.entry(&mark.entry)).or_else(|| self.entries().iter().position(named));
        let Some(node) = member.node.as_deref().and_then(labels) else {
            return given;
        };
        let node = node.as_ref();
        if given.is_some_and(|given| has(node, &self.entries()[given].node_label)) {
            return given;
        }
        let mut on = self.entries().iter().enumerate().filter(|(_, entry)| has(node, &entry.node_label));
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

/// Whether a node has all these labels.
pub(super) fn has(labels: &Labels, wanted: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

pub(super) fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}
