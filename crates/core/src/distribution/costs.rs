//! Deletion costs that keep the ratio when a workload shrinks.
//!
//! A ReplicaSet deletes the pods with the lowest cost first. The `n`-th pod of an entry has its turn at some step of the rule's
//! [`Sequence`], and its cost is that step, negated: whatever number of pods is left, it is the beginning of the sequence.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::{Member, Sequence, Weights};

/// Below every pod that has an entry.
const NOWHERE: u64 = 2 * Sequence::NEVER;

/// A pod that gets another deletion cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostChange {
    /// Its name.
    pub name: String,
    /// Which of all pods that ever had the name.
    pub uid: String,
    /// The cost.
    pub cost: i32,
}

/// The pods whose deletion cost has to change, given the entry of each active pod.
///
/// As few as possible: a pod that has some turn of its entry keeps it, and only those whose turn is another's, or beyond the
/// last, take the turns that are free. A pod with a cost of somebody else's is never changed; it counts as the first of its
/// entry, or if its cost is negative the last.
#[must_use]
pub fn costs(weights: &Weights, members: &[(&Member, Option<usize>)]) -> Vec<CostChange> {
    let mut groups: BTreeMap<(&str, Option<usize>), Vec<&Member>> = BTreeMap::new();
    for (member, entry) in members.iter().filter(|(member, _)| is_steered(member)) {
        groups.entry((&member.revision, *entry)).or_default().push(member);
    }
    let mut sequence = Sequence::new(weights);
    let mut changes = Vec::new();
    for ((_, entry), group) in groups {
        let (theirs, mut ours): (Vec<&Member>, Vec<&Member>) =
            group.into_iter().partition(|member| member.has_own_cost());
        ours.sort_by_key(|member| (member.created, &member.name));
        let first = theirs.iter().filter(|member| effective(member) >= 0).count() as u64 + 1;
        let mut turns: BTreeMap<u64, usize> = BTreeMap::new();
        for nth in (first..).take(ours.len()) {
            let turn = entry.map_or(NOWHERE, |entry| sequence.position(entry, nth));
            *turns.entry(turn).or_default() += 1;
        }
        ours.retain(|member| {
            let kept = turn_of(member).and_then(|turn| turns.get_mut(&turn)).filter(|left| **left > 0);
            kept.map(|left| *left -= 1).is_none()
        });
        let free = turns.into_iter().flat_map(|(turn, left)| std::iter::repeat_n(turn, left));
        changes.extend(ours.into_iter().zip(free).map(|(member, turn)| CostChange {
            name: member.name.clone(),
            uid: member.uid.clone(),
            cost: cost(turn),
        }));
    }
    changes
}

/// The deletion cost of a pod as its controller sees it.
pub(super) fn effective(member: &Member) -> i32 {
    member.cost.as_deref().and_then(|cost| cost.parse().ok()).unwrap_or_default()
}

/// Whether whoever makes the pod looks at deletion costs.
fn is_steered(member: &Member) -> bool {
    member.owner.as_ref().is_some_and(|owner| !matches!(owner.kind.as_str(), "StatefulSet" | "Job"))
}

fn turn_of(member: &Member) -> Option<u64> {
    let cost: i32 = member.cost.as_deref()?.parse().ok()?;
    u64::try_from(-i64::from(cost)).ok()
}

fn cost(turn: u64) -> i32 {
    i32::try_from(turn).map_or(i32::MIN, |turn| -turn)
}
