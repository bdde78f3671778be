//! Which pods are made and which go.

use std::{collections::BTreeMap, time::Duration};

use podwright_api::{
    Moment,
    eds::{find_condition, words::condition},
};

use super::{
    action::{Creation, Deleted, Deletion, Why},
    budget::{self, Allowance, Load},
    census::{Census, Resident},
    holds::Holds,
    observed::{Observed, ReplicaSetFacts},
    order::{burden, spread},
    roles::Roles,
    slots::Slot,
    wake::Wake,
};
use crate::node::Fit;

/// A pod younger than this may be on a node that is not known yet.
const NEWCOMER: Duration = Duration::from_secs(30);

/// What happens to pods.
#[derive(Default)]
pub(super) struct Moves {
    pub(super) creations: Vec<Creation>,
    pub(super) deletions: Vec<Deletion>,
    /// Whether pods wait to be replaced, and nothing happens that would let them.
    pub(super) stuck: bool,
}

/// One part's share of the nodes, at work on it.
struct Front<'a, 'o> {
    slots: Vec<&'a Slot<'o>>,
    empty: Vec<&'a Slot<'o>>,
    outdated: Vec<&'a Slot<'o>>,
    starting: usize,
    leaving: usize,
    /// When the first of those that start no longer counts as starting.
    relief: Option<Moment>,
}

pub(super) fn moves<'o>(
    seen: &'o Observed,
    census: &Census<'o>,
    roles: &Roles<'o>,
    slots: &[Slot<'o>],
    holds: &Holds,
    wake: &mut Wake,
    now: Moment,
) -> Moves {
    let mut moves = Moves::default();
    for slot in slots {
        let standing = &slot.standing;
        let matures = standing.occupant.as_ref().and_then(|occupant| occupant.available_at);
        [matures, standing.unresponsive_at].into_iter().flatten().for_each(|at| wake.at(at));
    }
    if !holds.moves() {
        return moves;
    }
    moves.clean(census, slots, wake, now);
    let mut spare = load(slots).spare(&seen.set.strategy);
    let zones = burden(slots);
    let mut waiting = false;
    let mut moving = false;
    let trial = roles.trial.as_ref().map(|trial| (trial.replica_set, condition::CANARY));
    let rest = roles.active.map(|active| (active, condition::ACTIVE));
    for (canary, part) in [(true, trial), (false, rest)] {
        let Some((replica_set, part)) = part else {
            continue;
        };
        let front = Front::of(slots.iter().filter(|slot| slot.canary == canary), seen, now);
        let since = part_since(replica_set, part, now);
        let allowance = front.allowance(seen, since, wake, now);
        front.fill(&mut moves, allowance, &zones, roles.canary_name(), wake, now);
        let before = moves.deletions.len();
        if if canary { !holds.unclear() } else { holds.replaces() } {
            front.replace(&mut moves, allowance, &mut spare, &zones);
            waiting |= !front.outdated.is_empty();
        }
        moving |= moves.deletions.len() > before || front.starting + front.leaving + front.empty.len() > 0;
    }
    moves.stuck = waiting && !moving;
    moves
}

/// How many nodes are without a working pod.
fn load(slots: &[Slot<'_>]) -> Load {
    let mut load = Load::default();
    for slot in slots.iter().filter(|slot| slot.wanted()) {
        load.nodes += 1;
        load.unavailable += usize::from(!slot.standing.available());
        load.unresponsive += usize::from(slot.standing.unresponsive);
    }
    load
}

/// Since when a replica set has its part; its slow start counts from then.
fn part_since(replica_set: &ReplicaSetFacts, part: &str, now: Moment) -> Moment {
    find_condition(&replica_set.status.conditions, part)
        .filter(|condition| condition.is_true())
        .and_then(|condition| condition.last_transition_time)
        .unwrap_or(now)
}

impl Moves {
    /// What has no business where it is goes, whatever the budget: no node loses a working pod that it should have.
    fn clean(&mut self, census: &Census<'_>, slots: &[Slot<'_>], wake: &mut Wake, now: Moment) {
        for resident in census.homeless.iter().filter(|resident| resident.can_go()) {
            let certain = resident.facts().created.plus(NEWCOMER);
            if certain <= now {
                self.delete(resident, Why::NodeGone);
            } else {
                wake.at(certain);
            }
        }
        for slot in slots {
            if slot.fit == Fit::Never {
                for resident in slot.residents.iter().filter(|resident| resident.can_go()) {
                    self.delete(resident, Why::Unfit);
                }
            } else {
                for (resident, why) in &slot.standing.surplus {
                    self.delete(resident, *why);
                }
            }
        }
    }

    fn delete(&mut self, resident: &Resident<'_>, why: Why) {
        let facts = resident.facts();
        self.deletions.push(Deletion {
            pod: Deleted { name: facts.name.clone(), uid: facts.uid.clone() },
            node: facts.node.clone().unwrap_or_default(),
            why,
        });
    }
}

