//! Distribution: a new pod goes to the entry of its rule that is furthest behind its share.
//!
//! ```text
//! pod ─→ rules of its namespace ─→ lineage ─→ rule ─→ place (StatefulSet: by ordinal) ─→ node selector, tolerations, marks
//! ```

mod patch;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use podwright_api::{Feature, config::DistributionConfig, distributor::Entry, keys};

use super::{Ask as Asked, Facts, Known, Lookup, Mutator, Outcome, Request, Review};
use crate::{
    distribution::{self, Ask, Contradiction, Lineage, Mark, Rule, Sequence, Weights},
    pod::{OwnerReference, PodView},
};

/// How much of a review's uid makes a ticket: enough to be unique among those of half a minute.
const TICKET_LENGTH: usize = 13;

/// The mutator of pods that a PodDistributor is for.
#[derive(Clone, Debug)]
pub struct Distribution {
    deletion_costs: bool,
}

/// What a pod gets.
struct Given<'r> {
    rule: &'r Rule,
    entry: &'r Entry,
    mark: Mark,
    cost: Option<i32>,
}

impl Distribution {
    /// Reads the configuration.
    #[must_use]
    pub const fn new(config: &DistributionConfig) -> Self {
        Self { deletion_costs: config.deletion_costs }
    }

    fn decide(&self, rule: &Rule, request: &Request<'_>, pod: &PodView, facts: &Facts) -> Review {
        let Ok(weights) = rule.weights() else {
            return Review::Done(Outcome::skipped());
        };
        let mark = pod
            .annotation(keys::DISTRIBUTION)
            .and_then(Mark::read)
            .filter(|mark| mark.rule == rule.name && is_in_force(mark, rule, pod));
        let selector = pod.spec.node_selector.as_ref();
        if let Some(Contradiction { key, value, entry }) =
            selector.and_then(|selector| rule.contradiction(selector, mark.as_ref()))
        {
            let entry = entry.name();
            let warning = format!(
                "distribution: left alone: its own nodeSelector has {key}={value}, but PodDistributor {}/{} also sends pods to {entry}; \
                 take {key} out of the nodeSelector, or the pod out of the rule",
                rule.namespace, rule.name
            );
            return Review::Done(Outcome { concerned: true, warnings: vec![warning], ..Outcome::default() });
        }
        let owner = pod.controller();
        if let Some(ordinal) = owner.and_then(|owner| ordinal(owner, pod)) {
            let Some(entry) = by_ordinal(rule, &weights, ordinal) else {
                return Review::Done(Outcome::skipped());
            };
            let entry = &rule.entries()[entry];
            let mark = Mark { rule: rule.name.clone(), entry: entry.name(), ticket: String::new() };
            return Review::Done(self.give(pod, &Given { rule, entry, mark, cost: None }));
        }
        let label = |key: &str| pod.label(key).map(str::to_owned);
        let lookup = Lookup::Place {
            namespace: rule.namespace.clone(),
            rule: rule.name.clone(),
            ask: Box::new(Ask {
                ticket: request.uid.chars().filter(|c| *c != '-').take(TICKET_LENGTH).collect(),
                revision: distribution::revision(label, owner),
                held: mark.map(|mark| mark.ticket).filter(|ticket| !ticket.is_empty()),
            }),
            dry_run: request.dry_run,
        };
        match facts.place(&lookup) {
            Known::Unknown => Review::Needs(vec![lookup]),
            // The rule has gone, or has changed so that it gives no places, since it was looked up.
            Known::Absent => Review::Done(Outcome::skipped()),
            Known::Found(place) => {
                let Some(entry) = rule.entries().get(place.entry) else {
                    return Review::Done(Outcome::skipped());
                };
                let mark =
                    Mark { rule: rule.name.clone(), entry: entry.name(), ticket: place.ticket.clone() };
                Review::Done(self.give(pod, &Given { rule, entry, mark, cost: place.cost }))
            }
        }
    }

    fn give(&self, pod: &PodView, given: &Given<'_>) -> Outcome {
        let patch = patch::of(pod, given, self.deletion_costs);
        let mut audit = BTreeMap::new();
        if !patch.is_empty() {
            audit.insert(
                "distribution",
                format!("PodDistributor {}: to {}", given.rule.name, given.mark.entry),
            );
        }
        Outcome { concerned: true, patch, audit, ..Outcome::default() }
    }
}

