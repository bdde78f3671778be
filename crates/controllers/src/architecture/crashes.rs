//! Pods that fail because of their architecture are told so: the kubelet's own words name neither image nor node.
//!
//! Pods are not watched for that. A kubelet that backs off from a container says so in an event, and only then is the pod read.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt, future::join_all};
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::{
    Api, ResourceExt,
    runtime::{WatchStreamExt, events::EventType, reflector::ObjectRef, watcher},
};
use podwright_core::{
    architecture::{CrashingContainer, NodeKind, Rules, diagnose},
    image::Platforms,
    mutate::{Fact, ImageFact, Lookup, image_lookup},
    pod::PodView,
};
use tokio_util::sync::CancellationToken;

use super::{Context, told::Told};

/// A container that goes on failing is looked at again after this time: its image may have been mended under the same name.
const AGAIN: Duration = Duration::from_mins(10);
/// How many pods are looked at at once.
const CONCURRENCY: usize = 4;

/// Runs until cancelled.
pub(super) async fn run(context: Arc<Context>, cancel: CancellationToken) {
    let api: Api<Event> = Api::all(context.architecture.client.clone());
    let backing_off = watcher::Config::default().fields("reason=BackOff,involvedObject.kind=Pod");
    let told = Arc::new(Told::new(AGAIN));
    let looks = watcher(api, backing_off)
        .default_backoff()
        .applied_objects()
        .inspect_err(|error| tracing::warn!(%error, "failed to watch events"))
        .filter_map(|event| std::future::ready(event.ok()))
        .for_each_concurrent(CONCURRENCY, |event| look(context.clone(), told.clone(), event));
    cancel.run_until_cancelled(looks).await;
}

async fn look(context: Arc<Context>, told: Arc<Told>, event: Event) {
    let about = event.involved_object;
    let (Some(namespace), Some(name), Some(uid)) = (about.namespace, about.name, about.uid) else { return };
    // The event may come before the status that it is about: then the next one is as good.
    if context.architecture.leadership.is_current() {
        told.once(&uid, context.look(&namespace, &name, &uid)).await;
    }
}

impl Context {
    /// Tells what is wrong, if it is the architecture. Gives whether that is done: there was something to look at, and whatever
    /// there was to tell has been told.
    async fn look(&self, namespace: &str, name: &str, uid: &str) -> bool {
        let raw = match self.read(namespace, name).await {
            Ok(Some(raw)) => raw,
            Ok(None) => return true,
            Err(error) => {
                tracing::warn!(namespace, name, %error, "failed to read a pod that fails");
                return false;
            }
        };
        let (Ok(view), Ok(pod)) = (
            <PodView as serde::Deserialize>::deserialize(&raw),
            <Pod as serde::Deserialize>::deserialize(&raw),
        ) else {
            return true;
        };
        let node = view.spec.node_name.clone().unwrap_or_default();
        let kind = self.architecture.lookups.caches.nodes.get(&ObjectRef::new(&node));
        let Some(kind) = kind.and_then(|node| NodeKind::of_labels(node.labels())) else { return false };
        if pod.uid().as_deref() != Some(uid) || self.mutator.runs_in_a_vm(&view) {
            return true;
        }
        let rules: Rules = self.architecture.config.architecture.architectures.clone().into();
        let status = pod.status.clone().unwrap_or_default();
        let failing: Vec<ContainerStatus> = status
            .init_container_statuses
            .into_iter()
            .chain(status.container_statuses)
            .flatten()
            .filter(is_failing)
            .collect();
        let known =
            join_all(failing.iter().map(|status| self.platforms(namespace, &view, &status.name))).await;
        for (status, known) in failing.iter().zip(known) {
            let said = said(status);
            let image = image_of(&view, &status.name).unwrap_or(&status.image);
            let container = CrashingContainer { name: &status.name, image, said: &said };
            let Some(text) = diagnose(container, &node, &kind, known.as_deref(), &rules) else { continue };
            if !self.tell(&pod, EventType::Warning, "WrongArchitecture", &text).await {
                return false;
            }
            self.architecture.metrics.mismatches.inc();
            tracing::info!(pod = %format!("{namespace}/{name}"), "{text}");
        }
        !failing.is_empty()
    }

    async fn platforms(&self, namespace: &str, view: &PodView, container: &str) -> Option<Arc<Platforms>> {
        let lookup = Lookup::Image(Box::new(image_lookup(namespace, view, container)?));
        match self.architecture.lookups.find(&lookup).await {
            Ok(Some(Fact::Image(ImageFact::Offers(platforms)))) => Some(platforms),
            _ => None,
        }
    }
}

fn image_of<'v>(view: &'v PodView, container: &str) -> Option<&'v str> {
    let all = view.spec.init_containers.iter().chain(&view.spec.containers);
    all.filter(|one| one.name == container).find_map(|one| one.image.as_deref())
}

/// Whether the kubelet waits before it tries again, or it has just failed.
fn is_failing(status: &ContainerStatus) -> bool {
    let waits = status.state.as_ref().and_then(|state| state.waiting.as_ref()?.reason.as_deref());
    let failed = [&status.state, &status.last_state].into_iter().flatten();
    let mut failed = failed.filter_map(|state| state.terminated.as_ref());
    matches!(waits, Some("CrashLoopBackOff" | "ImagePullBackOff" | "ErrImagePull" | "RunContainerError"))
        || (!status.ready && failed.any(|ended| ended.exit_code != 0))
}

/// All that the status says about why.
fn said(status: &ContainerStatus) -> String {
    let both = [&status.state, &status.last_state].into_iter().flatten();
    let words = both.flat_map(|state| {
        let ended = state.terminated.as_ref().and_then(|ended| ended.message.clone());
        let waits = state.waiting.as_ref().and_then(|waits| waits.message.clone());
        ended.into_iter().chain(waits)
    });
    words.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(value: serde_json::Value) -> ContainerStatus {
        let mut whole = json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 1});
        whole.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn a_container_fails_when_it_waits_to_be_tried_again_or_has_just_ended_badly() {
        for (value, failing) in [
            (json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}}), true),
            (json!({"state": {"waiting": {"reason": "ImagePullBackOff"}}}), true),
            (json!({"state": {"waiting": {"reason": "ContainerCreating"}}}), false),
            (json!({"state": {"terminated": {"exitCode": 1}}}), true),
            (json!({"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 255}}}), true),
            (
                json!({"state": {"running": {}}, "ready": true, "lastState": {"terminated": {"exitCode": 1}}}),
                false,
            ),
            (json!({"state": {"terminated": {"exitCode": 0}}}), false),
        ] {
            assert_eq!(is_failing(&status(value.clone())), failing, "{value}");
        }
        let told = status(json!({
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "exec /app: exec format error"}},
        }));
        assert_eq!(said(&told), "back-off; exec /app: exec format error");
    }
}
