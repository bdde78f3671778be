//! Who keeps one ExtendedDaemonSet: looks when something has changed, asks the planner, and does what it says.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use podwright_api::{Moment, eds::ExtendedDaemonSet, keys};
use podwright_core::rollout::{
    Fingerprint,
    plan::{self, Plan, PodFacts, Refusal},
};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Context, metrics::Shown, migration::Migration, observe::Complaint, shelf::Key, takeovers::OldDaemonSet,
    world::View, writes::WriteError,
};

/// How long changes are gathered at least, and at most when planning takes long: many pods change at a time, and planning for
/// each of them would only take the time from those who make them.
const GATHER: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));
/// How many times as long as planning takes nothing is planned.
const REST: u32 = 4;
/// How often a status is written while only its figures change.
const STATUS: Duration = Duration::from_millis(500);
/// How many pods of one ExtendedDaemonSet are created or deleted at a time.
const AT_ONCE: usize = 64;
/// When to try again after a write that was refused: twice as late each time.
const REFUSED: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));

/// What became of a write that nobody waited for.
pub(super) enum Outcome {
    /// A pod for this node.
    Created(String, Result<(), WriteError>),
    /// A pod with this uid.
    Deleted(String, Result<(), WriteError>),
    /// A pod got or lost its label.
    Labelled(Result<(), WriteError>),
    /// Statuses.
    Stored(Result<(), WriteError>),
    /// An event was published, or not.
    Told,
}

/// What may be refused, each for reasons of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Create,
    Delete,
    Label,
    CreateReplicaSet,
    Write,
}

/// Keeps one ExtendedDaemonSet.
pub(super) struct Keeper {
    pub(super) key: Key,
    pub(super) context: Arc<Context>,
    pub(super) running: JoinSet<Outcome>,
    pub(super) permits: Arc<Semaphore>,
    /// Pods that are being created, by node.
    pub(super) creating: HashMap<String, Arc<PodFacts>>,
    /// Pods whose deletion was asked for and is not seen yet, by uid.
    pub(super) deleting: HashSet<String>,
    pub(super) refusal: Option<(Deed, Refusal)>,
    refusals: u32,
    /// How long planning took last.
    planning: Duration,
    pub(super) statuses_stored: Option<Instant>,
    /// Statuses are being stored in the background.
    pub(super) storing: bool,
    pub(super) migration: Option<Migration>,
    /// The template's, of this uid and generation.
    pub(super) fingerprint: Option<((String, i64), Arc<Fingerprint>)>,
    /// What was told about overrides that cannot be used.
    pub(super) complaints: HashSet<Complaint>,
    /// The replica set that is being rolled out, and since when.
    pub(super) rollout: Option<(String, Instant)>,
    /// What is shown of the active replica set, while we keep it.
    shown: Option<Shown>,
}

impl Keeper {
    pub(super) fn new(key: Key, context: Arc<Context>) -> Self {
        Self {
            key,
            context,
            running: JoinSet::new(),
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            creating: HashMap::new(),
            deleting: HashSet::new(),
            refusal: None,
            refusals: 0,
            planning: Duration::ZERO,
            statuses_stored: None,
            storing: false,
            migration: None,
            fingerprint: None,
            complaints: HashSet::new(),
            rollout: None,
            shown: None,
        }
    }

