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

use podwright_api::Moment;

pub use action::{CanaryLabel, Creation, Deleted, Deletion, Event, Plan, PodTemplateChange, Why};
pub use observed::{
    ContainerEnd, ContainerFacts, Controller, NodeChoice, NodeFacts, Observed, ObservedPod, Phase, PodFacts,
    PodOwner, PodTemplateFacts, Refusal, ReplicaSetFacts, SetFacts,
};

use self::{
    census::Census,
    holds::Holds,
    moves::{Moves, moves},
    replica_set_status::Deeds,
    roles::Roles,
    set_status::Account,
    slots::{Slot, slots},
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
    let mut holds = Holds::of(seen);
    // Nothing that is made for it could carry its name.
    holds.frozen |= !set_status::name_fits(&seen.set.name);
    let census = Census::take(seen);
    let roles = Roles::decide(seen);
    let slots = slots(seen, &census, &roles, now);
    let Moves { creations, deletions, stuck } = moves(seen, &census, &slots, holds, &mut wake, now);
    let tallies = tallies(seen, &census, &roles, &slots, now);
    let account = Account { seen, roles: &roles, slots: &slots, tallies: &tallies, holds, stuck, now };
    let (status, progress) = account.status();
    let mut plan = Plan { creations, deletions, stuck, ..Plan::default() };
    plan.create_replica_set = roles.up_to_date.is_none() && !holds.frozen;
    plan.roles_changed = status.active_replica_set != seen.set.status.active_replica_set;
    plan.replica_set_statuses = replica_set_statuses(seen, &roles, &slots, &tallies, holds, &plan, now);
    plan.events = events::events(seen, &status, &progress, &plan);
    plan.status = (status != seen.set.status).then_some(status);
    retention::tend(seen, &roles, &tallies, &mut plan, &mut wake, now);
    plan.next = wake.next();
    plan
}

fn replica_set_statuses(
    seen: &Observed,
    roles: &Roles<'_>,
    slots: &[Slot<'_>],
    tallies: &[Tally],
    holds: Holds,
    plan: &Plan,
    now: Moment,
) -> Vec<(String, podwright_api::eds::ExtendedDaemonSetReplicaSetStatus)> {
    let mut statuses = Vec::new();
    for (replica_set, tally) in seen.replica_sets.iter().zip(tallies) {
        if replica_set.controller == Controller::Another || replica_set.deleting {
            continue;
        }
        let active = roles.active.is_some_and(|active| active.name == replica_set.name);
        let deeds = deeds(plan, slots, &replica_set.name, active);
        let status =
            replica_set_status::status(replica_set, tally, deeds, seen.refusal.as_ref(), now, |conditions| {
                if active {
                    replica_set_status::mark_active(conditions, holds)
                } else {
                    replica_set_status::mark_unknown(conditions)
                }
            });
        statuses.extend(status.map(|status| (replica_set.name.clone(), status)));
    }
    statuses
}

/// What the plan does in the name of a replica set.
fn deeds(plan: &Plan, _slots: &[Slot<'_>], name: &str, active: bool) -> Deeds {
    Deeds {
        creates: plan.creations.iter().any(|creation| creation.replica_set == name),
        deletes: active && !plan.deletions.is_empty(),
        cleans: active
            && plan.deletions.iter().any(|deletion| !matches!(deletion.why, Why::Outdated | Why::Overrides)),
    }
}
