//! What to do next for one ExtendedDaemonSet: a function of what is seen and of the time.
//!
//! ```text
//! Observed ─→ census (who is where) ─→ roles (which template where) ─→ slots (what each node should have and has)
//!                                                                        ├→ moves  (within budget and slow start)
//!                                                                        └→ tallies ─→ statuses, events
//! ```
//!
//! What holds: a node gets a pod only when it has none that lives or is going; a working pod is taken away only if the budget
//! spares it and it can be made again at once; the same observation gives the same plan. Nothing is remembered between
//! plans but what is stored in the cluster.

mod action;
mod budget;
mod canary;
mod census;
mod conditions;
mod events;
mod holds;
mod moves;
mod observed;
mod order;
mod replica_set_status;
mod retention;
mod roles;
mod set_status;
mod slots;
mod standing;
mod tally;
#[cfg(test)]
mod tests;
mod wake;

use podwright_api::{
    Moment,
    eds::{ExtendedDaemonSetReplicaSetStatus, ExtendedDaemonSetStatus},
    keys,
};

pub use action::{CanaryLabel, Creation, Deleted, Deletion, Event, Plan, PodTemplateChange, Why};
pub use observed::{
    ContainerEnd, ContainerFacts, Controller, NodeChoice, NodeFacts, Observed, ObservedPod, Phase, PodFacts,
    PodOwner, PodTemplateFacts, Refusal, ReplicaSetFacts, SetFacts,
};

use self::{
    census::{Census, Tie},
    holds::Holds,
    moves::{Moves, moves},
    replica_set_status::Deeds,
    roles::Roles,
    set_status::Account,
    slots::slots,
    tally::{Tally, tallies},
    wake::Wake,
};

/// What to do now.
#[must_use]
pub fn plan(seen: &Observed, now: Moment) -> Plan {
    if seen.set.deleting {
        return Plan::default();
    }
    let mut wake = Wake::after(now);
    let holds = Holds::of(seen);
    let census = Census::take(seen);
    let roles = Roles::decide(seen, &census, &holds, &mut wake, now);
    let slots = slots(seen, &census, &roles, now);
    let Moves { creations, deletions, stuck } = moves(seen, &census, &roles, &slots, &holds, &mut wake, now);
    let tallies = tallies(seen, &census, &roles, &slots, now);
    let account =
        Account { seen, roles: &roles, slots: &slots, tallies: &tallies, holds: &holds, stuck, now };
    let (status, progress) = account.status();
    let mut plan = Plan { creations, deletions, stuck, ..Plan::default() };
    plan.create_replica_set = roles.up_to_date.is_none() && !holds.unnamable;
    plan.roles_changed = parts(&status) != parts(&seen.set.status);
    plan.labels = labels(seen, &census, &roles);
    plan.replica_set_statuses = replica_set_statuses(seen, &roles, &tallies, &holds, &plan, now);
    plan.restore_template = roles
        .failed
        .as_ref()
        .filter(|_| !account.holds_on_failure())
        .and(roles.active)
        .map(|active| active.name.clone());
    plan.drop_annotations = over(seen, &roles);
    plan.events = events::events(seen, &roles, &status, &progress, &plan);
    plan.status = (status != seen.set.status).then_some(status);
    retention::tend(seen, &roles, &tallies, &mut plan, &mut wake, now);
    plan.next = wake.next();
    plan
}

/// Which replica set has which part, and where.
fn parts(status: &ExtendedDaemonSetStatus) -> (&str, Option<(&str, &[String])>) {
    let canary = status.canary.as_ref().map(|canary| (canary.replica_set.as_str(), &canary.nodes[..]));
    (&status.active_replica_set, canary)
}

/// Annotations that speak of a canary which is over. The word that validated one goes too: a template's replica set has the same
/// name each time, so it would validate the next trial of the template as well.
fn over(seen: &Observed, roles: &Roles<'_>) -> Vec<&'static str> {
    let ended = seen.set.strategy.canary.is_some() && roles.trial.is_none() && roles.up_to_date.is_some();
    let words = [
        keys::EDS_CANARY_PAUSED,
        keys::EDS_CANARY_PAUSED_REASON,
        keys::EDS_CANARY_UNPAUSED,
        keys::EDS_CANARY_VALID,
    ];
    words.into_iter().filter(|key| ended && seen.set.annotations.contains_key(*key)).collect()
}

/// The canary's pods carry its label, and no others.
fn labels(seen: &Observed, census: &Census<'_>, roles: &Roles<'_>) -> Vec<CanaryLabel> {
    let trial = roles.trial.as_ref();
    census
        .pods()
        .filter(|resident| resident.can_go() && !standing::is_terminal(resident.facts()))
        .filter_map(|resident| {
            let facts = resident.facts();
            let on = trial.is_some_and(|trial| {
                let own = matches!(resident.tie, Tie::Owned(owner) if seen.replica_sets[owner].name == trial.replica_set.name);
                own && facts.node.as_deref().is_some_and(|node| trial.has(node))
            });
            (on != facts.canary_label).then(|| CanaryLabel { pod: facts.name.clone(), on })
        })
        .collect()
}

fn replica_set_statuses(
    seen: &Observed,
    roles: &Roles<'_>,
    tallies: &[Tally],
    holds: &Holds,
    plan: &Plan,
    now: Moment,
) -> Vec<(String, ExtendedDaemonSetReplicaSetStatus)> {
    let mut statuses = Vec::new();
    for (replica_set, tally) in seen.replica_sets.iter().zip(tallies) {
        if replica_set.controller == Controller::Another || replica_set.deleting {
            continue;
        }
        let active = roles.active.is_some_and(|active| active.name == replica_set.name);
        let trial = roles.trial.as_ref().filter(|trial| trial.replica_set.name == replica_set.name);
        let deeds = deeds(plan, roles, replica_set, active);
        let status =
            replica_set_status::status(replica_set, tally, deeds, seen.refusal.as_ref(), now, |conditions| {
                if active {
                    replica_set_status::mark_active(conditions, holds)
                } else if let Some(trial) = trial {
                    replica_set_status::mark_canary(conditions, &trial.health)
                } else {
                    replica_set_status::mark_unknown(conditions)
                }
            });
        statuses.extend(status.map(|status| (replica_set.name.clone(), status)));
    }
    statuses
}

/// What the plan does in the name of a replica set: the one on trial answers for its nodes, the active one for all others.
fn deeds(plan: &Plan, roles: &Roles<'_>, replica_set: &ReplicaSetFacts, active: bool) -> Deeds {
    let mut deeds = Deeds {
        creates: plan.creations.iter().any(|creation| creation.replica_set == replica_set.name),
        ..Deeds::default()
    };
    for deletion in &plan.deletions {
        let tried = roles.trial.as_ref().filter(|trial| trial.has(&deletion.node));
        if tried.map_or(active, |trial| trial.replica_set.name == replica_set.name) {
            deeds.deletes = true;
            deeds.cleans |= !matches!(deletion.why, Why::Outdated | Why::Overrides);
        }
    }
    deeds
}
