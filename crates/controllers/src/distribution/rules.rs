//! One rule at a time: what is known, what the core makes of it, and its status.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    api::core::v1::Node,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        Controller,
        controller::{Action, Config as ControllerConfig},
        events::{Recorder, Reporter},
        reflector::ObjectRef,
    },
};
use podwright_api::distributor::{PodDistributor, PodDistributorStatus};
use podwright_core::{
    distribution::{Finding, Ledger, Observed, Plan, plan},
    registration,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Distribution, census, enact,
    memory::{RuleId, RuleKey},
};
use crate::{caches::Subscription, capacity::elections, nodes, pace::Pace};

const RETRY: Duration = Duration::from_secs(3);
/// Many pods change at a time: a rule is looked after no more often than this, and no less when there is cause.
const PAUSE: Duration = Duration::from_millis(300);
/// How long to wait for caches that are not filled yet.
const UNREADY: Duration = Duration::from_millis(500);
/// How many rules are looked after at once.
const CONCURRENCY: u16 = 8;

/// What all reconciliations share.
pub(super) struct Context {
    pub(super) distribution: Distribution,
    pub(super) recorder: Recorder,
    pace: Pace<RuleKey>,
}

pub(super) async fn run(
    distribution: Distribution,
    changes: Subscription<PodDistributor>,
    (nodes, deleted_nodes): (Subscription<Node>, mpsc::UnboundedReceiver<()>),
    pods: mpsc::UnboundedReceiver<String>,
    cancel: CancellationToken,
) {
    let reporter = Reporter { controller: "podwright".to_owned(), instance: None };
    let store = distribution.census.caches.rules.clone();
    let concerned = concerned_rules(pods, distribution.census.clone());
    let elections = elections(distribution.leadership.clone());
    let recorder = Recorder::new(distribution.client.clone(), reporter);
    let context = Arc::new(Context { distribution, recorder, pace: Pace::new(PAUSE) });
    let known_nodes = context.distribution.census.caches.nodes.clone();
    Controller::for_shared_stream(changes, store)
        .with_config(ControllerConfig::default().concurrency(CONCURRENCY))
        .reconcile_on(concerned)
        .reconcile_all_on(nodes::placement_changes(nodes, known_nodes))
        .reconcile_all_on(futures::stream::unfold(deleted_nodes, |mut deleted| async move {
            deleted.recv().await.map(|()| ((), deleted))
        }))
        .reconcile_all_on(elections)
        .graceful_shutdown_on(cancel.cancelled_owned())
        .run(reconcile, failed, context)
        .for_each(|_| std::future::ready(()))
        .await;
}

/// The rules of the namespaces in which pods or rules change.
fn concerned_rules(
    pods: mpsc::UnboundedReceiver<String>,
    census: super::Census,
) -> impl futures::Stream<Item = ObjectRef<PodDistributor>> + Send + 'static {
    let namespaces = futures::stream::unfold(pods, |mut pods| async move {
        let mut namespaces = HashSet::from([pods.recv().await?]);
        while let Ok(another) = pods.try_recv() {
            namespaces.insert(another);
        }
        Some((namespaces, pods))
    });
    let changed =
        futures::stream::unfold(
            census.clone(),
            |census| async move { Some((census.changed().await, census)) },
        );
    futures::stream::select(namespaces, changed).flat_map(move |namespaces| {
        let rules = namespaces.iter().filter_map(|namespace| census.rules(namespace));
        let keys: Vec<_> = rules
            .flat_map(|rules| {
                rules
                    .iter()
                    .map(|rule| ObjectRef::new(&rule.name).within(&rule.namespace))
                    .collect::<Vec<_>>()
            })
            .collect();
        futures::stream::iter(keys)
    })
}

