//! How many pods each entry should have, has, and could take.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use podwright_api::distributor::{Entry, Strategy, Toleration};

use super::{Labels, Member, Requests, Rule, Sequence, Weights, ledger, rule::has, tolerance::tolerates};
use crate::node::{NodeTerms, Taint};

/// A node, and what is free on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeRoom {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// What keeps pods from it.
    pub taints: Vec<Taint>,
    /// Whether it is ready and not cordoned.
    pub ready_and_schedulable: bool,
    /// What its pods leave.
    pub free: Requests,
    /// How many pods more it may run.
    pub free_pods: u64,
}

/// How a workload's pods are spread, and how they should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The revision that is looked at. None while there are no pods.
    pub revision: Option<String>,
    /// How many active pods it has, in whichever entry or in none.
    pub pods: u64,
    /// Entry by entry, in the order of the rule.
    pub entries: Vec<EntryAllocation>,
    /// Pods in no entry, by name.
    pub unassigned: Vec<String>,
    /// Where the next pod goes.
    pub next: Option<usize>,
}

/// One entry's part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryAllocation {
    /// Its labels.
    pub name: String,
    /// Its weight, in relation to the others'.
    pub weight: u32,
    /// How many pods it should have.
    pub desired: u64,
    /// How many it has.
    pub actual: u64,
    /// How many nodes have its labels.
    pub labelled: u64,
    /// How many of them are ready, not cordoned, and open to these pods.
    pub nodes: u64,
    /// How many pods more have room on those, by what they ask of a node.
    pub fits: u64,
}

impl Allocation {
    /// Whether each entry is less than one pod away from its share, and every pod in an entry.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let total = self.total();
        let near = |entry: &EntryAllocation| self.excess(entry).abs() < total;
        let by_number = |entry: &EntryAllocation| entry.actual == entry.desired;
        self.unassigned.is_empty() && (self.entries.iter().all(near) || self.entries.iter().all(by_number))
    }

    /// How far an entry is above its share, in pods times the sum of all weights.
    fn excess(&self, entry: &EntryAllocation) -> i128 {
        i128::from(entry.actual) * self.total() - i128::from(entry.weight) * i128::from(self.pods)
    }

    pub(super) fn total(&self) -> i128 {
        self.entries.iter().map(|entry| i128::from(entry.weight)).sum()
    }

    /// How many pods each entry has.
    #[must_use]
    pub fn counts(&self) -> Vec<u64> {
        self.entries.iter().map(|entry| entry.actual).collect()
    }
}

/// A pod and the entry in which it counts.
pub(super) type Placed<'m> = (&'m Member, Option<usize>);

/// The active pods, each with the entry in which it counts.
pub(super) fn placed<'m>(rule: &Rule, members: &'m [Arc<Member>], nodes: &[NodeRoom]) -> Vec<Placed<'m>> {
    let nodes: HashMap<&str, &Arc<Labels>> =
        nodes.iter().map(|node| (node.name.as_str(), &node.labels)).collect();
    let labels = |node: &str| nodes.get(node).copied();
    members
        .iter()
        .filter(|member| member.is_active())
        .map(|member| (&**member, rule.entry_of(member, labels)))
        .collect()
}

/// How the pods of a workload are spread: its newest revision, unless one is named. Pods without a controller do not make one
/// the newest while there are others.
///
/// `members` are all pods for which the rule counts. Those on their way out, or at their end, are passed over. A StatefulSet's
/// pods keep their number whatever their revision, so all of them are looked at together, and desired is what their numbers say.
#[must_use]
pub fn allocate(
    rule: &Rule,
    weights: &Weights,
    members: &[Arc<Member>],
    nodes: &[NodeRoom],
    revision: Option<&str>,
) -> Allocation {
    of(rule, weights, &placed(rule, members, nodes), nodes, revision)
}

