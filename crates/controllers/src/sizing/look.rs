//! One look at a DaemonSet's pods: resized where that can be done, replaced where the template asks for it, else reported.

use std::{collections::BTreeMap, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    runtime::{
        controller::Action,
        events::{Event, EventType},
        reflector::ObjectRef,
    },
};
use podwright_api::{
    flex::{FlexDaemonsetTemplateSpec, OnDrift},
    keys,
};
use podwright_core::{
    pod::PodView,
    sizing::{self, Drift, SizedBy},
};
use serde_json::{Value, json};

use super::{
    Context,
    tally::{Identity, Tally},
    workloads::{WorkloadError, during},
};
use crate::nodes;

/// When to look again while pods are being replaced one after the other.
const NEXT_REPLACEMENT: Duration = Duration::from_secs(5);
/// When to try again what the API server forbids: nothing that we watch changes when it would allow it.
const REFUSED: Duration = Duration::from_mins(1);
/// When to look again while pods wait for a node.
const HOMELESS: Duration = Duration::from_secs(10);
/// How many pods of a DaemonSet are resized at once.
const RESIZES: usize = 8;

/// One look at a DaemonSet's pods.
pub(super) struct Look<'a> {
    pub(super) context: &'a Context,
    pub(super) daemon_set: &'a DaemonSet,
    pub(super) identity: Identity,
    pub(super) template: &'a str,
    pub(super) spec: &'a FlexDaemonsetTemplateSpec,
}

/// A pod that is to be resized.
struct Resize<'p> {
    pod: &'p Value,
    view: PodView,
    containers: Vec<sizing::ContainerResize>,
    node: sizing::NodeFacts,
}

/// What a look finds.
#[derive(Default)]
struct Findings<'p> {
    tally: Tally,
    resizes: Vec<Resize<'p>>,
    /// Those that only a new pod can bring to their share.
    replaceable: Vec<&'p Value>,
    /// Some may not be resized now.
    refused: bool,
    /// Some have no node yet, or none that is known: nothing need change when they get one.
    homeless: bool,
}

impl<'p> Findings<'p> {
    fn drifted(&mut self, pod: &'p Value, reason: &str) {
        self.tally.drifted += 1;
        self.tally.reason.get_or_insert_with(|| format!("{}: {reason}", name_of(pod)));
    }

    fn resized(&mut self, pod: &'p Value, outcome: Resized) {
        match outcome {
            Resized::Done => self.tally.sized += 1,
            Resized::Never(reason) => {
                self.drifted(pod, &reason);
                self.replaceable.push(pod);
            }
            Resized::NotNow(reason) => {
                self.drifted(pod, &reason);
                self.refused = true;
            }
            Resized::Gone => {}
        }
    }

    /// When to look again although nothing changes.
    fn next_look(&self, replacing: bool) -> Action {
        match (replacing, self.homeless, self.refused) {
            (true, _, _) => Action::requeue(NEXT_REPLACEMENT),
            (_, true, _) => Action::requeue(HOMELESS),
            (_, _, true) => Action::requeue(REFUSED),
            _ => Action::await_change(),
        }
    }
}

/// What came of a resize.
enum Resized {
    Done,
    /// The pod cannot be resized, and why.
    Never(String),
    /// It may not be resized now, and why: a quota, say. A new pod would fare no better.
    NotNow(String),
    /// There is nothing to resize any more, or it is not for us to do.
    Gone,
}