impl<'a, 'o> Front<'a, 'o> {
    fn of(slots: impl Iterator<Item = &'a Slot<'o>>, seen: &Observed, now: Moment) -> Self {
        let mut front = Self {
            slots: slots.filter(|slot| slot.wanted()).collect(),
            empty: Vec::new(),
            outdated: Vec::new(),
            starting: 0,
            leaving: 0,
            relief: None,
        };
        let horizon = budget::starting_for(&seen.set.strategy);
        for slot in &front.slots {
            match &slot.standing.occupant {
                None if !slot.standing.leaving => front.empty.push(slot),
                None => front.leaving += usize::from(!slot.standing.unresponsive),
                Some(occupant) if occupant.outdated.is_some() && occupant.resident.can_go() => {
                    front.outdated.push(slot);
                }
                Some(occupant) if !occupant.ready => {
                    let facts = occupant.resident.facts();
                    let relief = facts.created.plus(horizon);
                    if facts.uid.is_empty() || relief > now {
                        front.starting += 1;
                        front.relief = Some(front.relief.map_or(relief, |known| known.min(relief)));
                    }
                }
                Some(_) => {}
            }
        }
        front
    }

    fn allowance(&self, seen: &Observed, since: Moment, wake: &mut Wake, now: Moment) -> Allowance {
        let (mut allowed, more) = budget::starting(&seen.set.strategy, self.slots.len(), since, now);
        match &seen.refusal {
            Some(refusal) if refusal.until > now => {
                wake.at(refusal.until);
                allowed = 0;
            }
            // One is a question; the rest follow when it is answered.
            Some(_) => allowed = allowed.min(self.starting + 1),
            None => {}
        }
        let allowance = budget::allowance(allowed, self.starting, self.empty.len(), self.leaving);
        if allowance.create < self.empty.len() || allowance.replace < self.outdated.len() {
            [more, self.relief].into_iter().flatten().for_each(|at| wake.at(at));
        }
        allowance
    }

    /// Makes pods where none are.
    fn fill(
        &self,
        moves: &mut Moves,
        allowance: Allowance,
        zones: &BTreeMap<&'o str, usize>,
        trial: Option<&str>,
        wake: &mut Wake,
        now: Moment,
    ) {
        let due = self.empty.iter().copied().filter(|slot| match &slot.standing.ended {
            Some(ended) if ended.until > now => {
                wake.at(ended.until);
                false
            }
            _ => true,
        });
        for slot in spread(due, zones.clone()).into_iter().take(allowance.create) {
            let ended = slot.standing.ended.as_ref();
            if let Some(ended) = ended.filter(|ended| ended.resident.can_go()) {
                moves.delete(&ended.resident, Why::Failed);
            }
            moves.creations.push(Creation {
                node: slot.node.name.clone(),
                replica_set: slot.target.name.clone(),
                canary: slot.canary && trial == Some(slot.target.name.as_str()),
                failures: ended.map_or(0, |ended| ended.failures),
            });
        }
    }

    /// Takes outdated pods away so that new ones can take their place: first those that do not work, which costs nothing, then
    /// as many as the budget spares.
    fn replace(
        &self,
        moves: &mut Moves,
        allowance: Allowance,
        spare: &mut usize,
        zones: &BTreeMap<&'o str, usize>,
    ) {
        let (working, idle): (Vec<&Slot<'o>>, Vec<_>) =
            self.outdated.iter().partition(|slot| slot.standing.available());
        let idle = spread(idle.into_iter(), zones.clone());
        let free = idle.len().min(allowance.replace);
        let paid = working.len().min(allowance.replace - free).min(*spare);
        let working = if paid > 0 { spread(working.into_iter(), zones.clone()) } else { Vec::new() };
        *spare -= paid;
        for slot in idle.into_iter().take(free).chain(working.into_iter().take(paid)) {
            if let Some((occupant, why)) =
                slot.standing.occupant.as_ref().and_then(|occupant| Some((occupant, occupant.outdated?)))
            {
                moves.delete(&occupant.resident, why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use podwright_api::eds::Condition;

    use super::*;

    // The Go controller's getRollingUpdateStartTime.
    #[test]
    fn the_slow_start_counts_from_when_the_part_was_given() {
        let now = Moment::from_millis(1_000_000);
        let then = now.plus_seconds(-60);
        let since = |conditions: &[(&str, &str)]| {
            let stored = conditions.iter().map(|(type_, status)| Condition {
                type_: (*type_).to_owned(),
                status: (*status).to_owned(),
                last_transition_time: Some(then),
                ..Condition::default()
            });
            let mut replica_set = ReplicaSetFacts::default();
            replica_set.status.conditions = stored.collect();
            part_since(&replica_set, condition::ACTIVE, now)
        };
        assert_eq!(since(&[]), now, "nil case");
        assert_eq!(since(&[("Canary", "True")]), now, "non-active condition only");
        assert_eq!(since(&[("Active", "False")]), now, "active condition is false");
        assert_eq!(since(&[("Active", "True")]), then, "active condition is true");
    }
}
