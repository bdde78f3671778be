//! The status of one replica set.

use podwright_api::{
    Moment,
    eds::{
        ExtendedDaemonSetReplicaSetStatus as Status,
        words::{condition, role},
    },
};

use super::{
    canary::{Cause, Health},
    conditions::Conditions,
    holds::Holds,
    observed::{Refusal, ReplicaSetFacts},
    tally::Tally,
};

/// So many nodes are named in a condition at most.
const NAMED_NODES: usize = 100;

/// What this plan does for a replica set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deeds {
    pub(super) creates: bool,
    pub(super) deletes: bool,
    /// Whether what is deleted had no business where it was.
    pub(super) cleans: bool,
}

/// Its status, if it is another than the stored one. `mark` sets the conditions that belong to its part, and says its name.
pub(super) fn status(
    replica_set: &ReplicaSetFacts,
    tally: &Tally,
    deeds: Deeds,
    refusal: Option<&Refusal>,
    now: Moment,
    mark: impl FnOnce(&mut Conditions) -> &'static str,
) -> Option<Status> {
    let stored = &replica_set.status;
    let mut conditions = Conditions::of(&stored.conditions, now);
    let part = mark(&mut conditions);
    conditions.set(condition::UNSCHEDULE, !tally.without_room.is_empty(), "", &nodes(&tally.without_room));
    if deeds.cleans {
        conditions.set(condition::PODS_CLEANUP_DONE, refusal.is_none(), "", "");
    }
    if deeds.deletes {
        conditions.touch(condition::POD_DELETION, "pods deleted");
    }
    if deeds.creates {
        conditions.touch(condition::POD_CREATION, "pods created");
    }
    let refused = refusal.filter(|_| part != role::UNKNOWN);
    let message = refused.map_or("", |refusal| refusal.message.as_str());
    conditions.set(condition::RECONCILE_ERROR, refused.is_some(), "", message);
    let mut status = Status {
        status: part.to_owned(),
        desired: count(tally.desired),
        current: count(tally.current),
        ready: count(tally.ready),
        available: count(tally.available),
        ignored_unresponsive_nodes: count(tally.unresponsive),
        conditions: conditions.finish(),
    };
    if status == *stored {
        return None;
    }
    // At rest nothing is written: the time of the last sync is that of the last change.
    let mut conditions = Conditions::of(&status.conditions, now);
    conditions.touch(condition::LAST_FULL_SYNC, "full sync");
    status.conditions = conditions.finish();
    Some(status)
}

/// The conditions of the one that is active.
pub(super) fn mark_active(conditions: &mut Conditions, holds: &Holds) -> &'static str {
    for over in [condition::CANARY, condition::CANARY_PAUSED, condition::CANARY_FAILED] {
        conditions.set(over, false, "", "");
    }
    conditions.set(condition::ROLLING_UPDATE_PAUSED, holds.paused, "", "");
    conditions.set(condition::ROLLOUT_FROZEN, holds.frozen, "", "");
    conditions.set(condition::ACTIVE, !holds.paused && !holds.frozen, "", "");
    role::ACTIVE
}

/// The conditions of the one that is tried.
pub(super) fn mark_canary(conditions: &mut Conditions, health: &Health) -> &'static str {
    conditions.set(condition::CANARY, true, "", "");
    conditions.set(condition::ACTIVE, false, "", "");
    let set = |conditions: &mut Conditions, type_: &str, cause: Option<&Cause>| {
        let words = cause.map(|cause| (cause.reason.as_str(), cause.message.as_str())).unwrap_or_default();
        conditions.set(type_, cause.is_some(), words.0, words.1);
    };
    set(conditions, condition::CANARY_FAILED, health.failed.as_ref());
    set(conditions, condition::CANARY_PAUSED, health.paused.as_ref());
    set(conditions, condition::POD_CANNOT_START, health.cannot_start.as_ref());
    if let Some((at, cause)) = &health.restart {
        conditions.touch_at(condition::POD_RESTARTING, &cause.reason, &cause.message, *at);
    }
    if health.failed.is_some() { role::CANARY_FAILED } else { role::CANARY }
}

/// The conditions of one without a part.
pub(super) fn mark_unknown(conditions: &mut Conditions) -> &'static str {
    conditions.set(condition::CANARY, false, "", "");
    conditions.set(condition::ACTIVE, false, "", "");
    role::UNKNOWN
}

fn nodes(names: &[String]) -> String {
    let list = names[..names.len().min(NAMED_NODES)].join(";");
    match names.len().saturating_sub(NAMED_NODES) {
        0 => format!("nodes:{list}"),
        more => format!("nodes:{list};and {more} more"),
    }
}

pub(super) fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
