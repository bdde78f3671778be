//! What a node's pods come to: which one counts, and what the others are.

use std::{cmp::Reverse, time::Duration};

use podwright_api::Moment;

use super::{
    action::Why,
    census::{Resident, Tie},
    observed::{Phase, PodFacts, ReplicaSetFacts},
};

/// So long may a pod wait for the scheduler before it counts as unresponsive.
const SCHEDULING_PATIENCE: Duration = Duration::from_mins(10);
/// The second failure in a row waits so long, and each further one twice as long.
const FIRST_BACK_OFF: Duration = Duration::from_secs(10);
/// No failure waits longer.
const LONGEST_BACK_OFF: Duration = Duration::from_mins(15);
/// A pod that lived so long before it failed starts a new row.
const FORGETTING: Duration = Duration::from_mins(30);

/// What a node's pods come to.
#[derive(Default)]
pub(super) struct Standing<'o> {
    /// The pod that counts: alive and the best of them.
    pub(super) occupant: Option<Occupant<'o>>,
    /// Nothing lives there, but a pod that is going fills the node until it is gone.
    pub(super) leaving: bool,
    /// Its pod can't be scheduled or does not go away, for too long already.
    pub(super) unresponsive: bool,
    /// When it would become so.
    pub(super) unresponsive_at: Option<Moment>,
    /// The last pod that came to its end, if the node has nothing else.
    pub(super) ended: Option<Ended<'o>>,
    /// Pods that have no business there beside the others.
    pub(super) surplus: Vec<(Resident<'o>, Why)>,
}

/// The pod that counts.
pub(super) struct Occupant<'o> {
    pub(super) resident: Resident<'o>,
    /// Why it should be replaced, if it should.
    pub(super) outdated: Option<Why>,
    pub(super) ready: bool,
    pub(super) available: bool,
    /// When it becomes available, if it is ready and nothing happens.
    pub(super) available_at: Option<Moment>,
}

/// The last pod that came to its end.
pub(super) struct Ended<'o> {
    pub(super) resident: Resident<'o>,
    /// Not before this may another take its place.
    pub(super) until: Moment,
    /// What the other carries.
    pub(super) failures: u32,
}

/// By what a pod is judged.
#[derive(Clone, Copy)]
pub(super) struct Rule<'o> {
    pub(super) now: Moment,
    pub(super) min_ready: Duration,
    /// The replica set whose pod should be there.
    pub(super) target: &'o ReplicaSetFacts,
}

impl<'o> Rule<'o> {
    /// Why the pod is not what it should be, if it is not.
    pub(super) fn outdated(&self, resident: &Resident<'o>) -> Option<Why> {
        let facts = resident.facts();
        let same = matches!(resident.tie, Tie::Owned(_))
            && !facts.template_hash.is_empty()
            && facts.template_hash == self.target.template_generation;
        if !same {
            Some(Why::Outdated)
        } else if resident.pod.as_wanted {
            None
        } else {
            Some(Why::Overrides)
        }
    }

