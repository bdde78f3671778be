//! Which replica set plays which part.

use podwright_api::{
    Moment,
    eds::{CanaryStatus, EffectiveCanary},
};

use super::{
    canary::{self, Cause, Trial, Verdict},
    census::Census,
    holds::Holds,
    observed::{Controller, Observed, ReplicaSetFacts},
    wake::Wake,
};

/// The parts, as they are from now on.
#[derive(Default)]
pub(super) struct Roles<'o> {
    /// The one with the newest template, if it is there yet.
    pub(super) up_to_date: Option<&'o ReplicaSetFacts>,
    /// The one whose pods run everywhere but on the canary's nodes.
    pub(super) active: Option<&'o ReplicaSetFacts>,
    /// The one that is tried on a few nodes.
    pub(super) trial: Option<Box<Trial<'o>>>,
    /// Why the newest was tried and is not wanted.
    pub(super) failed: Option<Cause>,
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
    pub(super) fn decide(
        seen: &'o Observed,
        census: &Census<'o>,
        holds: &Holds,
        wake: &mut Wake,
        now: Moment,
    ) -> Self {
        let newest = up_to_date(seen);
        let stored = ours(seen).find(|replica_set| replica_set.name == seen.set.status.active_replica_set);
        let roles = Self { up_to_date: newest, active: stored, ..Self::default() };
        let Some(active) = stored else {
            return Self { active: newest, ..roles };
        };
        if newest.is_some_and(|newest| newest.name == active.name) {
            return roles;
        }
        match (newest, &seen.set.strategy.canary) {
            // One that was tried goes on being tried until the newest is there.
            (None, Some(strategy)) => roles.go_on(seen, census, strategy, wake, now),
            (None, None) => roles,
            (Some(_), None) if holds.unclear() => roles,
            (Some(newest), None) => Self { active: Some(newest), ..roles },
            (Some(newest), Some(_)) if canary::failure(newest).is_some() => {
                Self { failed: canary::failure(newest), ..roles }
            }
            (Some(_), Some(strategy)) if !holds.recasts() => roles.go_on(seen, census, strategy, wake, now),
            (Some(newest), Some(strategy)) => {
                match canary::judge(seen, census, (active, newest), strategy, true, wake, now) {
                    Verdict::Promoted => Self { active: Some(newest), ..roles },
                    Verdict::Goes(trial) => Self { trial: Some(trial), ..roles },
                }
            }
        }
    }

    /// Nothing gets another part: what is stored goes on.
    fn go_on(
        self,
        seen: &'o Observed,
        census: &Census<'o>,
        strategy: &EffectiveCanary,
        wake: &mut Wake,
        now: Moment,
    ) -> Self {
        let tried = seen.set.status.canary.as_ref().and_then(|stored| {
            ours(seen).find(|replica_set| {
                replica_set.name == stored.replica_set && canary::failure(replica_set).is_none()
            })
        });
        let (Some(active), Some(tried)) = (self.active, tried) else {
            return self;
        };
        match canary::judge(seen, census, (active, tried), strategy, false, wake, now) {
            Verdict::Goes(trial) => Self { trial: Some(trial), ..self },
            Verdict::Promoted => self,
        }
    }

    /// The one that is tried.
    pub(super) fn canary_name(&self) -> Option<&'o str> {
        self.trial.as_ref().map(|trial| trial.replica_set.name.as_str())
    }

    /// Whether everything that should run has the newest template.
    pub(super) fn settled(&self) -> bool {
        match (self.up_to_date, self.active) {
            (Some(newest), Some(active)) => newest.name == active.name,
            _ => false,
        }
    }
}
