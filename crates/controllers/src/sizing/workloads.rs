//! The pods of each DaemonSet that asks for a template.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node, Pod},
};
use kube::{
    Resource, ResourceExt,
    api::{ListParams, Request},
    runtime::{
        Controller,
        controller::{Action, Config as ControllerConfig},
        events::EventType,
        reflector::ObjectRef,
    },
};
use podwright_api::{flex::FlexDaemonsetTemplate, keys};
use podwright_core::registration;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Context, UNREADY, look::Look};
use crate::{caches::Subscription, capacity::elections, nodes};

const RETRY: Duration = Duration::from_secs(5);
/// Between two looks at a DaemonSet: a rollout changes its status many times a second, and each new node concerns all of them.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Why a DaemonSet's pods could not be brought to their share.
#[derive(Debug, thiserror::Error)]
#[error("failed to {deed}: {source}")]
pub(super) struct WorkloadError {
    deed: &'static str,
    source: kube::Error,
}

pub(super) fn during(deed: &'static str) -> impl Fn(kube::Error) -> WorkloadError {
    move |source| WorkloadError { deed, source }
}

pub(super) async fn run(
    context: Arc<Context>,
    nodes: Subscription<Node>,
    daemon_sets: Subscription<DaemonSet>,
    templates: Subscription<FlexDaemonsetTemplate>,
    cancel: CancellationToken,
) {
    let store = context.sizing.caches.daemon_sets.clone();
    let asking = asking_for(context.clone());
    let elections = elections(context.sizing.leadership.clone());
    Controller::for_shared_stream(daemon_sets, store)
        .with_config(ControllerConfig::default().concurrency(4))
        .watches_shared_stream(templates, asking)
        .reconcile_all_on(nodes::share_changes(nodes, context.sizing.caches.nodes.clone()))
        .reconcile_all_on(elections)
        .graceful_shutdown_on(cancel.cancelled_owned())
        .run(reconcile, failed, context)
        .for_each(|_| std::future::ready(()))
        .await;
}

/// The DaemonSets that ask for a template.
fn asking_for(context: Arc<Context>) -> impl Fn(Arc<FlexDaemonsetTemplate>) -> Vec<ObjectRef<DaemonSet>> {
    move |template| {
        let asking = context.asking(&template.name_any());
        asking.iter().map(|found| ObjectRef::from_obj(&**found)).collect()
    }
}

/// The template that a DaemonSet asks for: by its own annotation, else by its pod template's.
fn template_of(daemon_set: &DaemonSet) -> Option<&str> {
    let pods =
        daemon_set.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref()?.annotations.as_ref());
    let asked =
        daemon_set.annotations().get(keys::RESOURCE_TEMPLATE).or_else(|| pods?.get(keys::RESOURCE_TEMPLATE));
    asked.map(|name| name.trim()).filter(|name| !name.is_empty())
}

async fn reconcile(daemon_set: Arc<DaemonSet>, context: Arc<Context>) -> Result<Action, WorkloadError> {
    if !context.sizing.leadership.is_current() {
        return Ok(Action::await_change());
    }
    let key = key_of(&daemon_set);
    let asked = context.template_of(&daemon_set);
    // A template that is not there changes no running pod; new ones are refused at admission, with the reason.
    let template = asked.and_then(|name| context.sizing.caches.templates.get(&ObjectRef::new(name)));
    let (Some(name), Some(template)) = (asked, template) else {
        context.note(&key, None);
        return Ok(Action::await_change());
    };
    // Without their nodes it would seem that there are no pods.
    if !context.is_filled() {
        return Ok(Action::requeue(UNREADY));
    }
    if let Err(early) = context.daemon_set_pace.enter(&key) {
        return Ok(Action::requeue(early));
    }
    let pods = context.pods(&daemon_set).await?;
    let look = Look {
        context: &context,
        daemon_set: &daemon_set,
        identity: (key.clone(), daemon_set.uid().unwrap_or_default()),
        template: name,
        spec: &template.spec,
    };
    // What was found is noted whatever came of it: the template's status is about all its DaemonSets.
    let (tally, next) = look.at(pods).await;
    let text = tally.reason.as_ref().map(|reason| {
        let count = tally.drifted;
        format!(
            "pods without their share by template {name} that cannot be resized: {count}, such as {reason}"
        )
    });
    // Told once, not at every look.
    if context.note(&key, Some((name.to_owned(), tally)))
        && let Some(text) = text
    {
        look.tell(EventType::Warning, "DriftedPods", text).await;
    }
    next
}

fn failed(daemon_set: Arc<DaemonSet>, error: &WorkloadError, context: Arc<Context>) -> Action {
    let (name, namespace) = (daemon_set.name_any(), daemon_set.namespace());
    tracing::warn!(daemon_set = name, namespace, %error, "failed to bring the pods of a DaemonSet to their share; will try again");
    context.sizing.metrics.failures.inc();
    Action::requeue(RETRY)
}

/// The name by which a DaemonSet is noted.
pub(super) fn key_of(daemon_set: &DaemonSet) -> String {
    format!("{}/{}", daemon_set.namespace().unwrap_or_default(), daemon_set.name_any())
}

impl Context {
    /// The DaemonSets that ask for a template.
    pub(super) fn asking(&self, template: &str) -> Vec<Arc<DaemonSet>> {
        let asks = |daemon_set: &DaemonSet| self.template_of(daemon_set) == Some(template);
        self.sizing.caches.daemon_sets.state_filter(asks)
    }

    /// The template that a DaemonSet asks for, if it is ours to follow up: where admission does not size pods, running ones are not.
    fn template_of<'d>(&self, daemon_set: &'d DaemonSet) -> Option<&'d str> {
        let namespace = daemon_set.namespace().unwrap_or_default();
        let ours = daemon_set.metadata.deletion_timestamp.is_none()
            && registration::admits(&self.sizing.config, &namespace);
        template_of(daemon_set).filter(|_| ours)
    }

    /// The DaemonSet's running pods as raw JSON, so that what we do not know of is not lost on the way.
    async fn pods(&self, daemon_set: &DaemonSet) -> Result<Vec<Value>, WorkloadError> {
        let namespace = daemon_set.namespace().unwrap_or_default();
        let labels =
            daemon_set.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone()).unwrap_or_default();
        let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let params = ListParams::default()
            .labels(&selector.join(","))
            .fields("status.phase!=Succeeded,status.phase!=Failed");
        let list = during("list the pods of the DaemonSet");
        let request = Request::new(Pod::url_path(&(), Some(&namespace))).list(&params);
        let request = request.map_err(|error| list(kube::Error::BuildRequest(error)))?;
        let found: Value = self.sizing.client.request(request).await.map_err(list)?;
        let uid = daemon_set.uid().unwrap_or_default();
        let ours = |pod: &Value| {
            let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            let mut owners = owners.map(|owner| &owner["uid"]);
            owners.any(|owner| *owner == *uid)
        };
        let items = found["items"].as_array().cloned().unwrap_or_default();
        Ok(items
            .into_iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null() && ours(pod))
            .collect())
    }
}
