//! How many pods each replica set has.

use podwright_api::Moment;

use super::{
    census::{Census, Tie},
    observed::Observed,
    roles::Roles,
    slots::Slot,
    standing::is_terminal,
};

/// A replica set's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) desired: usize,
    pub(super) current: usize,
    pub(super) ready: usize,
    pub(super) available: usize,
    pub(super) unresponsive: usize,
    /// Whether any pod that lives is its own. Its deletion would take them along.
    pub(super) owns: bool,
    /// Nodes for which the scheduler finds no room for its pod.
    pub(super) without_room: Vec<String>,
}

impl Tally {
    pub(super) const fn is_empty(&self) -> bool {
        self.desired == 0 && self.current == 0 && self.ready == 0 && self.available == 0
    }
}

/// The figures of each replica set, in the order in which they were observed. Those with a part count the nodes of their part;
/// the others the pods that they still have.
pub(super) fn tallies(
    seen: &Observed,
    census: &Census<'_>,
    roles: &Roles<'_>,
    slots: &[Slot<'_>],
    now: Moment,
) -> Vec<Tally> {
    let mut tallies = vec![Tally::default(); seen.replica_sets.len()];
    let place = |name: &str| seen.replica_sets.iter().position(|replica_set| replica_set.name == name);
    let part = |canary: bool| {
        if canary { roles.canary_name() } else { roles.active.map(|active| active.name.as_str()) }
    };
    let parts = [part(false).and_then(place), part(true).and_then(place)];
    for slot in slots.iter().filter(|slot| slot.wanted()) {
        let Some(mine) = parts[usize::from(slot.canary)] else {
            continue;
        };
        let tally = &mut tallies[mine];
        tally.desired += 1;
        if slot.standing.unresponsive {
            tally.unresponsive += 1;
        }
        let Some(occupant) = &slot.standing.occupant else {
            continue;
        };
        let facts = occupant.resident.facts();
        if facts.unschedulable {
            tally.without_room.push(slot.node.name.clone());
        }
        let of_this_part = seen.replica_sets[mine].name == slot.target.name;
        if occupant.outdated.is_none() && of_this_part && !slot.standing.unresponsive && !facts.uid.is_empty()
        {
            tally.current += 1;
            tally.ready += usize::from(occupant.ready);
            tally.available += usize::from(occupant.available);
        }
    }
    count_rest(seen, census, parts, &mut tallies, now);
    tallies
}

/// Pods of replica sets without a part.
fn count_rest(
    seen: &Observed,
    census: &Census<'_>,
    parts: [Option<usize>; 2],
    tallies: &mut [Tally],
    now: Moment,
) {
    for resident in census.pods() {
        let (Tie::Owned(owner), facts) = (resident.tie, resident.facts()) else {
            continue;
        };
        if is_terminal(facts) || facts.deleting.is_some() {
            continue;
        }
        tallies[owner].owns = true;
        // The pod of a twin that counts for the part of the other already must not be counted twice.
        let counted = parts.iter().flatten().any(|part| {
            *part == owner || seen.replica_sets[*part].template_generation == facts.template_hash
        });
        if counted || facts.uid.is_empty() {
            continue;
        }
        tallies[owner].current += 1;
        if let Some(since) = facts.ready_since {
            tallies[owner].ready += 1;
            tallies[owner].available += usize::from(since.plus(seen.set.strategy.min_ready) <= now);
        }
    }
}
