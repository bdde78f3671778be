//! What the leader does for one rule, given all that is known about it.
//!
//! ```text
//! entries: open, without nodes, full ─→ status, events
//!      └─→ lost and spilled pods ─→ else pods that slipped by ─→ else one that moves to where it belongs      (`removals`)
//! pods without a mark that may stay ─→ adoptions
//! pods of each entry ─→ deletion costs
//! ```
//!
//! Pods are removed only, never placed: whoever made them makes them anew, and admission chooses the place. So a pod is removed
//! only once the rule's status, which is what admission goes by, says already which entries are closed.

mod adoptions;
mod history;
mod removals;
mod repairs;
mod report;
mod states;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use podwright_api::distributor::PodDistributorStatus;

pub use history::History;

use super::{
    Allocation, CostChange, Mark, Member, NodeRoom, Rivals, Rule, Weights, allocation, costs::costs,
};
use removals::Scene;

/// For how long the pods of a workload must have stayed the same before running pods are moved and costs changed, in seconds. Views
/// of a burst of creations or deletions are always of some moment in the middle of it.
const SETTLED_AFTER: i64 = 3;

/// When to look again after removals, in seconds: a disruption budget may hold one up, and nobody tells when it no longer does.
const HELD_UP: i64 = 5;

/// All that is known about a rule.
#[derive(Clone, Debug)]
pub struct Observed<'o> {
    /// The rule, with its status as admission sees it.
    pub rule: &'o Rule,
    /// The rules that count instead of this one.
    pub rivals: &'o Rivals<'o>,
    /// The pods for which it counts, active or not, of all revisions.
    pub members: &'o [Arc<Member>],
    /// All nodes.
    pub nodes: &'o [NodeRoom],
    /// Whether every pod for which a place is reserved has been seen.
    pub ledger_quiet: bool,
    /// What the last plan left, with what was removed since.
    pub history: &'o History,
    /// In seconds since 1970.
    pub now: i64,
}

/// What is to be done, in this order: status and events first, then adoptions and costs, then removals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The status to be, without conditions and reservations.
    pub status: PodDistributorStatus,
    /// The conditions to be.
    pub conditions: Vec<Finding>,
    /// What has changed since the rule's status was written.
    pub events: Vec<Notice>,
    /// How the pods are spread. None if the rule is not in force.
    pub allocation: Option<Allocation>,
    /// Pods that get a mark, because no webhook has given them one.
    pub adoptions: Vec<Adoption>,
    /// Pods that get another deletion cost.
    pub costs: Vec<CostChange>,
    /// Pods that are to go.
    pub removals: Vec<Removal>,
    /// When to look again even if nothing happens, in seconds since 1970.
    pub wake_at: Option<i64>,
    /// To be handed to the next plan.
    pub history: History,
}

/// A condition, but for its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its type.
    pub kind: &'static str,
    /// Whether it holds. None: that cannot be said.
    pub holds: Option<bool>,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

/// An event on the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What has happened, in one word.
    pub reason: &'static str,
    /// The same for people.
    pub message: String,
    /// Whether somebody should do something about it.
    pub warning: bool,
}

/// A pod that no webhook has seen, but which is where it may stay. With the mark, it is as any other pod of its entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// Its name.
    pub name: String,
    /// Which of all pods that ever had the name.
    pub uid: String,
    /// What it gets. Without a ticket: it used no reservation.
    pub mark: Mark,
}

/// A pod that is to go, so that it is made anew where it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Its name.
    pub name: String,
    /// Which of all pods that ever had the name.
    pub uid: String,
    /// Where it runs, or ran.
    pub node: Option<String>,
    /// Why, in one word.
    pub cause: Cause,
    /// Why, for people.
    pub why: String,
    /// How it goes.
    pub how: Disruption,
}

/// Why a pod is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its node is gone.
    Lost,
    /// Its entry has no room for it.
    Spilled,
    /// It was made while no webhook answered.
    SlippedBy,
    /// Its entry has more than its share, and another less.
    Moved,
}

/// How a pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disruption {
    /// At once: it does not run.
    Delete,
    /// As far as disruption budgets allow.
    Evict,
}

/// The earliest of some moments.
#[derive(Clone, Copy, Debug, Default)]
struct Alarm(Option<i64>);

impl Alarm {
    fn at(&mut self, moment: i64) {
        self.0 = Some(self.0.map_or(moment, |earlier| earlier.min(moment)));
    }
}

/// What is to be done for a rule.
#[must_use]
pub fn plan(observed: &Observed<'_>) -> Plan {
    match (observed.rule.weights(), observed.rivals.shadow) {
        (Err(problem), _) => report::not_in_force(observed, "Invalid", problem),
        (Ok(_), Some(other)) => report::shadowed(observed, other),
        (Ok(weights), None) => in_force(observed, &weights),
    }
}

fn in_force(observed: &Observed<'_>, weights: &Weights) -> Plan {
    let Observed { rule, members, nodes, now, .. } = *observed;
    let mut alarm = Alarm::default();
    let placed = allocation::placed(rule, members, nodes);
    let allocation = allocation::of(rule, weights, &placed, nodes, None);
    let history = observed.history.next(rule, &placed, &allocation, nodes, now);
    let is_settled = observed.ledger_quiet && history.unchanged_since() + SETTLED_AFTER <= now;
    if !is_settled {
        alarm.at((history.unchanged_since() + SETTLED_AFTER).max(now + 1));
    }
    let entries = states::of(rule, &allocation, &placed, observed.history, is_settled, now, &mut alarm);
    let scene = Scene {
        rule,
        weights,
        members,
        placed: &placed,
        allocation: &allocation,
        entries: &entries,
        history: &history,
        is_settled,
        in_force_since: rule.in_force_since(now),
        now,
    };
    let removals = scene.removals(&mut alarm);
    if !removals.is_empty() {
        alarm.at(now + HELD_UP);
    }
    let is_repairing = removals.iter().any(|removal| removal.cause == Cause::SlippedBy);
    let adoptions = if is_repairing { Vec::new() } else { scene.adoptions() };
    let costs = if is_settled { costs(weights, &placed) } else { Vec::new() };
    let left_alone = scene.left_alone();
    let mut plan = report::in_force(observed, &allocation, entries, is_settled, left_alone);
    plan.adoptions = adoptions;
    plan.costs = costs;
    plan.removals = removals;
    plan.wake_at = alarm.0;
    plan.history = history;
    plan.allocation = Some(allocation);
    plan
}
