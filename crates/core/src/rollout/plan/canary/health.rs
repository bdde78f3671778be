//! How a trial's pods fare.

use std::{collections::BTreeMap, time::Duration};

use podwright_api::{
    Moment,
    eds::{
        EffectiveCanary, find_condition,
        words::{condition, reason},
    },
    keys,
};

use super::super::{
    observed::{ContainerFacts, PodFacts, ReplicaSetFacts},
    wake::Wake,
};

/// The message of a pause that a person has asked for. It ends when the annotation does.
const BY_ANNOTATION: &str = "paused by annotation";

/// Why, in a word that others know and a sentence that names pod, node and container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Cause {
    pub(in super::super) reason: String,
    pub(in super::super) message: String,
}

/// How the pods fare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Health {
    /// Why the trial fails now.
    pub(in super::super) failed: Option<Cause>,
    /// Why it is paused.
    pub(in super::super) paused: Option<Cause>,
    /// A restart that is not stored yet: when, and why.
    pub(in super::super) restart: Option<(Moment, Cause)>,
    /// Since when its pods are looked at, if that is stored.
    pub(in super::super) began: Option<Moment>,
    /// The newest restart, stored or not.
    pub(in super::super) last_restart: Option<Moment>,
    /// Why a pod cannot start.
    pub(in super::super) cannot_start: Option<Cause>,
}

pub(super) fn examine(
    strategy: &EffectiveCanary,
    replica_set: &ReplicaSetFacts,
    annotations: &BTreeMap<String, String>,
    pods: &[&PodFacts],
    wake: &mut Wake,
    now: Moment,
) -> Health {
    let stored =
        |type_| find_condition(&replica_set.status.conditions, type_).filter(|known| known.is_true());
    let restarting = stored(condition::POD_RESTARTING);
    let known_restart = restarting.and_then(|known| known.last_update_time);
    let restart = pods
        .iter()
        .filter_map(|pod| newest_restart(pod))
        .max_by_key(|(at, _)| *at)
        .filter(|(at, _)| known_restart.is_none_or(|known| known < *at));
    let last_restart = restart.as_ref().map(|(at, _)| *at).or(known_restart);
    let first_restart = restarting.and_then(|known| known.last_transition_time).or(last_restart);
    let cannot_start = pods.iter().find_map(|pod| cannot_start(strategy, pod, wake, now));
    let restarting_for = first_restart.zip(last_restart).map(|(first, last)| last.since(first));
    let began = stored(condition::CANARY).and_then(|known| known.last_transition_time);
    let failed = fails(strategy, pods, restarting_for, began, wake, now);
    let automatic = || {
        let pause = strategy.auto_pause.as_ref()?;
        cannot_start
            .clone()
            .or_else(|| pods.iter().find_map(|pod| too_many_restarts(pod, pause.max_restarts)))
    };
    let paused = pause(stored(condition::CANARY_PAUSED), annotations, automatic).filter(|_| failed.is_none());
    Health { failed, paused, restart, began, last_restart, cannot_start }
}

/// Why it fails, if it does. What depends on the time alone needs no pods.
fn fails(
    strategy: &EffectiveCanary,
    pods: &[&PodFacts],
    restarting_for: Option<Duration>,
    began: Option<Moment>,
    wake: &mut Wake,
    now: Moment,
) -> Option<Cause> {
    let rule = strategy.auto_fail.as_ref()?;
    if let Some(cause) = pods.iter().find_map(|pod| too_many_restarts(pod, rule.max_restarts)) {
        return Some(cause);
    }
    if let Some((longest, lasted)) =
        rule.max_restarts_duration.zip(restarting_for).filter(|(most, is)| is > most)
    {
        return Some(Cause {
            reason: reason::RESTARTS_TIMEOUT_EXCEEDED.to_owned(),
            message: format!("pods went on restarting for {lasted:?}, longer than {longest:?}"),
        });
    }
    let (timeout, began) = rule.timeout.zip(began)?;
    wake.at(began.plus(timeout).plus(Duration::from_millis(1)));
    (now > began.plus(timeout)).then(|| Cause {
        reason: reason::TIMEOUT_EXCEEDED.to_owned(),
        message: format!("the canary has taken longer than {timeout:?}"),
    })
}