impl Look<'_> {
    /// Brings the pods to their share where that can be done; what they look like then, and when to look again.
    pub(super) async fn at(&self, pods: Vec<Value>) -> (Tally, Result<Action, WorkloadError>) {
        let mut findings = self.judge(&pods);
        if !self.context.sizing.config.sizing.drift.enabled {
            for resize in std::mem::take(&mut findings.resizes) {
                findings.drifted(resize.pod, "it could be resized, but sizing.drift.enabled is off");
            }
            return (findings.tally, Ok(Action::await_change()));
        }
        let resized = self.resize_all(&mut findings).await;
        let replacing = self.replace(&pods, &findings.replaceable).await;
        let next = resized.and(replacing).map(|replacing| findings.next_look(replacing));
        (findings.tally, next)
    }

    /// Asks the core about each pod that has a node.
    fn judge<'p>(&self, pods: &'p [Value]) -> Findings<'p> {
        let mut findings = Findings::default();
        for pod in pods {
            let Ok(view) = <PodView as serde::Deserialize>::deserialize(pod) else { continue };
            let nodes = &self.context.sizing.caches.nodes;
            let node = view.spec.node_name.as_ref().and_then(|node| nodes.get(&ObjectRef::new(node)));
            let Some(node) = node.map(|node| nodes::facts(&node)) else {
                findings.homeless = true;
                continue;
            };
            match sizing::drift(&view, self.spec, &node) {
                // The template's own status says what is wrong with it.
                Err(_) => {}
                Ok(Drift::None) => findings.tally.sized += 1,
                Ok(Drift::Resize { containers }) => {
                    findings.resizes.push(Resize { pod, view, containers, node });
                }
                Ok(Drift::Recreate { reason }) => {
                    findings.drifted(pod, &reason);
                    findings.replaceable.push(pod);
                }
            }
        }
        findings
    }

    async fn resize_all(&self, findings: &mut Findings<'_>) -> Result<(), WorkloadError> {
        let resizes = std::mem::take(&mut findings.resizes);
        let pods: Vec<&Value> = resizes.iter().map(|resize| resize.pod).collect();
        let requests: Vec<_> = resizes.into_iter().map(|resize| self.resize(resize)).collect();
        let outcomes: Vec<Result<Resized, WorkloadError>> =
            futures::stream::iter(requests).buffered(RESIZES).collect().await;
        let (mut done, mut failed) = (0, Ok(()));
        for (pod, outcome) in pods.into_iter().zip(outcomes) {
            let outcome = outcome.unwrap_or_else(|error| {
                let reason = error.to_string();
                failed = Err(error);
                Resized::NotNow(reason)
            });
            done += usize::from(matches!(outcome, Resized::Done));
            findings.resized(pod, outcome);
        }
        if done > 0 {
            let text = format!("pods brought to their share by template {}: {done}", self.template);
            self.tell(EventType::Normal, "ResizedPods", text).await;
        }
        failed
    }

    /// Gives the containers their share in place, and says on the pod by what it is sized now. Where the API server refuses,
    /// the reason: the pod's node may not know how to resize, or the pod may not be one that can be.
    async fn resize(&self, resize: Resize<'_>) -> Result<Resized, WorkloadError> {
        let Resize { pod, view, containers, node } = resize;
        if !self.context.sizing.leadership.is_current() {
            return Ok(Resized::Gone);
        }
        let api: Api<Pod> = self.api();
        let mut sections: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for container in containers {
            let section = if container.init { "initContainers" } else { "containers" };
            let resources = json!({"name": container.name, "resources": container.resources});
            sections.entry(section).or_default().push(resources);
        }
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod["metadata"]["uid"]}, "spec": sections}));
        match api.patch_subresource("resize", name_of(pod), &PatchParams::default(), &patch).await {
            Ok(_) => {}
            Err(kube::Error::Api(answer)) => match answer.code {
                422 => return Ok(Resized::Never(answer.message.clone())),
                403 => return Ok(Resized::NotNow(answer.message.clone())),
                // It has gone meanwhile, or another has taken its name.
                404 | 409 => return Ok(Resized::Gone),
                _ => return Err(during("resize a pod")(kube::Error::Api(answer))),
            },
            Err(error) => return Err(during("resize a pod")(error)),
        }
        if let Ok(share) = sizing::share(self.spec, &node) {
            let sized_by = SizedBy::new(self.template, &share, &view).to_string();
            let annotation = Patch::Merge(json!({"metadata": {"annotations": {keys::SIZED_BY: sized_by}}}));
            api.patch(name_of(pod), &PatchParams::default(), &annotation)
                .await
                .map_err(during("annotate a pod"))?;
        }
        self.context.sizing.metrics.did("resize");
        Ok(Resized::Done)
    }

    /// Replaces pods that cannot be resized, if the template asks for it, and no more at a time than the budget allows. Gives
    /// whether it goes on.
    ///
    /// A replacement that comes back without its share, because admission is not reached, ends it: nothing would be gained by
    /// replacing that one too, again and again.
    async fn replace(&self, pods: &[Value], replaceable: &[&Value]) -> Result<bool, WorkloadError> {
        let replacements = &self.context.replacements;
        if self.spec.on_drift != OnDrift::Recreate || replaceable.is_empty() {
            replacements.over(&self.identity);
            return Ok(false);
        }
        let came_back = |pod: &&Value| replacements.made(&self.identity, uid_of(pod)) && !is_sized(pod);
        if let Some(pod) = replaceable.iter().copied().find(came_back) {
            let text =
                format!("{} was replaced and still has no share; no more pods are replaced", name_of(pod));
            self.tell(EventType::Warning, "ReplacementHalted", text).await;
            return Ok(false);
        }
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        let desired = self.daemon_set.status.as_ref().map_or(0, |status| status.desired_number_scheduled);
        let away = usize::try_from(desired).unwrap_or(0).saturating_sub(ready);
        let allowed =
            usize::try_from(self.context.sizing.config.sizing.drift.max_unavailable).unwrap_or(usize::MAX);
        // Those that do not work are away already: they come first, and cost nothing.
        let (idle, working): (Vec<&Value>, Vec<&Value>) =
            replaceable.iter().copied().partition(|pod| !is_ready(pod));
        for pod in idle.into_iter().chain(working.into_iter().take(allowed.saturating_sub(away))) {
            if !self.context.sizing.leadership.is_current() {
                break;
            }
            let uid = Some(uid_of(pod).to_owned());
            let preconditions = Some(Preconditions { uid, resource_version: None });
            let params = DeleteParams { preconditions, ..DeleteParams::default() };
            match self.api().delete(name_of(pod), &params).await {
                Ok(_) => {
                    let is_there = || self.context.is_ours(&self.identity);
                    replacements.began(&self.identity, pods.iter().map(uid_of), is_there);
                    self.context.sizing.metrics.did("recreate");
                }
                Err(kube::Error::Api(gone)) if matches!(gone.code, 404 | 409) => {}
                Err(error) => return Err(during("replace a pod")(error)),
            }
        }
        Ok(true)
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.context.sizing.client.clone(), &self.daemon_set.namespace().unwrap_or_default())
    }

    /// An event is worth having, but not worth failing for.
    pub(super) async fn tell(&self, kind: EventType, reason: &str, text: String) {
        if !self.context.sizing.leadership.is_current() {
            return;
        }
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(text),
            action: "SizePods".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.context.recorder.publish(&event, &self.daemon_set.object_ref(&())).await {
            tracing::warn!(%error, reason, "failed to publish an event");
        }
    }
}

fn name_of(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn uid_of(pod: &Value) -> &str {
    pod["metadata"]["uid"].as_str().unwrap_or_default()
}

fn is_sized(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(keys::SIZED_BY).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_may_not_be_resized_now_is_tried_again_and_never_replaced() {
        let pod = json!({"metadata": {"name": "p"}});
        let mut findings = Findings::default();
        findings.resized(&pod, Resized::Done);
        assert_eq!(findings.next_look(false), Action::await_change());
        findings.resized(&pod, Resized::Never("class".to_owned()));
        assert_eq!(findings.next_look(false), Action::await_change());
        findings.resized(&pod, Resized::NotNow("quota".to_owned()));
        assert_eq!(findings.next_look(false), Action::requeue(REFUSED));
        findings.homeless = true;
        assert_eq!(findings.next_look(false), Action::requeue(HOMELESS), "the sooner counts");
        assert_eq!(findings.next_look(true), Action::requeue(NEXT_REPLACEMENT), "and the soonest");
        assert_eq!((findings.tally.sized, findings.tally.drifted, findings.replaceable.len()), (1, 2, 1));
    }
}
