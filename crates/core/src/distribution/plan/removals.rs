//! Which pods have to go, so that they are made anew where they belong.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use podwright_api::distributor::{EntryState, EntryStatus};

use super::{Alarm, Cause, Disruption, History, Removal};
use crate::distribution::{
    Allocation, Member, Rule, Weights,
    allocation::{Placed, ordinal},
    costs::effective,
    ledger,
};

/// How long a pod may be without its node before it is given up, in seconds.
const LOST_AFTER: i64 = 10;
/// How many pods a minute return to their entry after a spill.
const RETURNS_A_MINUTE: u32 = 30;

/// What decides about pods.
pub(super) struct Scene<'s> {
    pub(super) rule: &'s Rule,
    pub(super) weights: &'s Weights,
    pub(super) members: &'s [Arc<Member>],
    /// The active ones among them.
    pub(super) placed: &'s [Placed<'s>],
    pub(super) allocation: &'s Allocation,
    /// How each entry fares now.
    pub(super) entries: &'s [EntryStatus],
    pub(super) history: &'s History,
    /// Whether the pods are the same as some seconds ago, and none is on its way.
    pub(super) is_settled: bool,
    /// Since when the rule has been in force for its target.
    pub(super) in_force_since: i64,
    pub(super) now: i64,
}

/// What each entry has and could take, as it changes while pods are picked.
pub(super) struct Tally {
    pub(super) counts: Vec<u64>,
    fits: Vec<u64>,
}