/// Why it is paused. A pause without a person's word lasts until a person ends it; one by annotation as long as that.
fn pause(
    stored: Option<&podwright_api::eds::Condition>,
    annotations: &BTreeMap<String, String>,
    automatic: impl FnOnce() -> Option<Cause>,
) -> Option<Cause> {
    let says = |key: &str| annotations.get(key).is_some_and(|value| value == "true");
    let by_person = says(keys::EDS_CANARY_PAUSED).then(|| Cause {
        reason: annotations
            .get(keys::EDS_CANARY_PAUSED_REASON)
            .filter(|reason| !reason.is_empty())
            .map_or_else(|| reason::UNKNOWN.to_owned(), Clone::clone),
        message: BY_ANNOTATION.to_owned(),
    });
    if says(keys::EDS_CANARY_UNPAUSED) {
        return by_person;
    }
    stored
        .filter(|known| known.message != BY_ANNOTATION)
        .map(|known| Cause { reason: known.reason.clone(), message: known.message.clone() })
        .or(by_person)
        .or_else(automatic)
}

fn too_many_restarts(pod: &PodFacts, most: u32) -> Option<Cause> {
    let worst = pod.containers.iter().max_by_key(|container| container.restarts)?;
    (worst.restarts > most).then(|| Cause {
        reason: end_reason(worst),
        message: format!(
            "{}: restarted {} times, last because of {}",
            place(pod, worst),
            worst.restarts,
            end_reason(worst)
        ),
    })
}

/// When a pod restarted last, and why, in the words that others know.
fn newest_restart(pod: &PodFacts) -> Option<(Moment, Cause)> {
    let restarted = pod.containers.iter().filter(|container| container.restarts > 0);
    let (at, container) = restarted
        .filter_map(|container| Some((container.last_end.as_ref()?.at?, container)))
        .max_by_key(|(at, _)| *at)?;
    let reason = end_reason(container);
    Some((at, Cause { message: format!("Pod {} restarting with reason: {reason}", pod.name), reason }))
}

/// Why a pod cannot start, after the time that it has for it.
fn cannot_start(strategy: &EffectiveCanary, pod: &PodFacts, wake: &mut Wake, now: Moment) -> Option<Cause> {
    let patience = strategy.auto_pause.as_ref().and_then(|pause| pause.max_slow_start);
    let until = patience.map(|span| pod.started.unwrap_or(pod.created).plus(span));
    let waiting = |wanted: fn(&str) -> bool| {
        pod.containers.iter().find_map(|container| {
            let reason = container.waiting.as_deref().filter(|reason| wanted(reason))?;
            Some((container, reason))
        })
    };
    let hopeless = waiting(|reason| reason::CANNOT_START.contains(&reason));
    let slow = waiting(|reason| reason == "ContainerCreating").filter(|_| until.is_some());
    let (container, reason) =
        hopeless.or_else(|| slow.map(|(container, _)| (container, reason::SLOW_START_TIMEOUT_EXCEEDED)))?;
    if let Some(until) = until.filter(|until| now <= *until) {
        wake.at(until.plus(Duration::from_millis(1)));
        return None;
    }
    Some(Cause {
        reason: reason.to_owned(),
        message: format!("{}: cannot start with reason {reason}", place(pod, container)),
    })
}

/// Whether each node has a pod that is available.
pub(super) fn all_available(
    pods: &[&PodFacts],
    nodes: &[String],
    min_ready: Duration,
    wake: &mut Wake,
    now: Moment,
) -> bool {
    let available = |pod: &&PodFacts| {
        let Some(at) = pod.ready_since.map(|since| since.plus(min_ready)) else {
            return false;
        };
        wake.at(at);
        min_ready.is_zero() || at <= now
    };
    !nodes.is_empty() && pods.len() == nodes.len() && pods.iter().all(available)
}

fn end_reason(container: &ContainerFacts) -> String {
    let reason =
        container.last_end.as_ref().map(|end| end.reason.as_str()).filter(|reason| !reason.is_empty());
    reason.unwrap_or(reason::UNKNOWN).to_owned()
}

fn place(pod: &PodFacts, container: &ContainerFacts) -> String {
    let node = pod.node.as_deref().unwrap_or_default();
    format!("pod {} on node {node}, container {}", pod.name, container.name)
}
