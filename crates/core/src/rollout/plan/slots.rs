//! Which node should have whose pod, and what it has.

use podwright_api::Moment;

use super::{
    census::{Census, Resident},
    observed::{NodeChoice, NodeFacts, Observed, ReplicaSetFacts},
    roles::Roles,
    standing::{Rule, Standing},
};
use crate::node::{self, Fit};

/// A node, whose pod should be there, and what is.
pub(super) struct Slot<'o> {
    pub(super) node: &'o NodeFacts,
    /// Whether it belongs to the canary.
    pub(super) canary: bool,
    /// The replica set whose pod should be there.
    pub(super) target: &'o ReplicaSetFacts,
    pub(super) fit: Fit,
    pub(super) residents: &'o [Resident<'o>],
    pub(super) standing: Standing<'o>,
}

impl Slot<'_> {
    /// Whether a pod belongs here. Only such nodes are counted.
    pub(super) fn wanted(&self) -> bool {
        self.fit == Fit::Run
    }
}

/// What a node is to the pods of a replica set.
pub(super) fn fit(node: &NodeFacts, replica_set: &ReplicaSetFacts, selector: &NodeChoice) -> Fit {
    let selected = match selector {
        NodeChoice::All => Fit::Run,
        NodeChoice::Unclear => Fit::Stay,
        NodeChoice::Matching(selector) if node::selects(selector, &node.labels) => Fit::Run,
        NodeChoice::Matching(_) => Fit::Never,
    };
    let placed = replica_set
        .placement
        .as_ref()
        .map_or(Fit::Stay, |placement| placement.fit(&node.name, &node.labels, &node.taints));
    selected.min(placed)
}

/// The selector that counts for a replica set: the ExtendedDaemonSet's own for its newest template, so that a change is
/// followed at once, and for others the one that they were made with.
pub(super) fn selector<'o>(seen: &'o Observed, roles: &Roles<'o>, of: &'o ReplicaSetFacts) -> &'o NodeChoice {
    let newest = roles.up_to_date.is_some_and(|newest| newest.name == of.name);
    if newest { &seen.set.selector } else { &of.selector }
}

/// A slot for each node that should have or has a pod, in the order of their names.
pub(super) fn slots<'o>(
    seen: &'o Observed,
    census: &'o Census<'o>,
    roles: &Roles<'o>,
    now: Moment,
) -> Vec<Slot<'o>> {
    let Some(active) = roles.active else {
        return Vec::new();
    };
    let everywhere = selector(seen, roles, active);
    let mut slots = Vec::with_capacity(seen.nodes.len());
    for (node, residents) in census.iter() {
        let trial = roles.trial.as_ref().filter(|trial| trial.has(&node.name));
        let target = trial.filter(|trial| trial.takes(residents)).map_or(active, |trial| trial.replica_set);
        let choice = if target.name == active.name { everywhere } else { selector(seen, roles, target) };
        let fit = fit(node, target, choice);
        if fit == Fit::Run || !residents.is_empty() {
            let rule = Rule { now, min_ready: seen.set.strategy.min_ready, target };
            let standing = rule.judge(residents);
            slots.push(Slot { node, canary: trial.is_some(), target, fit, residents, standing });
        }
    }
    slots
}
