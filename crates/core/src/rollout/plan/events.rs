//! What a person would ask about, told when it changes.

use podwright_api::eds::{Condition, ExtendedDaemonSetStatus as Status, find_condition, words::condition};

use super::{
    action::{Event, Plan, Why},
    observed::Observed,
    set_status::Progress,
};

/// So many pods are named in an event at most.
const NAMED_PODS: usize = 5;

pub(super) fn events(seen: &Observed, status: &Status, progress: &Progress, plan: &Plan) -> Vec<Event> {
    let mut events = Vec::new();
    let before = &seen.set.status;
    if before.active_replica_set != status.active_replica_set {
        events
            .push(Event::normal("ActiveReplicaSet", format!("{} is now active", status.active_replica_set)));
    }
    if before.state != status.state && !before.state.is_empty() {
        events.push(Event::normal(
            "State",
            format!("the state is now {}, it was {}", status.state, before.state),
        ));
    }
    events.extend(stalled(before, progress));
    if progress.ready
        && find_condition(&before.conditions, condition::READY).is_some_and(|known| !known.is_true())
    {
        let note = format!("all {} pods are of {} and available", status.desired, status.active_replica_set);
        events.push(Event::normal("UpToDate", note));
    }
    events.extend(failed(plan));
    events
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
