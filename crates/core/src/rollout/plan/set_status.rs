//! The status of the ExtendedDaemonSet.

use podwright_api::{
    Moment,
    eds::{
        ExtendedDaemonSetStatus as Status, find_condition,
        words::{condition, reason, state},
    },
};

use super::{
    canary::Trial,
    conditions::Conditions,
    holds::Holds,
    observed::{NodeChoice, Observed},
    replica_set_status::count,
    roles::Roles,
    slots::Slot,
    tally::Tally,
};
use crate::node;

/// How far it has come, in the words of tools that wait on any object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) ready: bool,
    /// Why it is not ready, in a word and a sentence.
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// Whether it will not get there by itself.
    pub(super) stalled: bool,
}

/// What the status is made of.
pub(super) struct Account<'a, 'o> {
    pub(super) seen: &'a Observed,
    pub(super) roles: &'a Roles<'o>,
    pub(super) slots: &'a [Slot<'o>],
    pub(super) tallies: &'a [Tally],
    pub(super) holds: &'a Holds,
    pub(super) stuck: bool,
    pub(super) now: Moment,
}

impl Account<'_, '_> {
    fn tally(&self, name: &str) -> Tally {
        let place = self.seen.replica_sets.iter().position(|replica_set| replica_set.name == name);
        place.and_then(|place| self.tallies.get(place)).cloned().unwrap_or_default()
    }

    /// The whole status.
    pub(super) fn status(&self) -> (Status, Progress) {
        let stored = &self.seen.set.status;
        let progress = self.progress();
        let active = self.roles.active.map(|active| (active.name.as_str(), self.tally(&active.name)));
        let sum = |figure: fn(&Tally) -> usize| count(self.tallies.iter().map(figure).sum());
        let (name, tally) = active.unwrap_or_default();
        let mut status = Status {
            desired: count(tally.desired),
            current: sum(|tally| tally.current),
            ready: sum(|tally| tally.ready),
            available: sum(|tally| tally.available),
            up_to_date: count(tally.current),
            ignored_unresponsive_nodes: count(tally.unresponsive),
            state: self.state().to_owned(),
            active_replica_set: name.to_owned(),
            canary: None,
            reason: String::new(),
            conditions: Vec::new(),
            observed_generation: Some(self.seen.set.generation),
        };
        if let Some(trial) = &self.roles.trial {
            let tried = self.tally(&trial.replica_set.name);
            status.desired += count(tried.desired);
            status.up_to_date = count(tried.current);
            status.ignored_unresponsive_nodes += count(tried.unresponsive);
            status.canary = Some(trial.status());
            status.reason =
                trial.health.paused.as_ref().map(|cause| cause.reason.clone()).unwrap_or_default();
        }
        let mut conditions = Conditions::of(&stored.conditions, self.now);
        self.mark(&mut conditions, &progress);
        self.mark_canary(&mut conditions);
        status.conditions = conditions.finish();
        (status, progress)
    }