/// Whether the pod still carries what the mark says it was given. A mark without it is a leftover of some other pod.
fn is_in_force(mark: &Mark, rule: &Rule, pod: &PodView) -> bool {
    let Some(entry) = rule.entry(&mark.entry).map(|entry| &rule.entries()[entry]) else {
        return false;
    };
    patch::is_preferred(rule) || entry.node_label.iter().all(|(key, value)| selector(pod, key) == Some(value))
}

fn selector<'p>(pod: &'p PodView, key: &str) -> Option<&'p String> {
    pod.spec.node_selector.as_ref()?.get(key)
}

/// The pod's number among its StatefulSet's.
fn ordinal(owner: &OwnerReference, pod: &PodView) -> Option<u64> {
    if owner.kind != "StatefulSet" {
        return None;
    }
    let index = pod.label(keys::POD_INDEX).or_else(|| pod.metadata.name.rsplit_once('-').map(|(_, n)| n));
    index.and_then(|index| index.parse().ok())
}

/// Pods of a StatefulSet come and go in order and keep their number, so each number has its entry. While that is closed, those
/// whose entry it is are shared out among the others, one after another.
fn by_ordinal(rule: &Rule, weights: &Weights, ordinal: u64) -> Option<usize> {
    let open = distribution::open(rule, &[]);
    let mut sequence = Sequence::new(weights);
    let own = sequence.entry_at(ordinal);
    if open[own] {
        return Some(own);
    }
    let before = sequence.prefix(ordinal);
    let displaced = before.iter().zip(&open).filter(|(_, open)| !**open).map(|(pods, _)| pods).sum();
    let entries = rule.entries().iter().zip(&open);
    let left: Vec<u32> =
        entries.map(|(entry, open)| if *open { entry.weight.unsigned_abs() } else { 0 }).collect();
    Some(Sequence::new(&Weights::new(&left)?).entry_at(displaced))
}

/// By whom the pod was made, as far as the rules care, or what has to be looked up first.
fn lineage(rules: &[Arc<Rule>], namespace: &str, pod: &PodView, facts: &Facts) -> Result<Lineage, Lookup> {
    let Some(owner) = pod.controller() else {
        return Ok(Lineage { owners: Vec::new(), app: pod.label(keys::APP).map(str::to_owned) });
    };
    let mut owners = vec![owner.clone()];
    let is_replica_set = (owner.api_version.as_str(), owner.kind.as_str()) == ("apps/v1", "ReplicaSet");
    if is_replica_set && rules.iter().any(|rule| rule.spec.target.kind() != "ReplicaSet") {
        let lookup = Lookup::Workload {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace: namespace.to_owned(),
            name: owner.name.clone(),
        };
        match facts.workload(&lookup) {
            Known::Unknown => return Err(lookup),
            Known::Found(found) => owners.extend(found.owner.clone()),
            // One that is gone already is known by its name.
            Known::Absent => {
                let hash = pod.label(keys::POD_TEMPLATE_HASH);
                owners.extend(hash.and_then(|hash| OwnerReference::deployment_of(owner, hash)));
            }
        }
    }
    Ok(Lineage { owners, app: None })
}

impl Mutator for Distribution {
    fn feature(&self) -> Feature {
        Feature::Distribution
    }

    fn review(&self, request: &Request<'_>, pod: &PodView, facts: &Facts) -> Review {
        if request.ask != Asked::Create || pod.daemon_owner().is_some() || pod.target_node().is_some() {
            return Review::Done(Outcome::skipped());
        }
        // Jobs come by the thousand, and seldom has one a rule of its own.
        let maker = pod.controller().filter(|owner| owner.kind != "Job").map(|owner| owner.name.clone());
        let lookup = Lookup::Rules { namespace: request.namespace.to_owned(), maker };
        let rules = match facts.rules(&lookup) {
            Known::Unknown => return Review::Needs(vec![lookup]),
            Known::Absent | Known::Found([]) => return Review::Done(Outcome::skipped()),
            Known::Found(rules) => rules,
        };
        let lineage = match lineage(rules, request.namespace, pod, facts) {
            Ok(lineage) => lineage,
            Err(needed) => return Review::Needs(vec![needed]),
        };
        distribution::governing(rules, &lineage)
            .map_or_else(|| Review::Done(Outcome::skipped()), |rule| self.decide(rule, request, pod, facts))
    }
}
