//! The trial of a new template on a few nodes: where it runs, how it fares, and when it is over.
//!
//! ```text
//!                    ┌────────── paused ◀───┐ a pod restarts too often or can't start, or a person says so
//!                    ▼                      │
//! new template ─→ trial ──── time is up, or a person validates ─→ promoted: its replica set becomes the active one
//!                    │
//!                    └─ fails too often or for too long, or a person says so ─→ failed: the active one takes its nodes back
//! ```
//!
//! A failure is first stored in the replica set's condition and acted on by the plan after, which is also how others make a
//! canary fail. So no crash in between can lose it, and a failed template is never promoted.

mod clock;
mod health;
mod nodes;

use podwright_api::{
    Moment,
    eds::{CanaryStatus, EffectiveCanary, find_condition, words::condition},
    keys,
};

pub(super) use self::health::{Cause, Health};
use super::{
    census::{Census, Resident, Tie},
    observed::{Observed, PodFacts, ReplicaSetFacts},
    standing::is_terminal,
    wake::Wake,
};

/// A trial that is under way.
pub(super) struct Trial<'o> {
    /// The replica set that is tried.
    pub(super) replica_set: &'o ReplicaSetFacts,
    /// On which nodes, in the order in which they were chosen.
    pub(super) nodes: Vec<String>,
    /// The same, to be looked up.
    sorted: Vec<String>,
    /// How many nodes it should have.
    pub(super) wanted: usize,
    pub(super) seed: String,
    /// Seconds spent in pauses that are over.
    paused_seconds: i64,
    pub(super) health: Health,
}

/// What becomes of a trial now.
pub(super) enum Verdict<'o> {
    /// It goes on.
    Goes(Box<Trial<'o>>),
    /// Its template is for all nodes from now on.
    Promoted,
}

impl Trial<'_> {
    /// Whether a node takes part.
    pub(super) fn has(&self, node: &str) -> bool {
        self.sorted.binary_search_by(|known| known.as_str().cmp(node)).is_ok()
    }

    /// Whether one of its nodes, which has these pods, is to run the template on trial. While it is paused or failing it spreads
    /// no further: what runs stays, and a node that is bare gets the proven template rather than nothing.
    pub(super) fn takes(&self, residents: &[Resident<'_>]) -> bool {
        let spreads = self.health.paused.is_none() && self.health.failed.is_none();
        spreads || residents.iter().any(|resident| is_of(resident.facts(), self.replica_set))
    }

    /// What is stored of it.
    pub(super) fn status(&self) -> CanaryStatus {
        CanaryStatus {
            replica_set: self.replica_set.name.clone(),
            nodes: self.nodes.clone(),
            seed: self.seed.clone(),
            paused_seconds: self.paused_seconds,
        }
    }
}

/// Why a replica set's canary failed, if that is stored.
pub(super) fn failure(replica_set: &ReplicaSetFacts) -> Option<Cause> {
    find_condition(&replica_set.status.conditions, condition::CANARY_FAILED)
        .filter(|condition| condition.is_true())
        .map(|condition| Cause { reason: condition.reason.clone(), message: condition.message.clone() })
}

/// What becomes of the trial of `newest` beside `active`. Unless it is free to, it neither ends nor moves to other nodes.
pub(super) fn judge<'o>(
    seen: &'o Observed,
    census: &Census<'o>,
    (active, newest): (&'o ReplicaSetFacts, &'o ReplicaSetFacts),
    strategy: &EffectiveCanary,
    free: bool,
    wake: &mut Wake,
    now: Moment,
) -> Verdict<'o> {
    let stored = seen.set.status.canary.clone().unwrap_or_default();
    let pods = pods(census, newest, &stored.nodes);
    let health = health::examine(strategy, newest, &seen.set.annotations, &pods, wake, now);
    let paused_seconds =
        if strategy.pause_stops_clock { clock::paused(&stored, newest, &health, now) } else { 0 };
    if free && health.failed.is_none() {
        let valid = seen.set.annotations.get(keys::EDS_CANARY_VALID).is_some_and(|name| *name == newest.name);
        let begun = stored.replica_set == newest.name;
        let fit = !strategy.require_ready
            || (begun && health::all_available(&pods, &stored.nodes, seen.set.strategy.min_ready, wake, now));
        let over = clock::is_over(strategy, newest, &health, paused_seconds, wake, now);
        if valid || (over && fit && health.paused.is_none()) {
            return Verdict::Promoted;
        }
    }
    if health.failed.is_some() {
        wake.at_once();
    }
    let grows = health.paused.is_none() && health.failed.is_none();
    let choice = nodes::Choice { seen, census, active, newest, strategy, grows };
    let chosen = if free { choice.choose(&stored) } else { nodes::as_stored(&stored) };
    let mut sorted = chosen.nodes.clone();
    sorted.sort_unstable();
    Verdict::Goes(Box::new(Trial {
        replica_set: newest,
        nodes: chosen.nodes,
        sorted,
        wanted: chosen.wanted,
        seed: chosen.seed,
        paused_seconds,
        health,
    }))
}

/// The trial's own pods that live, in the order of its nodes.
fn pods<'o>(census: &Census<'o>, newest: &ReplicaSetFacts, nodes: &[String]) -> Vec<&'o PodFacts> {
    nodes
        .iter()
        .filter_map(|name| census.node(name))
        .filter_map(|(_, residents)| {
            let mut own = residents.iter().filter(|resident| matches!(resident.tie, Tie::Owned(_)));
            own.find(|resident| is_of(resident.facts(), newest)).map(Resident::facts)
        })
        .collect()
}

/// Whether a pod lives and is of the replica set's template.
pub(super) fn is_of(facts: &PodFacts, replica_set: &ReplicaSetFacts) -> bool {
    !is_terminal(facts) && facts.deleting.is_none() && facts.template_hash == replica_set.template_generation
}
