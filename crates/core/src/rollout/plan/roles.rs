//! Which replica set plays which part.

use podwright_api::eds::CanaryStatus;

use super::observed::{Controller, Observed, ReplicaSetFacts};

/// The parts, as they are from now on.
pub(super) struct Roles<'o> {
    /// The one with the newest template, if it is there yet.
    pub(super) up_to_date: Option<&'o ReplicaSetFacts>,
    /// The one whose pods run everywhere but on the canary's nodes.
    pub(super) active: Option<&'o ReplicaSetFacts>,
}

/// Replica sets that are ours and stay.
pub(super) fn ours(seen: &Observed) -> impl Iterator<Item = &ReplicaSetFacts> {
    seen.replica_sets
        .iter()
        .filter(|replica_set| replica_set.controller != Controller::Another && !replica_set.deleting)
}

/// The replica set of the newest template. The Go controller sometimes made two of one: then the one that is in use counts, and
/// the older one of equals.
pub(super) fn up_to_date(seen: &Observed) -> Option<&ReplicaSetFacts> {
    let status = &seen.set.status;
    let rank = |replica_set: &&ReplicaSetFacts| {
        (
            !replica_set.same_template,
            replica_set.name != status.active_replica_set,
            status.canary.as_ref().is_none_or(|canary: &CanaryStatus| canary.replica_set != replica_set.name),
            replica_set.created,
            replica_set.name.clone(),
        )
    };
    ours(seen)
        .filter(|replica_set| {
            let same_hash =
                !replica_set.template_hash.is_empty() && replica_set.template_hash == seen.set.template_hash;
            replica_set.same_template || same_hash
        })
        .min_by_key(rank)
}

impl<'o> Roles<'o> {
    pub(super) fn decide(seen: &'o Observed) -> Self {
        let up_to_date = up_to_date(seen);
        let stored = ours(seen).find(|replica_set| replica_set.name == seen.set.status.active_replica_set);
        let held = !seen.set.problems.is_empty() || seen.set.strategy.canary.is_some();
        let active = match (stored, up_to_date) {
            (Some(stored), Some(_)) if held => Some(stored),
            (stored, newest) => newest.or(stored),
        };
        Self { up_to_date, active }
    }

    /// The one that is tried.
    #[expect(clippy::unused_self, reason = "until canaries are run")]
    pub(super) fn canary_name(&self) -> Option<&'o str> {
        None
    }

    /// Whether everything that should run has the newest template.
    pub(super) fn settled(&self) -> bool {
        match (self.up_to_date, self.active) {
            (Some(newest), Some(active)) => newest.name == active.name,
            _ => false,
        }
    }
}
