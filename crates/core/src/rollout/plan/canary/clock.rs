//! When a trial is over.

use std::time::Duration;

use podwright_api::{
    Moment,
    eds::{CanaryStatus, EffectiveCanary, find_condition, words::condition},
};

use super::{
    super::{observed::ReplicaSetFacts, wake::Wake},
    health::Health,
};

/// Whether its time is up: so long after it began, and so long after the last restart. Without a duration it is never. It begins
/// with its part, not with its replica set, which may have waited for it behind a freeze, or be there from an earlier trial.
pub(super) fn is_over(
    strategy: &EffectiveCanary,
    replica_set: &ReplicaSetFacts,
    health: &Health,
    paused_seconds: i64,
    wake: &mut Wake,
    now: Moment,
) -> bool {
    let Some(duration) = strategy.duration else {
        return false;
    };
    let began = health.began.map_or(now, |began| began.max(replica_set.created));
    let lasts = began.plus(duration).plus_seconds(paused_seconds);
    let quiet = health.last_restart.zip(strategy.no_restarts).map(|(last, span)| last.plus(span));
    let end = quiet.map_or(lasts, |quiet| quiet.max(lasts));
    wake.at(end.plus(Duration::from_millis(1)));
    end < now
}

/// Seconds in pauses so far; a pause counts when it is over, and until then as long as it has lasted.
pub(super) fn paused(
    stored: &CanaryStatus,
    replica_set: &ReplicaSetFacts,
    health: &Health,
    now: Moment,
) -> i64 {
    let begun = find_condition(&replica_set.status.conditions, condition::CANARY_PAUSED)
        .filter(|condition| condition.is_true())
        .and_then(|condition| condition.last_transition_time);
    let before = if stored.replica_set == replica_set.name { stored.paused_seconds } else { 0 };
    match begun {
        // While it lasts it is not written down: that would be a write each second.
        Some(begun) if health.paused.is_none() => {
            before.saturating_add(i64::try_from(now.since(begun).as_secs()).unwrap_or(i64::MAX))
        }
        _ => before,
    }
}
