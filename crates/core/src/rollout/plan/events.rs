//! What a person would ask about, told when it changes.

use podwright_api::{
    eds::{
        Condition, ExtendedDaemonSetStatus as Status, find_condition,
        words::{condition, state},
    },
    keys,
};

use super::{
    action::{Event, Plan, Why},
    observed::Observed,
    roles::Roles,
    set_status::{Progress, is_begun, too_few},
};

/// So many pods are named in an event at most.
const NAMED_PODS: usize = 5;

pub(super) fn events(
    seen: &Observed,
    roles: &Roles<'_>,
    status: &Status,
    progress: &Progress,
    plan: &Plan,
) -> Vec<Event> {
    let mut events = Vec::new();
    let before = &seen.set.status;
    if before.active_replica_set != status.active_replica_set {
        events
            .push(Event::normal("ActiveReplicaSet", format!("{} is now active", status.active_replica_set)));
    }
    let of_canary = |state: &str| state.starts_with(state::CANARY);
    if before.state != status.state
        && !before.state.is_empty()
        && !of_canary(&before.state)
        && !of_canary(&status.state)
    {
        events.push(Event::normal(
            "State",
            format!("the state is now {}, it was {}", status.state, before.state),
        ));
    }
    canary(seen, roles, status, &mut events);
    events.extend(stalled(before, progress));
    let stored = find_condition(&before.conditions, condition::READY);
    if progress.ready && stored.is_some_and(|known| is_begun(&known.reason)) {
        let note = format!("all {} pods are of {} and available", status.desired, status.active_replica_set);
        events.push(Event::normal("UpToDate", note));
    }
    events.extend(failed(plan));
    events
}

/// How the canary goes.
fn canary(seen: &Observed, roles: &Roles<'_>, status: &Status, events: &mut Vec<Event>) {
    let before = &seen.set.status;
    let stored = |type_| find_condition(&before.conditions, type_).is_some_and(Condition::is_true);
    let tried = before.canary.as_ref().map(|canary| canary.replica_set.as_str());
    if let Some(trial) = &roles.trial {
        let name = trial.replica_set.name.as_str();
        if tried != Some(name) {
            events.push(Event::normal(
                "CanaryStarted",
                format!("{name} is tried on {}", trial.nodes.join(", ")),
            ));
        }
        match &trial.health.paused {
            Some(cause) if !stored(condition::CANARY_PAUSED) => {
                events.push(Event::warning(
                    "CanaryPaused",
                    format!("{name}: {} ({})", cause.reason, cause.message),
                ));
            }
            None if stored(condition::CANARY_PAUSED) && tried == Some(name) => {
                events.push(Event::normal("CanaryUnpaused", format!("{name} is tried on")));
            }
            _ => {}
        }
        if trial.nodes.len() < trial.wanted && !stored(condition::CANARY_TOO_FEW_NODES) {
            events.push(Event::warning("CanaryTooFewNodes", too_few(trial)));
        }
    } else if let Some((newest, cause)) = roles.up_to_date.zip(roles.failed.as_ref()) {
        if seen.set.annotations.get(keys::EDS_CANARY_VALID) == Some(&newest.name) {
            let note =
                format!("{} has failed already, and is not validated: change the template", newest.name);
            events.push(Event::warning("CanaryNotValidated", note));
        }
        if !stored(condition::CANARY_FAILED) {
            let note = format!("{}: {} ({})", newest.name, cause.reason, cause.message);
            events.push(Event::warning("CanaryFailed", note));
        }
    } else if tried.is_some_and(|name| name == status.active_replica_set) {
        events.push(Event::normal(
            "CanaryPromoted",
            format!("{} goes to all nodes", status.active_replica_set),
        ));
    }
}

/// Something will not pass by itself.
fn stalled(before: &Status, progress: &Progress) -> Option<Event> {
    let told = |known: &Condition| {
        known.is_true() && known.reason == progress.reason && known.message == progress.message
    };
    let known = find_condition(&before.conditions, condition::STALLED).is_some_and(told);
    (progress.stalled && !known).then(|| Event::warning(progress.reason, progress.message.clone()))
}

/// Pods that failed and are made again.
fn failed(plan: &Plan) -> Option<Event> {
    let mut failed = plan.deletions.iter().filter(|deletion| deletion.why == Why::Failed);
    let named: Vec<String> = failed
        .by_ref()
        .take(NAMED_PODS)
        .map(|deletion| format!("{} on {}", deletion.pod.name, deletion.node))
        .collect();
    let more = failed.count();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| {
        Event::warning("FailedDaemonPod", format!("failed and made again: {}{rest}", named.join(", ")))
    })
}