    /// Runs until the ExtendedDaemonSet is gone, or until cancelled; writes that are under way are finished.
    pub(super) async fn run(mut self, woken: Arc<Notify>, cancel: CancellationToken) {
        let mut next: Option<Instant> = None;
        loop {
            let clock = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = cancel.cancelled() => break,
                () = woken.notified() => {}
                Some(done) = self.running.join_next() => self.settle(done.ok()),
                () = clock => {}
            }
            while let Some(done) = self.running.try_join_next() {
                self.settle(done.ok());
            }
            if !self.context.pen.leadership.is_current() {
                // Whoever leads then knows better what became of it.
                (next, self.refusal, self.migration, self.shown) = (None, None, None, None);
                if !self.context.world.has(&self.key) {
                    break;
                }
                continue;
            }
            let Some(view) = self.context.world.view(&self.key) else { break };
            next = self.step(&view).await;
            let rest = (self.planning * REST).clamp(GATHER.0, GATHER.1);
            if cancel.run_until_cancelled(tokio::time::sleep(rest)).await.is_none() {
                break;
            }
        }
        while let Some(done) = self.running.join_next().await {
            self.settle(done.ok());
        }
    }

    /// Looks once, and does what is to be done; when to look again though nothing happens.
    async fn step(&mut self, view: &View) -> Option<Instant> {
        if self.follow_annotation(&view.set) || view.old_daemon_set == OldDaemonSet::Unseen {
            // Where its pods are is told at once; before that a node that looks empty may not be. What was seen before the takeover
            // began or ended says nothing of it.
            return None;
        }
        let now = Moment::from(jiff::Timestamp::now());
        let began = Instant::now();
        let observed = self.observe(view, now);
        let plan = plan::plan(&observed, now);
        self.planning = began.elapsed();
        self.context.metrics.planned(self.planning);
        self.note_progress(view, &plan);
        let again = self.enact(view, plan.clone()).await;
        let clock = plan.next.map(|at| Instant::now() + at.since(now));
        again.into_iter().chain(clock).min()
    }

    /// Takes over from a DaemonSet while the annotation names one. Whether that begins or ends now: then we are woken again.
    fn follow_annotation(&mut self, set: &ExtendedDaemonSet) -> bool {
        let named = set.metadata.annotations.as_ref().and_then(|all| all.get(keys::EDS_OLD_DAEMONSET));
        let named = named.map(String::as_str).filter(|name| !name.is_empty());
        let changes = self.migration.as_ref().map(|migration| migration.daemon_set.as_str()) != named;
        if changes {
            let start = |name| {
                let (client, world) = (self.context.pen.client.clone(), self.context.world.clone());
                Migration::start(client, world, self.key.clone(), name)
            };
            self.migration = named.map(start);
        }
        changes
    }

    /// Takes note of what became of a write.
    pub(super) fn settle(&mut self, done: Option<Outcome>) {
        let (deed, what, result) = match done {
            Some(Outcome::Created(node, result)) => {
                self.creating.remove(&node);
                (Deed::Create, "create a pod", result)
            }
            Some(Outcome::Deleted(uid, result)) => {
                if result.is_err() {
                    self.deleting.remove(&uid);
                }
                (Deed::Delete, "delete a pod", result)
            }
            Some(Outcome::Labelled(result)) => (Deed::Label, "label a pod", result),
            Some(Outcome::Stored(result)) => {
                self.storing = false;
                // If it came too late, the watch will tell of what we did not know.
                let stale = result.as_ref().is_err_and(|error| error.is_conflict() || error.is_gone());
                (Deed::Write, "store the status", if stale { Ok(()) } else { result })
            }
            Some(Outcome::Told) => return,
            // A task that panicked has said so; what it was doing is looked at anew.
            None => {
                self.creating.clear();
                self.deleting.clear();
                self.storing = false;
                return;
            }
        };
        match result {
            Ok(()) => self.accepted(deed),
            Err(WriteError::NotLeading) => {}
            Err(error) => self.refused(deed, what, &error),
        }
    }

    /// Whether enough time has passed since such a thing was refused.
    pub(super) fn may_try(&self, deed: Deed) -> bool {
        let now = Moment::from(jiff::Timestamp::now());
        self.refusal.as_ref().is_none_or(|(refused, refusal)| *refused != deed || refusal.until <= now)
    }

    /// Notes that the API server takes such things again.
    pub(super) fn accepted(&mut self, deed: Deed) {
        if self.refusal.as_ref().is_some_and(|(refused, _)| *refused == deed) {
            (self.refusal, self.refusals) = (None, 0);
        }
    }

    /// Notes that the API server did not take something, and until when nothing is tried.
    pub(super) fn refused(&mut self, deed: Deed, what: &str, error: &WriteError) {
        self.context.metrics.failures.inc();
        let now = Moment::from(jiff::Timestamp::now());
        if self.refusal.as_ref().is_some_and(|(_, refusal)| refusal.until > now) {
            // Of many that were under way at a time.
            return;
        }
        let wait = (REFUSED.0 * 2_u32.saturating_pow(self.refusals.min(10))).min(REFUSED.1);
        self.refusals += 1;
        let text = error.text();
        tracing::warn!(extended_daemon_set = %self.key, error = %text, retry_in = ?wait, "failed to {what}");
        self.refusal =
            Some((deed, Refusal { message: format!("cannot {what}: {text}"), until: now.plus(wait) }));
    }

    /// Whether statuses of which only the figures have changed may be written, else when.
    pub(super) fn statuses_due(&self) -> Result<(), Instant> {
        match self.statuses_stored.map(|at| at + STATUS) {
            Some(due) if due > Instant::now() => Err(due),
            _ => Ok(()),
        }
    }

    /// Measures how long a new template takes until it is everywhere, and tells who is stuck.
    fn note_progress(&mut self, view: &View, plan: &Plan) {
        let stored = view.set.status.clone().unwrap_or_default();
        let status = plan.status.as_ref().unwrap_or(&stored);
        let active = &status.active_replica_set;
        if active.is_empty() {
            self.shown = None;
            return;
        }
        if *active != stored.active_replica_set {
            self.rollout = Some((active.clone(), Instant::now()));
        }
        let done = status.up_to_date == status.desired && status.available >= status.desired;
        if let Some((_, since)) =
            self.rollout.take_if(|(rolled, _)| rolled == active && done && status.desired > 0)
        {
            self.context.metrics.rolled_out(since.elapsed());
        }
        let active = Key::new(&self.key.namespace, active);
        self.context.metrics.show_stuck(&mut self.shown, &active, plan.stuck);
    }
}

#[cfg(test)]
mod tests;