pub(super) fn of(
    rule: &Rule,
    weights: &Weights,
    placed: &[Placed<'_>],
    nodes: &[NodeRoom],
    revision: Option<&str>,
) -> Allocation {
    // A pod that somebody made by hand does not start a revision while a controller has some.
    let is_made = |(member, _): &&Placed<'_>| member.owner.is_some();
    let by_hand = !placed.iter().any(|one| is_made(&one));
    let made: Vec<&Placed<'_>> = placed.iter().filter(|one| by_hand || is_made(one)).collect();
    let newest = made.iter().max_by_key(|(member, _)| (member.created, &member.name));
    let revision = revision.or_else(|| newest.map(|(member, _)| member.revision.as_str()));
    let ordinals: Option<Vec<u64>> =
        (!made.is_empty()).then(|| made.iter().map(|(member, _)| ordinal(member)).collect()).flatten();
    let counted = if ordinals.is_some() {
        made
    } else {
        placed.iter().filter(|(member, _)| Some(member.revision.as_str()) == revision).collect()
    };
    let mut actual = vec![0; rule.entries().len()];
    for entry in counted.iter().filter_map(|(_, entry)| *entry) {
        actual[entry] += 1;
    }
    let desired = ordinals.map_or_else(
        || desired(rule, weights, counted.len()),
        |ordinals| by_ordinal(&mut Sequence::new(weights), &ordinals),
    );
    let sample = counted.iter().max_by_key(|(member, _)| (member.created, &member.name));
    let stencil = sample.map(|(member, entry)| Stencil::new(rule, member, *entry));
    let entries = rule.entries().iter().enumerate().map(|(index, entry)| {
        let labelled = || nodes.iter().filter(|node| has(&node.labels, &entry.node_label));
        let usable = || labelled().filter(|node| Stencil::may_come(stencil.as_ref(), node, entry));
        EntryAllocation {
            name: entry.name(),
            weight: weights.of(index),
            desired: desired[index],
            actual: actual[index],
            labelled: labelled().count() as u64,
            nodes: usable().count() as u64,
            fits: usable().map(|node| fits(node, stencil.as_ref())).fold(0, u64::saturating_add),
        }
    });
    Allocation {
        revision: revision.map(str::to_owned),
        pods: counted.len() as u64,
        entries: entries.collect(),
        unassigned: counted
            .iter()
            .filter(|(_, entry)| entry.is_none())
            .map(|(member, _)| member.name.clone())
            .collect(),
        next: ledger::choose(rule, weights, &actual),
    }
}

/// What so many pods come to if they are made one after another.
fn desired(rule: &Rule, weights: &Weights, pods: usize) -> Vec<u64> {
    if rule.spec.strategy == Strategy::LargestDeficit {
        return Sequence::new(weights).prefix(pods as u64);
    }
    let mut counts = vec![0; weights.len()];
    for _ in 0..pods {
        let Some(entry) = weights.first_fit(&counts, |_| true) else { break };
        counts[entry] += 1;
    }
    counts
}

/// The number of a StatefulSet's pod.
pub(super) fn ordinal(member: &Member) -> Option<u64> {
    if !member.is_numbered() {
        return None;
    }
    member.name.rsplit_once('-')?.1.parse().ok()
}

fn by_ordinal(sequence: &mut Sequence, ordinals: &[u64]) -> Vec<u64> {
    let mut desired = vec![0; sequence.weights().len()];
    for ordinal in ordinals {
        desired[sequence.entry_at(*ordinal)] += 1;
    }
    desired
}

/// What the pods of a workload need of a node, whichever entry they are in.
struct Stencil<'m> {
    requests: Requests,
    tolerations: Vec<&'m Toleration>,
    selector: BTreeMap<&'m str, &'m str>,
    /// What node affinity insists on, which no entry gives.
    required: Option<&'m NodeTerms>,
}

impl<'m> Stencil<'m> {
    /// What a pod has beside that which its entry gave it.
    fn new(rule: &Rule, member: &'m Member, entry: Option<usize>) -> Self {
        let entry = entry.and_then(|entry| rule.entries().get(entry));
        let given =
            |toleration: &&Toleration| entry.is_some_and(|entry| entry.tolerations.contains(toleration));
        // It may have been given another one, whose labels its node no longer has.
        let marked =
            |key: &str| member.mark.as_ref().is_some_and(|mark| mark.labels().any(|(given, _)| given == key));
        let selected =
            |key: &str| marked(key) || entry.is_some_and(|entry| entry.node_label.contains_key(key));
        Self {
            requests: member.requests,
            tolerations: member.tolerations.iter().filter(|one| !given(one)).collect(),
            selector: member
                .node_selector
                .iter()
                .filter(|(key, _)| !selected(key))
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect(),
            required: member.required.as_deref(),
        }
    }

    /// Whether a node with the entry's labels takes pods of that entry. Before there are pods, nobody knows what they tolerate.
    fn may_come(stencil: Option<&Self>, node: &NodeRoom, entry: &Entry) -> bool {
        node.ready_and_schedulable
            && stencil.is_none_or(|stencil| {
                let tolerations = stencil.tolerations.iter().copied().chain(&entry.tolerations);
                let selects =
                    |(key, value): (&&str, &&str)| node.labels.get(*key).is_some_and(|label| label == value);
                tolerates(tolerations, &node.taints)
                    && stencil.selector.iter().all(selects)
                    && stencil.required.is_none_or(|terms| terms.match_node(&node.name, &node.labels))
            })
    }
}

fn fits(node: &NodeRoom, stencil: Option<&Stencil<'_>>) -> u64 {
    let requests = stencil.map(|stencil| stencil.requests).unwrap_or_default();
    let times = |free: u64, asked: u64| free.checked_div(asked).unwrap_or(u64::MAX);
    node.free_pods.min(times(node.free.cpu, requests.cpu)).min(times(node.free.memory, requests.memory))
}
