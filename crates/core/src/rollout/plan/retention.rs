//! What becomes of the objects around the pods: replica sets that are no longer needed, and the PodTemplate.

use std::time::Duration;

use podwright_api::{
    Moment,
    eds::{find_condition, words::condition},
};

use super::{
    action::{Deleted, Plan, PodTemplateChange},
    observed::{Controller, NodeChoice, Observed, ReplicaSetFacts},
    roles::{Roles, ours},
    tally::Tally,
    wake::Wake,
};

/// A replica set whose canary failed stays so long, for people and metrics to see.
const FAILED_STAYS: Duration = Duration::from_mins(2);

pub(super) fn tend(
    seen: &Observed,
    roles: &Roles<'_>,
    tallies: &[Tally],
    plan: &mut Plan,
    wake: &mut Wake,
    now: Moment,
) {
    plan.adopt = ours(seen)
        .filter(|replica_set| replica_set.controller == Controller::Nobody)
        .map(|replica_set| replica_set.name.clone())
        .collect();
    plan.copy_selector = roles
        .up_to_date
        .filter(|newest| seen.set.selector != NodeChoice::Unclear && newest.selector != seen.set.selector)
        .map(|newest| newest.name.clone());
    plan.pod_template = match &seen.pod_template {
        None => Some(PodTemplateChange::Create),
        Some(stored) if stored.ours && stored.template_hash != seen.set.template_hash => {
            Some(PodTemplateChange::Update)
        }
        Some(_) => None,
    };
    // While the newest is not there, nobody knows what is needed.
    let Some(newest) = roles.up_to_date else {
        return;
    };
    for (replica_set, tally) in seen.replica_sets.iter().zip(tallies) {
        let name = replica_set.name.as_str();
        let needed = name == newest.name
            || roles.active.is_some_and(|active| active.name == name)
            || roles.canary_name() == Some(name);
        if needed || replica_set.deleting || replica_set.controller != Controller::Us {
            continue;
        }
        if let Some(until) = stays_until(replica_set).filter(|until| *until > now) {
            wake.at(until);
        } else if tally.is_empty() && !tally.owns && is_stored_empty(replica_set) {
            plan.delete_replica_sets.push(Deleted { name: name.to_owned(), uid: replica_set.uid.clone() });
        }
    }
    // One that goes needs no status.
    let gone = &plan.delete_replica_sets;
    plan.replica_set_statuses.retain(|(name, _)| !gone.iter().any(|deleted| deleted.name == *name));
}

fn stays_until(replica_set: &ReplicaSetFacts) -> Option<Moment> {
    find_condition(&replica_set.status.conditions, condition::CANARY_FAILED)
        .filter(|condition| condition.is_true())
        .and_then(|condition| condition.last_transition_time)
        .map(|since| since.plus(FAILED_STAYS))
}

/// Others go by the stored figures, so they must have been told first.
fn is_stored_empty(replica_set: &ReplicaSetFacts) -> bool {
    let status = &replica_set.status;
    status.desired == 0 && status.current == 0 && status.ready == 0 && status.available == 0
}