impl Scene<'_> {
    /// Those that cannot run where they are come first, then those that slipped by, then one that moves.
    pub(super) fn removals(&self, alarm: &mut Alarm) -> Vec<Removal> {
        if !self.is_announced() {
            alarm.at(self.now + 1);
            return Vec::new();
        }
        let mut removals = self.lost(alarm);
        removals.extend(self.spilled());
        if removals.is_empty() && self.is_settled {
            removals = self.slipped_by(alarm);
            if removals.is_empty() {
                removals.extend(self.moved(alarm));
            }
        }
        removals
    }

    /// Whether admission knows which entries are closed. Until then, pods that are made anew would come to the same place.
    fn is_announced(&self) -> bool {
        let known = |entry: &EntryStatus| {
            let known = self.rule.status.entries.iter().find(|known| known.entry == entry.entry);
            known.map(|known| (known.state, known.up_to)).unwrap_or_default()
        };
        self.entries.iter().all(|entry| (entry.state, entry.up_to) == known(entry))
    }

    /// Pods whose node is gone. Kubernetes gives them up, too, but later. A StatefulSet's are left to it: whether one has really
    /// ended, before another gets its name and its disks, is not ours to say.
    fn lost(&self, alarm: &mut Alarm) -> Vec<Removal> {
        if !self.rule.spills() {
            return Vec::new();
        }
        let lost = self.placed.iter().filter_map(|(member, _)| {
            let since = self
                .history
                .lost_since(&member.uid)
                .filter(|_| is_made_anew(member) && !member.is_numbered())?;
            if since + LOST_AFTER > self.now {
                alarm.at(since + LOST_AFTER);
                return None;
            }
            let node = member.node.as_deref().unwrap_or_default();
            Some(removal(member, Cause::Lost, Disruption::Delete, format!("its node {node} is gone")))
        });
        lost.collect()
    }

    /// Pods that have waited too long in an entry that is closed, as many as others can take.
    fn spilled(&self) -> Vec<Removal> {
        if !self.rule.spills() {
            return Vec::new();
        }
        let is_open =
            |entry: usize| self.entries[entry].state == EntryState::Open && self.weights.of(entry) > 0;
        let room = self.allocation.entries.iter().enumerate().filter(|(index, _)| is_open(*index));
        let room = room.map(|(_, entry)| entry.fits).fold(0, u64::saturating_add);
        let claims = |(member, entry): &&Placed<'_>| member.node.is_none() && entry.is_some_and(is_open);
        let room = room.saturating_sub(self.placed.iter().filter(claims).count() as u64);
        let mut overdue: Vec<(&Member, &EntryStatus)> = self
            .placed
            .iter()
            .filter_map(|(member, entry)| {
                let status = &self.entries[(*entry)?];
                let since = member.unschedulable_since?;
                let is_due = since + self.rule.spec.spill_after() <= self.now;
                (status.state != EntryState::Open && member.node.is_none() && is_due)
                    .then_some((*member, status))
            })
            .filter(|(member, _)| is_made_anew(member) && self.contradiction(member).is_none())
            .collect();
        overdue.sort_by_key(|(member, _)| (member.unschedulable_since, &member.name));
        let spilled = overdue.into_iter().take(usize::try_from(room).unwrap_or(usize::MAX));
        spilled
            .map(|(member, status)| {
                let what = if status.state == EntryState::NoNodes { "no node" } else { "no room" };
                let why = format!("{} has {what} for it, and another entry has", status.entry);
                removal(member, Cause::Spilled, Disruption::Delete, why)
            })
            .collect()
    }

    /// One pod that goes from an entry with more than its share to one that has less, and room.
    fn moved(&self, alarm: &mut Alarm) -> Option<Removal> {
        let rebalance = &self.rule.spec.rebalance;
        if !(rebalance.enabled || self.rule.spills()) || self.allocation.is_balanced() {
            return None;
        }
        // Pods that somebody made by hand are nobody's revision.
        let is_calm = |(member, _): &Placed<'_>| {
            member.owner.is_none()
                || (member.ready
                    && ordinal(member).is_none()
                    && Some(&member.revision) == self.allocation.revision.as_ref())
        };
        if !self.placed.iter().all(is_calm) {
            return None;
        }
        let (member, from, to) = self.next_move()?;
        let futile = self.history.futile_until().filter(|until| *until > self.now);
        if let Some(until) = self.history.owed_until().max(futile) {
            alarm.at(until);
            return None;
        }
        let limit = match rebalance.max_per_minute {
            None if self.rule.spills() => RETURNS_A_MINUTE,
            _ => rebalance.per_minute(),
        };
        let moves = self.history.moves_since(self.now - 60);
        if moves.len() as u64 >= u64::from(limit) {
            alarm.at(moves.iter().min().copied().unwrap_or(self.now) + 60);
            return None;
        }
        let to = &self.allocation.entries[to].name;
        let why = from.map_or_else(
            || format!("it is in no entry, and {to} has less than its share"),
            |from| format!("{} has more than its share, and {to} less", self.allocation.entries[from].name),
        );
        Some(removal(member, Cause::Moved, Disruption::Evict, why))
    }

    /// The pod that moves next, and between which entries: of the entry that is furthest above its share, the one that would go
    /// first anyway. Unless somebody asks for more, only to an entry whose pods have spilled.
    fn next_move(&self) -> Option<(&Member, Option<usize>, usize)> {
        let tally = self.tally();
        let mut sources: Vec<Option<usize>> = (0..self.entries.len()).map(Some).collect();
        sources.sort_by_key(|from| from.map(|from| Reverse(self.excess(&tally, from))));
        if self.rule.spec.rebalance.enabled {
            sources.insert(0, None);
        }
        sources.into_iter().find_map(|from| {
            let to = self.destination(&tally, from, true)?;
            if !self.rule.spec.rebalance.enabled && self.entries[to].spilled_since.is_none() {
                return None;
            }
            let movable = self.of_revision().filter(|(member, entry)| {
                *entry == from && is_made_anew(member) && self.contradiction(member).is_none()
            });
            let first = movable.min_by_key(|(member, _)| {
                (effective(member), Reverse(member.created), Reverse(&member.name))
            })?;
            Some((first.0, from, to))
        })
    }

    /// Where the successor of a pod goes, if that is better than where the pod is, and if it matters, has room.
    pub(super) fn destination(&self, tally: &Tally, from: Option<usize>, needs_room: bool) -> Option<usize> {
        let mut counts = tally.counts.clone();
        if let Some(from) = from {
            counts[from] = counts[from].saturating_sub(1);
        }
        let to = ledger::choose(self.rule, self.weights, &counts)?;
        let status = &self.entries[to];
        let is_tried = status.up_to.is_some_and(|up_to| tally.counts[to] < u64::try_from(up_to).unwrap_or(0));
        let has_room = is_tried || (status.state == EntryState::Open && tally.fits[to] > 0);
        // Each such step brings the whole closer, so there is an end to them.
        let is_better = from.is_none_or(|from| {
            let (above, below) = (self.excess(tally, from), self.excess(tally, to));
            above > 0 && below < 0 && above - below > self.allocation.total()
        });
        (is_better && (has_room || !needs_room)).then_some(to)
    }

    /// How far an entry is above its share, in pods times the sum of all weights.
    pub(super) fn excess(&self, tally: &Tally, entry: usize) -> i128 {
        i128::from(tally.counts[entry]) * self.allocation.total()
            - i128::from(self.weights.of(entry)) * i128::from(self.allocation.pods)
    }

    pub(super) fn of_revision(&self) -> impl Iterator<Item = &Placed<'_>> {
        let revision = self.allocation.revision.as_deref();
        self.placed.iter().filter(move |(member, _)| Some(member.revision.as_str()) == revision)
    }

    /// What each entry has, and how many pods more it has room for beside those that wait for a node already.
    pub(super) fn tally(&self) -> Tally {
        let mut waiting: BTreeMap<usize, u64> = BTreeMap::new();
        for entry in
            self.placed.iter().filter(|(member, _)| member.node.is_none()).filter_map(|(_, entry)| *entry)
        {
            *waiting.entry(entry).or_default() += 1;
        }
        let fits = self.allocation.entries.iter().enumerate();
        let left = |index: &usize| waiting.get(index).copied().unwrap_or_default();
        Tally {
            counts: self.allocation.counts(),
            fits: fits.map(|(index, entry)| entry.fits.saturating_sub(left(&index))).collect(),
        }
    }
}

impl Tally {
    /// A pod goes, and its successor comes elsewhere.
    pub(super) fn pass(&mut self, from: Option<usize>, to: usize) {
        if let Some(from) = from {
            self.counts[from] = self.counts[from].saturating_sub(1);
        }
        self.counts[to] += 1;
        self.fits[to] = self.fits[to].saturating_sub(1);
    }
}

/// Whether somebody makes another pod when this one is gone, and nothing is lost by it. To a Job, it would be a failure.
pub(super) fn is_made_anew(member: &Member) -> bool {
    member.owner.as_ref().is_some_and(|owner| owner.kind != "Job")
}

pub(super) fn removal(member: &Member, cause: Cause, how: Disruption, why: String) -> Removal {
    let (name, uid, node) = (member.name.clone(), member.uid.clone(), member.node.clone());
    Removal { name, uid, node, cause, why, how }
}