    fn state(&self) -> &'static str {
        if self.roles.failed.is_some() {
            return state::CANARY_FAILED;
        }
        let trial = self.roles.trial.as_ref().map(|trial| trial.health.paused.is_some());
        if self.holds.frozen {
            state::ROLLOUT_FROZEN
        } else if let Some(paused) = trial {
            if paused { state::CANARY_PAUSED } else { state::CANARY }
        } else if self.holds.paused {
            state::ROLLING_UPDATE_PAUSED
        } else {
            state::RUNNING
        }
    }

    /// What is known of the canary, in the words of the Go controller.
    fn mark_canary(&self, conditions: &mut Conditions) {
        let newest = self.roles.up_to_date.map_or("", |newest| newest.name.as_str());
        let failed = format!("canary failed with ers: {newest}");
        conditions.set(condition::CANARY_FAILED, self.roles.failed.is_some(), reason::CANARY_FAILED, &failed);
        let trial = self.roles.trial.as_ref();
        let paused = trial.and_then(|trial| Some((trial, trial.health.paused.as_ref()?)));
        let (why, what) = paused
            .map(|(trial, cause)| {
                (cause.reason.as_str(), format!("canary paused with ers: {}", trial.replica_set.name))
            })
            .unwrap_or_default();
        conditions.set(condition::CANARY_PAUSED, paused.is_some(), why, &what);
        let few = trial.filter(|trial| trial.nodes.len() < trial.wanted);
        let what = few.map(|trial| too_few(trial)).unwrap_or_default();
        conditions.set(condition::CANARY_TOO_FEW_NODES, few.is_some(), "TooFewNodes", &what);
    }

    fn mark(&self, conditions: &mut Conditions, progress: &Progress) {
        let generation = self.seen.set.generation;
        let refused = self.seen.refusal.as_ref().map(|refusal| refusal.message.clone());
        let trouble = self.spec_trouble().or(refused);
        conditions.set(
            condition::RECONCILE_ERROR,
            trouble.is_some(),
            "",
            trouble.as_deref().unwrap_or_default(),
        );
        let Progress { ready, reason, message, stalled } = progress;
        let under_way = !ready && !stalled;
        conditions.state(condition::READY, *ready, reason, message, generation);
        conditions.state(
            condition::RECONCILING,
            under_way,
            reason,
            if under_way { message } else { "" },
            generation,
        );
        conditions.state(
            condition::STALLED,
            *stalled,
            reason,
            if *stalled { message } else { "" },
            generation,
        );
    }

    /// What is wrong with the spec.
    fn spec_trouble(&self) -> Option<String> {
        self.holds.unclear().then(|| self.holds.troubles.join("; "))
    }

    /// What keeps it from being ready.
    fn progress(&self) -> Progress {
        let (stalled, reason, message) = self.trouble().map_or_else(
            || {
                let (reason, message) = self.work();
                (false, reason, message.to_owned())
            },
            |(reason, message)| (true, reason, message),
        );
        Progress { ready: reason == UP_TO_DATE, reason, message, stalled }
    }

    /// What will not pass by itself.
    fn trouble(&self) -> Option<(&'static str, String)> {
        if let Some(trouble) = self.spec_trouble() {
            return Some(("InvalidSpec", trouble));
        }
        if let Some(refusal) = &self.seen.refusal {
            return Some(("Refused", refusal.message.clone()));
        }
        if let Some(message) = self.idle_selector() {
            return Some(("SelectorSelectsNoNode", message));
        }
        if let Some(cause) = self.roles.failed.as_ref().filter(|_| self.holds_on_failure()) {
            let message = format!(
                "the canary of the newest template failed ({}: {}); the active one is held, and the spec left as it is",
                cause.reason, cause.message
            );
            return Some(("CanaryFailed", message));
        }
        let zero = self.seen.set.strategy.max_unavailable.is_zero();
        (zero && self.stuck).then(|| {
            let message = "maxUnavailable is 0, so no pod that works is ever replaced: set it to 1 or more";
            ("NothingMayBeUnavailable", message.to_owned())
        })
    }

    /// Whether the spec stays as the user wrote it when its canary has failed.
    pub(super) fn holds_on_failure(&self) -> bool {
        self.seen.set.strategy.canary.as_ref().is_some_and(|canary| canary.hold_on_failure)
    }

    /// The selector selects nodes, though DaemonSets have taught people that it selects pods.
    fn idle_selector(&self) -> Option<String> {
        let NodeChoice::Matching(selector) = &self.seen.set.selector else {
            return None;
        };
        let any = self.seen.nodes.iter().any(|node| node::selects(selector, &node.labels));
        if any || self.seen.nodes.is_empty() {
            return None;
        }
        let meant_for_pods = node::selects(selector, &self.seen.set.template_labels);
        let hint = if meant_for_pods {
            ", though it matches the template's labels: remove it to run on every node"
        } else {
            ""
        };
        Some(format!("spec.selector selects nodes by their labels, and no node has them{hint}"))
    }

    /// What a missing pod means: the end of what has been begun, or trouble.
    fn waiting(&self) -> (&'static str, &'static str) {
        let stored = find_condition(&self.seen.set.status.conditions, condition::READY);
        match stored.map(|known| known.reason.as_str()) {
            None => FIRST_PODS,
            Some(reason) if reason == FIRST_PODS.0 => FIRST_PODS,
            Some(reason) if reason == ROLLING_UPDATE.0 => ROLLING_UPDATE,
            Some(_) => ("WaitingForPods", "not every node has an available pod"),
        }
    }

    /// What is being done.
    fn work(&self) -> (&'static str, &'static str) {
        let wanted = || self.slots.iter().filter(|slot| slot.wanted());
        let outdated = wanted()
            .any(|slot| slot.standing.occupant.as_ref().is_some_and(|occupant| occupant.outdated.is_some()));
        let missing = wanted().any(|slot| !slot.standing.available());
        if self.roles.up_to_date.is_none() {
            ("NewTemplate", "the replica set of the newest template is about to be made")
        } else if self.holds.frozen && (outdated || missing || !self.roles.settled()) {
            ("Frozen", "the rollout is frozen by an annotation: no pod is created or deleted")
        } else if self.roles.failed.is_some() {
            (
                "CanaryFailed",
                "the canary of the newest template failed, and the active template is put back into the spec",
            )
        } else if let Some(trial) = &self.roles.trial {
            if trial.health.paused.is_some() {
                ("CanaryPaused", "the canary is paused: validate it, fail it, or let it go on")
            } else {
                ("Canary", "the newest template is tried on a few nodes")
            }
        } else if !self.roles.settled() {
            ("WaitingForCanary", "the newest template waits for its canary")
        } else if outdated && self.holds.paused {
            ("Paused", "the rolling update is paused by an annotation: no pod is replaced")
        } else if outdated && self.stuck {
            (
                "BudgetUsedUp",
                "pods wait to be replaced, and as many nodes as may be are without a working pod already",
            )
        } else if outdated {
            ROLLING_UPDATE
        } else if missing {
            self.waiting()
        } else {
            (UP_TO_DATE, "every node has an available pod of the newest template")
        }
    }
}

const UP_TO_DATE: &str = "UpToDate";
const ROLLING_UPDATE: (&str, &str) = ("RollingUpdate", "pods are being replaced");
const FIRST_PODS: (&str, &str) = ("FirstPods", "pods are being made");

/// Whether a reason that was stored tells of something that a person has begun, rather than of a pod in trouble.
pub(super) fn is_begun(reason: &str) -> bool {
    reason == ROLLING_UPDATE.0 || reason == FIRST_PODS.0
}

pub(super) fn too_few(trial: &Trial<'_>) -> String {
    format!(
        "the canary should run on {} nodes, and only {} can take part; it goes on there",
        trial.wanted,
        trial.nodes.len()
    )
}
