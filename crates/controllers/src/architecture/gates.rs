//! Pods that wait: once it is known where they can run, or once they have waited long enough, they come free. Whoever leads
//! does that, from what is on the pod alone, so a new leader goes on where the old one was.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, future::join_all};
use jiff::Timestamp;
use json_patch::{PatchOperation, TestOperation, jsonptr::PointerBuf};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Resource as _, ResourceExt,
    api::{PartialObjectMeta, Patch, PatchParams},
    runtime::{
        Controller, WatchStreamExt,
        controller::{Action, Config as ControllerConfig},
        events::EventType,
        reflector, watcher,
    },
};
use podwright_api::keys;
use podwright_core::{
    mutate::{Facts, Outcome, Review, architecture_record},
    pod::PodView,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Context, DeedLabels, drain::ungate, told::Told};
use crate::capacity::elections;

/// How many pods are looked at at once.
const CONCURRENCY: u16 = 32;
/// How long to wait after a failed request.
const RETRY: Duration = Duration::from_secs(2);
/// Between two looks at a pod that waits.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(30);

type Meta = PartialObjectMeta<Pod>;

/// Why a pod could not be finished.
#[derive(Debug, thiserror::Error)]
enum GateError {
    #[error("failed to {deed} pod {pod}")]
    Request { deed: &'static str, pod: String, source: kube::Error },
    #[error("pod {pod} cannot be read")]
    Unreadable { pod: String, source: serde_json::Error },
}

struct Gates {
    context: Arc<Context>,
    told: Told,
}

/// Runs until cancelled.
pub(super) async fn run(context: Arc<Context>, cancel: CancellationToken) {
    // Before the nodes are known nothing can be said about where a pod runs.
    let mut kinds = context.architecture.lookups.kinds.subscribe();
    if cancel.run_until_cancelled(kinds.wait_for(|known| !known.kinds.is_empty())).await.is_none() {
        return;
    }
    let api: Api<Meta> = Api::all(context.architecture.client.clone());
    let (store, writer) = reflector::store::<Meta>();
    let ours = watcher::Config::default().labels(keys::ARCHITECTURE_STATE);
    let changes = watcher(api, ours).default_backoff().reflect(writer).applied_objects();
    let elections = elections(context.architecture.leadership.clone());
    let gates = Arc::new(Gates { context, told: Told::new(Duration::from_hours(1)) });
    Controller::for_stream(changes, store)
        .with_config(ControllerConfig::default().concurrency(CONCURRENCY))
        .reconcile_all_on(elections)
        .graceful_shutdown_on(cancel.cancelled_owned())
        .run(reconcile, failed, gates)
        // What could not be done has been told by `failed`.
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile(meta: Arc<Meta>, gates: Arc<Gates>) -> Result<Action, GateError> {
    let context = &gates.context;
    if !context.architecture.leadership.is_current() || meta.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    if meta.labels().get(keys::ARCHITECTURE_STATE).is_some_and(|state| state == keys::NO_COMMON_PLATFORM) {
        gates
            .tell_once(&meta, EventType::Warning, "NoCommonPlatform", || {
                let record = meta.annotations().get(keys::ARCHITECTURE);
                architecture_record(record.map_or("", String::as_str))
            })
            .await;
        return Ok(Action::await_change());
    }
    let (namespace, name) = (meta.namespace().unwrap_or_default(), meta.name_any());
    let pod = format!("{namespace}/{name}");
    let raw = context.read(&namespace, &name).await;
    let raw = raw.map_err(|source| GateError::Request { deed: "read", pod: pod.clone(), source })?;
    let Some(raw) = raw else { return Ok(Action::await_change()) };
    let view: PodView = serde::Deserialize::deserialize(&raw)
        .map_err(|source| GateError::Unreadable { pod: pod.clone(), source })?;
    let held = view.spec.scheduling_gates.iter().flatten().any(|gate| gate.name == keys::ARCHITECTURE);
    if !held {
        return Ok(Action::await_change());
    }
    let waited = waited(&meta);
    let deadline = context.architecture.config.architecture.gate.deadline.get();
    let mut outcome = context.decide(&namespace, &view, false).await;
    let in_vain = outcome.patch.is_empty() && waited >= deadline;
    if in_vain {
        outcome = context.decide(&namespace, &view, true).await;
    } else if outcome.patch.is_empty() {
        gates
            .tell_once(&meta, EventType::Warning, "WaitingForPlatforms", || outcome.warnings.join("; "))
            .await;
        return Ok(Action::requeue(pause(waited).min(deadline.saturating_sub(waited)).max(SOONEST / 10)));
    }
    if !context.architecture.leadership.is_current() {
        return Ok(Action::await_change());
    }
    match context.write(&pod, &raw, outcome.patch).await {
        // The deadline holds whatever becomes of the rest.
        Err(error) if waited >= deadline => {
            tracing::warn!(pod, %error, "only the gate is taken off");
            context.write(&pod, &raw, ungate(&raw)).await?;
        }
        written => written?,
    }
    let deed = if in_vain { "expired" } else { "placed" };
    context.architecture.metrics.gates.get_or_create(&DeedLabels { deed }).inc();
    let said = outcome.audit.get("architecture").cloned().unwrap_or_default();
    if in_vain {
        let text = format!("waited {} s in vain: {}", waited.as_secs(), outcome.warnings.join("; "));
        context.tell(&*meta, EventType::Warning, "PlatformsUnknown", &text).await;
    } else {
        context.tell(&*meta, EventType::Normal, "PlatformsKnown", &said).await;
    }
    tracing::info!(pod, deed, said, "a pod that was held back came free");
    Ok(Action::await_change())
}

fn failed(meta: Arc<Meta>, error: &GateError, gates: Arc<Gates>) -> Action {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    tracing::warn!(pod = meta.name_any(), %error, cause, "will try again");
    gates.context.architecture.metrics.failures.inc();
    Action::requeue(RETRY)
}

/// How long a pod has waited since it was created.
fn waited(meta: &Meta) -> Duration {
    let created = meta.meta().creation_timestamp.as_ref();
    created
        .and_then(|created| Duration::try_from(Timestamp::now().duration_since(created.0)).ok())
        .unwrap_or_default()
}

/// The longer it has waited the less often it is looked at.
fn pause(waited: Duration) -> Duration {
    (waited / 4).clamp(SOONEST, LATEST)
}

impl Gates {
    async fn tell_once(&self, meta: &Meta, kind: EventType, reason: &str, text: impl FnOnce() -> String) {
        let key = format!("{} {reason}", meta.uid().unwrap_or_default());
        self.told.once(&key, async { self.context.tell(meta, kind, reason, &text()).await }).await;
    }
}

impl Context {
    async fn decide(&self, namespace: &str, view: &PodView, expired: bool) -> Outcome {
        let mut facts = Facts::default();
        // The kinds of node, then the images.
        for _ in 0..3 {
            match self.mutator.finish(namespace, view, &facts, expired) {
                Review::Done(outcome) => return outcome,
                Review::Needs(lookups) => {
                    let found =
                        join_all(lookups.iter().map(|lookup| self.architecture.lookups.find(lookup))).await;
                    for (lookup, found) in lookups.into_iter().zip(found) {
                        facts.insert(lookup, found.unwrap_or_default());
                    }
                }
            }
        }
        Outcome::skipped()
    }

    /// Writes only onto the pod that was looked at: a change in between makes the patch fail, and the pod is looked at anew.
    async fn write(&self, pod: &str, raw: &Value, operations: Vec<PatchOperation>) -> Result<(), GateError> {
        let unchanged = PatchOperation::Test(TestOperation {
            path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
            value: raw["metadata"]["resourceVersion"].clone(),
        });
        let patch = json_patch::Patch(std::iter::once(unchanged).chain(operations).collect());
        let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
        let api: Api<Pod> = Api::namespaced(self.architecture.client.clone(), namespace);
        let written = api.patch_metadata(name, &PatchParams::default(), &Patch::<()>::Json(patch)).await;
        written.map(|_| ()).map_err(|source| GateError::Request {
            deed: "finish",
            pod: pod.to_owned(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_has_waited_long_is_looked_at_less_often() {
        assert_eq!(pause(Duration::ZERO), SOONEST);
        assert_eq!(pause(Duration::from_secs(20)), Duration::from_secs(5));
        assert_eq!(pause(Duration::from_hours(1)), LATEST);
    }
}