    fn occupant(&self, resident: Resident<'o>) -> Occupant<'o> {
        let ready_since = resident.facts().ready_since;
        let available_at =
            ready_since.filter(|_| !self.min_ready.is_zero()).map(|since| since.plus(self.min_ready));
        Occupant {
            resident,
            outdated: self.outdated(&resident),
            ready: ready_since.is_some(),
            available: ready_since.is_some() && available_at.is_none_or(|at| at <= self.now),
            available_at: available_at.filter(|at| *at > self.now),
        }
    }

    /// Judges a node's pods, which come in the order of their names.
    pub(super) fn judge(&self, residents: &[Resident<'o>]) -> Standing<'o> {
        let mut standing = Standing::default();
        let mut ended: Option<Resident<'o>> = None;
        for resident in residents {
            let facts = resident.facts();
            if is_terminal(facts) {
                let older = match ended {
                    Some(known) if known.facts().created > facts.created => Some(*resident),
                    known => {
                        ended = Some(*resident);
                        known
                    }
                };
                standing.surplus.extend(older.map(|pod| (pod, Why::Failed)));
            } else if let Some(gone_at) = facts.deleting {
                standing.leaving = true;
                self.watch(&mut standing, gone_at);
            } else {
                let rival = self.occupant(*resident);
                standing.settle(rival);
            }
        }
        if let Some(occupant) = &standing.occupant {
            standing.leaving = false;
            (standing.unresponsive, standing.unresponsive_at) = (false, None);
            let facts = occupant.resident.facts();
            if !facts.scheduled && !facts.uid.is_empty() {
                self.watch(&mut standing, facts.created.plus(SCHEDULING_PATIENCE));
            }
        }
        self.bury(&mut standing, ended);
        standing.surplus.retain(|(pod, _)| pod.can_go());
        standing
    }

    fn watch(&self, standing: &mut Standing<'o>, patience_ends: Moment) {
        if patience_ends < self.now {
            standing.unresponsive = true;
        } else {
            let at = patience_ends.plus_seconds(1);
            standing.unresponsive_at = Some(standing.unresponsive_at.map_or(at, |known| known.min(at)));
        }
    }

    /// What the last pod that ended means: nothing beside others, else the wait for its successor.
    fn bury(&self, standing: &mut Standing<'o>, ended: Option<Resident<'o>>) {
        let Some(resident) = ended else {
            return;
        };
        if standing.occupant.is_some() || standing.leaving {
            standing.surplus.push((resident, Why::Failed));
            return;
        }
        let facts = resident.facts();
        let died = facts.ended.unwrap_or(facts.created);
        let another_row = self.outdated(&resident).is_some() || died.since(facts.created) >= FORGETTING;
        let (until, failures) = if another_row {
            // It is on its own, but its successor's name, which follows from the count, must not be its own.
            (self.now, if facts.failures == 1 { 2 } else { 1 })
        } else {
            (died.plus(back_off(facts.failures)), facts.failures.saturating_add(1))
        };
        standing.ended = Some(Ended { resident, until, failures });
    }
}

impl<'o> Standing<'o> {
    /// The better one stays.
    fn settle(&mut self, rival: Occupant<'o>) {
        let Some(holder) = self.occupant.take() else {
            self.occupant = Some(rival);
            return;
        };
        let (better, worse) = if worth(&rival) > worth(&holder) { (rival, holder) } else { (holder, rival) };
        self.surplus.push((worse.resident, Why::Duplicate));
        self.occupant = Some(better);
    }

    /// Whether the node has a pod that does its work.
    pub(super) fn available(&self) -> bool {
        self.occupant.as_ref().is_some_and(|occupant| occupant.available)
    }
}

pub(super) const fn is_terminal(facts: &PodFacts) -> bool {
    matches!(facts.phase, Phase::Failed | Phase::Succeeded)
}

/// Among pods of one node: what works before what is new, and the older of equals.
fn worth(occupant: &Occupant<'_>) -> impl Ord + use<> {
    let facts = occupant.resident.facts();
    (
        occupant.available,
        occupant.outdated.is_none(),
        occupant.ready,
        facts.scheduled,
        // One that we may not delete is better kept than hidden.
        !occupant.resident.can_go(),
        Reverse(facts.created),
    )
}

/// How long the successor of a pod waits before which so many failed.
fn back_off(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        more => FIRST_BACK_OFF.saturating_mul(1 << (more - 1).min(16)).min(LONGEST_BACK_OFF),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_forgiven_and_later_ones_wait_twice_as_long_each_up_to_a_quarter_of_an_hour() {
        let waits: Vec<u64> = (0..10).map(|failures| back_off(failures).as_secs()).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 320, 640, 900, 900]);
        assert_eq!(back_off(u32::MAX), LONGEST_BACK_OFF);
    }
}
