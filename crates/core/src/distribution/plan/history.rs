//! What has to be remembered from one plan to the next, and may be forgotten when another replica takes the lead.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use podwright_api::distributor::Mode;

use super::{Cause, Removal};
use crate::distribution::{Allocation, NodeRoom, Rule, allocation::Placed};

/// How long a removal is remembered, in seconds: for as long as a workload may take to make up for it.
const MEMORY: i64 = 300;
/// How long to wait after a removal whose successor no webhook saw, or the scheduler put elsewhere, in seconds.
const FUTILE_PAUSE: i64 = 300;

/// What a rule has been through lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Which active pods there are. None before the first look.
    pods: Option<u64>,
    /// Since when.
    unchanged_since: i64,
    /// How many they are.
    count: u64,
    /// Since when pods have been without their node, by uid.
    lost: BTreeMap<String, i64>,
    /// Entries whose nodes have no room.
    full: BTreeSet<String>,
    done: Vec<Done>,
    /// When pods were last removed, and how many times in a row no pod that was made since is where a webhook sent it.
    unseen: Option<(i64, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Done {
    at: i64,
    cause: Cause,
    /// How many pods there were before.
    pods: u64,
}

impl History {
    /// Writes down that a pod was removed.
    pub fn removed(&mut self, removal: &Removal, now: i64) {
        self.done.push(Done { at: now, cause: removal.cause, pods: self.count });
        if self.unseen.is_none_or(|(at, _)| at != now) {
            let before = self.unseen.map_or(0, |(_, times)| times);
            self.unseen = Some((now, before.saturating_add(1)));
        }
    }

    pub(super) fn next(
        &self,
        rule: &Rule,
        placed: &[Placed<'_>],
        allocation: &Allocation,
        nodes: &[NodeRoom],
        now: i64,
    ) -> Self {
        let pods =
            Some(placed.iter().map(|(member, _)| fingerprint(&member.uid)).fold(0, |all, one| all ^ one));
        let known: HashSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        // Without any node, nobody has looked at them yet, or there is nowhere to go.
        let is_lost = |node: &str| !known.is_empty() && !known.contains(node);
        let lost = placed.iter().filter(|(member, _)| member.node.as_deref().is_some_and(is_lost));
        // Where an entry is only preferred, it shows only in the end where a pod comes to.
        let arrived = |(member, entry): &Placed<'_>| {
            let given = member.mark.as_ref().and_then(|mark| rule.entry(&mark.entry));
            rule.spec.mode == Mode::Required || (member.node.is_some() && *entry == given)
        };
        let is_proof =
            |at: i64| placed.iter().any(|one| one.0.was_admitted() && one.0.created >= at && arrived(one));
        let full = allocation.entries.iter().filter(|entry| entry.nodes > 0 && entry.fits == 0);
        Self {
            pods,
            unchanged_since: if self.pods == pods { self.unchanged_since } else { now },
            count: placed.len() as u64,
            lost: lost
                .map(|(member, _)| (member.uid.clone(), self.lost.get(&member.uid).copied().unwrap_or(now)))
                .collect(),
            full: full.map(|entry| entry.name.clone()).collect(),
            done: self.done.iter().filter(|done| done.at + MEMORY > now).copied().collect(),
            unseen: self.unseen.map(|(at, times)| (at, if is_proof(at) { 0 } else { times })),
        }
    }

    pub(super) const fn unchanged_since(&self) -> i64 {
        self.unchanged_since
    }

    /// Since when a pod has been without its node.
    pub(super) fn lost_since(&self, uid: &str) -> Option<i64> {
        self.lost.get(uid).copied()
    }

    /// Whether the nodes of an entry had no room when they were last looked at.
    pub(super) fn was_full(&self, entry: &str) -> bool {
        self.full.contains(entry)
    }

    /// When moves were made since.
    pub(super) fn moves_since(&self, moment: i64) -> Vec<i64> {
        let moves = self.done.iter().filter(|done| done.cause == Cause::Moved && done.at > moment);
        moves.map(|done| done.at).collect()
    }

    /// Until when to wait because a pod that was removed has not been made anew. Somebody may want fewer pods now, which nobody
    /// tells us, so that is not for ever.
    pub(super) fn owed_until(&self) -> Option<i64> {
        self.done.iter().filter(|done| done.pods > self.count).map(|done| done.at + MEMORY).max()
    }

    /// Until when nothing that runs is removed, because no webhook saw the successors of those that were, or the scheduler did not
    /// heed it. Twice as long each time.
    pub(super) fn futile_until(&self) -> Option<i64> {
        let (at, times) = self.unseen.filter(|(_, times)| *times > 0)?;
        Some(at.saturating_add(FUTILE_PAUSE << (times - 1).min(8)))
    }

    /// Whether a pod was removed and a webhook saw its successor.
    pub(super) fn webhook_answers(&self) -> bool {
        self.unseen.is_some_and(|(_, times)| times == 0)
    }
}

fn fingerprint(uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}