async fn reconcile(object: Arc<PodDistributor>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let namespace = object.namespace().unwrap_or_default();
    let Distribution { census, leadership, config, memory, readiness, metrics, .. } = &context.distribution;
    let key = (namespace, object.name_any());
    if !leadership.is_current() || !registration::admits(config, &key.0) {
        memory.forget(&key, metrics);
        return Ok(Action::await_change());
    }
    if !readiness.unmet().is_empty() {
        return Ok(Action::requeue(UNREADY));
    }
    if let Err(early) = context.pace.enter(&key) {
        return Ok(Action::requeue(early));
    }
    let id = RuleId { key: key.clone(), uid: object.uid().unwrap_or_default() };
    let is_there = || census.has(&id.key, &id.uid);
    let rule = census::rule(&object);
    let rules = census.rules(&key.0).unwrap_or_else(|| Arc::from([]));
    let ledger = Ledger::read(&rule.status.reserved);
    let view = census.roster.view(&key.0, ledger.ids());
    let seen = |ticket: &str| view.seen.get(ticket).copied();
    let (members, rooms) = (census.members(&rule, &view.groups), census.rooms());
    let now = jiff::Timestamp::now();
    let history = memory.history(&key);
    let plan = plan(&Observed {
        rule: &rule,
        rivals: &census.rivals(&rule, &rules),
        members: &members,
        nodes: &rooms,
        ledger_quiet: ledger.outstanding(seen) == 0,
        history: &history,
        now: now.as_second(),
    });
    memory.show(&id, &plan, metrics, is_there);
    context.report(&object, &plan).await?;
    let mut history = plan.history.clone();
    let enacted = enact::all(&context, &object, &plan, &mut history, now.as_second()).await;
    memory.remember(&id, history, is_there);
    enacted?;
    let tidied = context.tidy(&object, ledger, seen, now.as_millisecond()).await?;
    let wake = plan.wake_at.map(|at| (at - now.as_second()).max(1) * 1000);
    Ok([wake, tidied].into_iter().flatten().min().map_or_else(Action::await_change, |millis| {
        Action::requeue(Duration::from_millis(u64::try_from(millis).unwrap_or_default()).max(PAUSE))
    }))
}

fn failed(rule: Arc<PodDistributor>, error: &kube::Error, context: Arc<Context>) -> Action {
    let (namespace, name) = (rule.namespace().unwrap_or_default(), rule.name_any());
    tracing::warn!(%namespace, %name, %error, "failed to look after a PodDistributor");
    context.distribution.metrics.failures.inc();
    Action::requeue(RETRY)
}

impl Context {
    /// Writes the status if it has changed, and tells what has.
    async fn report(&self, object: &PodDistributor, plan: &Plan) -> Result<(), kube::Error> {
        let before = object.status.clone().unwrap_or_default();
        let after = PodDistributorStatus {
            conditions: plan.conditions.iter().map(|finding| condition(object, finding)).collect(),
            reserved: before.reserved.clone(),
            ..plan.status.clone()
        };
        if before == after || !self.distribution.leadership.is_current() {
            return Ok(());
        }
        let api: Api<PodDistributor> =
            Api::namespaced(self.distribution.client.clone(), &object.namespace().unwrap_or_default());
        let patch = json!({"status": difference(&before, &after)});
        api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        for notice in &plan.events {
            enact::tell(self, object, notice.warning, notice.reason, &notice.message).await;
        }
        Ok(())
    }

    /// Takes out of the ledger what nobody needs any more, once no places have been given for a while: the replicas that give them
    /// do it in passing. Tells when to look again, in milliseconds.
    async fn tidy(
        &self,
        object: &PodDistributor,
        before: Ledger,
        seen: impl Fn(&str) -> Option<i64>,
        now: i64,
    ) -> Result<Option<i64>, kube::Error> {
        let mut after = before.clone();
        after.tidy(&seen, now);
        if after != before && self.distribution.leadership.is_current() {
            let api: Api<PodDistributor> =
                Api::namespaced(self.distribution.client.clone(), &object.namespace().unwrap_or_default());
            let patch = json!({
                "metadata": {"resourceVersion": object.resource_version()}, "status": {"reserved": after.write()},
            });
            match api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
                // Whoever was faster has tidied up too, or the watch will tell and it is tried again.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                written => {
                    written?;
                }
            }
        }
        Ok(after.due(&seen).map(|due| (due - now).max(0)))
    }
}

/// What a merge patch has to say: fields that are gone are null.
fn difference(before: &PodDistributorStatus, after: &PodDistributorStatus) -> Value {
    let read = |status: &PodDistributorStatus| serde_json::to_value(status).unwrap_or_default();
    let (before, mut after) = (read(before), read(after));
    if let (Some(before), Some(after)) = (before.as_object(), after.as_object_mut()) {
        for key in before.keys().filter(|key| *key != "reserved") {
            after.entry(key).or_insert(Value::Null);
        }
        // The ledger is written by compare-and-swap only.
        after.remove("reserved");
    }
    after
}

/// The condition as it should be. It keeps its time while it stays as it is.
fn condition(object: &PodDistributor, finding: &Finding) -> Condition {
    let status = match finding.holds {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    let before = object.status.iter().flat_map(|status| &status.conditions);
    let since = before
        .filter(|before| before.type_ == finding.kind && before.status == status)
        .map(|before| before.last_transition_time.clone())
        .next();
    Condition {
        type_: finding.kind.to_owned(),
        status: status.to_owned(),
        reason: finding.reason.to_owned(),
        message: finding.message.clone(),
        observed_generation: object.metadata.generation,
        last_transition_time: since.unwrap_or_else(|| Time(jiff::Timestamp::now())),
    }
}
