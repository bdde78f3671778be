//! Pods that were made while no webhook answered.

use std::cmp::Reverse;

use podwright_api::distributor::Mode;

use super::{
    Alarm, Cause, Disruption, Removal,
    removals::{Scene, Tally, is_made_anew, removal},
};
use crate::distribution::{Member, Phase, allocation::Placed, costs::effective};

impl Scene<'_> {
    /// Those that are where they should not be: a few at a time, and none that runs unless there is room where its successor
    /// goes. Whichever runs where it is welcome stays, and counts there.
    pub(super) fn slipped_by(&self, alarm: &mut Alarm) -> Vec<Removal> {
        let mut candidates: Vec<&Placed<'_>> =
            self.placed.iter().filter(|(member, _)| self.has_slipped_by(member)).collect();
        candidates.sort_by_key(|(member, entry)| {
            let runs = member.phase == Phase::Running;
            (runs, entry.is_some(), effective(member), Reverse(member.created), &member.name)
        });
        let mut tally = self.tally();
        let mut away = self.away();
        let limit = (self.allocation.pods / 10).max(1);
        let mut removals: Vec<Removal> = Vec::new();
        for (member, entry) in candidates {
            let runs = member.phase == Phase::Running;
            if removals.len() as u64 >= limit || (runs && away >= limit) {
                break;
            }
            let Some(to) = self.repaired_to(&tally, *entry, runs) else { continue };
            if let Some(until) = self.history.owed_until().filter(|_| runs) {
                alarm.at(until);
                break;
            }
            tally.pass(*entry, to);
            away += u64::from(runs);
            let how = if runs { Disruption::Evict } else { Disruption::Delete };
            let why = "it was made while no webhook answered, and is not where it belongs".to_owned();
            removals.push(removal(member, Cause::SlippedBy, how, why));
        }
        if removals.is_empty() {
            return removals;
        }
        if let Some(until) = self.history.futile_until().filter(|until| *until > self.now) {
            alarm.at(until);
            return Vec::new();
        }
        if !self.webhook_answers() {
            // One goes ahead to see whether the next is seen.
            removals.truncate(1);
        }
        removals
    }

    /// Whether a webhook should have seen it, but did not, and would see its successor.
    pub(super) fn has_slipped_by(&self, member: &Member) -> bool {
        self.rule.spec.mode == Mode::Required
            && member.mark.is_none()
            && member.created >= self.in_force_since
            && Some(&member.revision) == self.allocation.revision.as_ref()
            && is_made_anew(member)
            && !member.is_numbered()
            && self.contradiction(member).is_none()
    }

    /// Where the successor of a pod that slipped by goes. None if the pod may stay.
    pub(super) fn repaired_to(&self, tally: &Tally, from: Option<usize>, runs: bool) -> Option<usize> {
        let mut entries = 0..self.entries.len();
        let is_off = entries.any(|entry| self.excess(tally, entry).abs() >= self.allocation.total());
        if from.is_some() && !is_off {
            return None;
        }
        self.destination(tally, from, runs)
    }

    /// How many pods of the revision do not serve.
    fn away(&self) -> u64 {
        let revision = self.allocation.revision.as_deref();
        let members = self.members.iter().filter(|member| Some(member.revision.as_str()) == revision);
        members.filter(|member| member.phase != Phase::Ended && (member.deleting || !member.ready)).count()
            as u64
    }

    /// Whether a pod has been seen by a webhook since the last one that was not.
    fn webhook_answers(&self) -> bool {
        let latest = |seen: bool| {
            let those = self.placed.iter().filter(|(member, _)| member.was_admitted() == seen);
            those.map(|(member, _)| member.created).max()
        };
        self.history.webhook_answers() || latest(true) > latest(false)
    }
}
