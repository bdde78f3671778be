//! What the planner says, done. Pods are created and deleted in the background; everything else is waited for, in an order that
//! leaves nothing wrong behind whenever it breaks off.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::PodTemplate;
use kube::{
    Resource, ResourceExt,
    runtime::events::{Event as Told, EventType},
};
use podwright_api::{
    Moment,
    eds::{ExtendedDaemonSet, ExtendedDaemonSetReplicaSet},
    keys,
};
use podwright_core::rollout::{
    Fingerprint, objects,
    plan::{CanaryLabel, Creation, Deletion, Event, Phase, Plan, PodFacts, PodOwner, PodTemplateChange},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    keeper::{Deed, Keeper, Outcome},
    observe::{Overrides, owner},
    pod::DaemonPod,
    shelf::Key,
    world::{KnownReplicaSet, View},
    writes::{Pen, WriteError},
};

/// When to look again after a write that came too late, if no watch tells before.
const AGAIN: Duration = Duration::from_millis(200);

/// What could not be done.
struct Failed {
    what: &'static str,
    error: WriteError,
}

fn during(what: &'static str) -> impl Fn(WriteError) -> Failed {
    move |error| Failed { what, error }
}

impl Keeper {
    /// Does what the plan says; when to look again though nothing happens.
    pub(super) async fn enact(&mut self, view: &View, plan: Plan) -> Option<Instant> {
        match self.try_to(view, plan).await {
            Ok(again) => {
                self.accepted(Deed::Write);
                again
            }
            Err(Failed { error: WriteError::NotLeading, .. }) => None,
            // The watch will tell of what we did not know.
            Err(Failed { error, .. }) if error.is_conflict() || error.is_gone() => {
                Some(Instant::now() + AGAIN)
            }
            Err(Failed { what, error }) => {
                self.refused(Deed::Write, what, &error);
                let until = self.refusal.as_ref().map(|(_, refusal)| refusal.until).unwrap_or_default();
                Some(Instant::now() + until.since(Moment::from(jiff::Timestamp::now())))
            }
        }
    }

    async fn try_to(&mut self, view: &View, plan: Plan) -> Result<Option<Instant>, Failed> {
        if is_more_than_figures(&plan) && self.stored().await {
            // What was seen is older than what has been stored meanwhile.
            return Ok(Some(Instant::now()));
        }
        let pen = self.context.pen.clone();
        let mut again = None;
        if plan.create_replica_set && self.may_try(Deed::CreateReplicaSet) {
            match self.create_replica_set(view).await {
                Ok(at) => return Ok(Some(at)),
                Err(Failed { what, error }) if error.is_refusal() => {
                    // What there is goes on being kept meanwhile.
                    self.refused(Deed::CreateReplicaSet, what, &error);
                    again = Some(Instant::now() + AGAIN);
                }
                Err(failed) => return Err(failed),
            }
        }
        self.mend_replica_sets(view, &plan).await?;
        let mut set = view.set.clone();
        if let Some(status) = plan.status.as_ref().filter(|_| plan.roles_changed) {
            set = Arc::new(pen.store_status(&*set, status).await.map_err(during("store the status"))?);
            self.context.world.answered_set((*set).clone());
        }
        if is_more_than_figures(&plan) {
            set = self.store_statuses(view, set, &plan).await.map_err(during("store the status"))?;
            self.touch_pods(view, &plan);
        } else {
            self.touch_pods(view, &plan);
            again = again.into_iter().chain(self.store_figures(view, &set, &plan)).min();
        }
        self.change_set(view, &set, &plan).await?;
        self.keep_pod_template(&set, plan.pod_template).await?;
        for gone in &plan.delete_replica_sets {
            let key = Key::new(&self.key.namespace, &gone.name);
            let deletion = pen.delete::<ExtendedDaemonSetReplicaSet>(&key, &gone.uid);
            deletion.await.map_err(during("delete a replica set"))?;
        }
        self.tell(&set, plan.events);
        Ok(again)
    }

    /// Creates the replica set of the newest template. Its name follows from the template, so that there can be only one.
    async fn create_replica_set(&mut self, view: &View) -> Result<Instant, Failed> {
        let (fingerprint, none) = (self.fingerprint(&view.set), BTreeMap::new());
        let owner = owner(&view.set, &none);
        let pen = &self.context.pen;
        let mut taken: Vec<String> = view.replica_sets.iter().map(|known| known.object.name_any()).collect();
        loop {
            let name = objects::replica_set_name(owner.name, &fingerprint, |name| {
                taken.iter().any(|one| one == name)
            });
            let body = objects::replica_set(&owner, &name, &view.set.spec, &fingerprint);
            let made = match pen.create::<ExtendedDaemonSetReplicaSet>(&self.key.namespace, &body).await {
                // Ours, which our cache did not know of, or somebody else's.
                Err(error) if error.is_conflict() => {
                    let found = pen.read_replica_set(&Key::new(&self.key.namespace, &name)).await;
                    match found.map_err(during("read a replica set"))? {
                        Some(found)
                            if Fingerprint::of(&found.spec.template.0).identity == fingerprint.identity =>
                        {
                            found
                        }
                        _ => {
                            taken.push(name);
                            continue;
                        }
                    }
                }
                made => made.map_err(during("create a replica set"))?,
            };
            tracing::info!(extended_daemon_set = %self.key, replica_set = made.name_any(), "replica set of the newest template");
            self.context.world.answered_replica_set(made);
            self.accepted(Deed::CreateReplicaSet);
            self.announce(&view.set, "Create ExtendedDaemonSetReplicaSet");
            return Ok(Instant::now());
        }
    }

    /// Takes on replica sets that nobody controls, and gives them the selector that counts.
    async fn mend_replica_sets(&self, view: &View, plan: &Plan) -> Result<(), Failed> {
        let owner = json!([view.set.controller_owner_ref(&())]);
        let adopted = plan.adopt.iter().map(|name| (name, "/metadata/ownerReferences", Some(owner.clone())));
        let selected = plan.copy_selector.iter().map(|name| {
            let selector = view.set.spec.selector.as_ref().map(|selector| json!(selector));
            (name, "/spec/selector", selector)
        });
        for (name, path, value) in adopted.chain(selected) {
            let Some(known) = find(view, name) else { continue };
            let key = Key::new(&self.key.namespace, name);
            let version = known.object.resource_version();
            let written = self.context.pen.set_field(&key, version, path, value.as_ref()).await;
            self.context.world.answered_replica_set(written.map_err(during("mend a replica set"))?);
        }
        Ok(())
    }

    /// Starts to create, delete and label pods.
    fn touch_pods(&mut self, view: &View, plan: &Plan) {
        for deletion in &plan.deletions {
            self.delete_pod(deletion);
        }
        if !plan.creations.is_empty() {
            let overrides = Overrides::read(view);
            for creation in &plan.creations {
                self.create_pod(view, &overrides, creation);
            }
        }
        for label in &plan.labels {
            self.label_pod(label);
        }
    }

    fn delete_pod(&mut self, deletion: &Deletion) {
        let (uid, why) = (deletion.pod.uid.clone(), deletion.why);
        if !self.deleting.insert(uid.clone()) {
            return;
        }
        tracing::debug!(extended_daemon_set = %self.key, pod = deletion.pod.name, node = deletion.node, %why, "deleting a pod");
        let key = Key::new(&self.key.namespace, &deletion.pod.name);
        let (context, permits) = (self.context.clone(), self.permits.clone());
        self.running.spawn(async move {
            let _permits = (permits.acquire().await, context.permits.acquire().await);
            let result = context.pen.delete::<DaemonPod>(&key, &uid).await;
            if result.is_ok() {
                context.metrics.deleted(why);
            }
            Outcome::Deleted(uid, result)
        });
    }

    fn create_pod(&mut self, view: &View, overrides: &Overrides<'_>, creation: &Creation) {
        let Some(replica_set) = find(view, &creation.replica_set) else { return };
        let node = creation.node.clone();
        if self.creating.contains_key(&node) {
            return;
        }
        let body = self.pod_body(overrides, &replica_set, creation);
        tracing::debug!(extended_daemon_set = %self.key, node, replica_set = creation.replica_set, "creating a pod");
        self.creating.insert(node.clone(), Arc::new(stand_in(&replica_set, creation, &body)));
        let (context, permits, owner) = (self.context.clone(), self.permits.clone(), self.key.clone());
        self.running.spawn(async move {
            let _permits = (permits.acquire().await, context.permits.acquire().await);
            let result = match create(&context.pen, &owner, &body).await {
                Ok(pod) => {
                    context.world.answered_pod(&pod, &owner);
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if result.is_ok() {
                context.metrics.created();
            }
            Outcome::Created(node, result)
        });
    }

    fn label_pod(&mut self, label: &CanaryLabel) {
        let value = label.on.then_some("true");
        let change = json!({"metadata": {"labels": {keys::EDS_CANARY: value}}});
        let (key, context) = (Key::new(&self.key.namespace, &label.pod), self.context.clone());
        let owner = self.key.clone();
        self.running.spawn(async move {
            let _permit = context.permits.acquire().await;
            Outcome::Labelled(match context.pen.merge::<DaemonPod>(&key, None, change).await {
                Ok(pod) => {
                    context.world.answered_pod(&pod, &owner);
                    Ok(())
                }
                Err(error) if error.is_gone() => Ok(()),
                Err(error) => Err(error),
            })
        });
    }

    /// Puts the active template back, and takes annotations off that have had their effect.
    async fn change_set(&self, view: &View, set: &ExtendedDaemonSet, plan: &Plan) -> Result<(), Failed> {
        let pen = &self.context.pen;
        let mut version = set.resource_version();
        if let Some(known) = plan.restore_template.as_ref().and_then(|name| find(view, name)) {
            let template = &known.object.spec.template.0;
            let restored: ExtendedDaemonSet = pen
                .set_field(&self.key, version, "/spec/template", Some(template))
                .await
                .map_err(during("restore the template"))?;
            version = restored.resource_version();
            self.context.world.answered_set(restored);
        }
        if !plan.drop_annotations.is_empty() {
            let off: serde_json::Map<String, Value> =
                plan.drop_annotations.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
            let change = json!({"metadata": {"annotations": off}});
            let changed =
                pen.merge(&self.key, version, change).await.map_err(during("take annotations off"))?;
            self.context.world.answered_set(changed);
        }
        Ok(())
    }

    async fn keep_pod_template(
        &mut self,
        set: &ExtendedDaemonSet,
        change: Option<PodTemplateChange>,
    ) -> Result<(), Failed> {
        let Some(change) = change else { return Ok(()) };
        let (fingerprint, none) = (self.fingerprint(set), BTreeMap::new());
        let (pen, body) =
            (&self.context.pen, objects::pod_template(&owner(set, &none), &set.spec, &fingerprint));
        let (written, reason): (Result<PodTemplate, WriteError>, _) = match change {
            PodTemplateChange::Create => (pen.create(&self.key.namespace, &body).await, "Create PodTemplate"),
            PodTemplateChange::Update => (pen.replace(&self.key, &body).await, "Update PodTemplate"),
        };
        self.context.world.answered_pod_template(written.map_err(during("write the PodTemplate"))?);
        self.announce(set, reason);
        Ok(())
    }

    /// Tells of an object that was written, in the words that users know.
    fn announce(&mut self, set: &ExtendedDaemonSet, reason: &str) {
        let event = Told {
            type_: EventType::Normal,
            reason: reason.to_owned(),
            note: Some(self.key.to_string()),
            action: "RollOut".to_owned(),
            secondary: None,
        };
        self.publish(event, set.object_ref(&()));
    }

    /// Tells people. An event is worth having, but not worth failing or waiting for.
    fn tell(&mut self, set: &ExtendedDaemonSet, events: Vec<Event>) {
        let about = set.object_ref(&());
        for event in events {
            let told = Told {
                type_: if event.warning { EventType::Warning } else { EventType::Normal },
                reason: event.reason.to_owned(),
                note: Some(event.note),
                action: "RollOut".to_owned(),
                secondary: None,
            };
            self.publish(told, about.clone());
        }
    }

    /// Publishes one event in the background.
    pub(super) fn publish(&mut self, event: Told, about: k8s_openapi::api::core::v1::ObjectReference) {
        let context = self.context.clone();
        self.running.spawn(async move {
            if context.pen.leadership.is_current()
                && let Err(error) = context.recorder.publish(&event, &about).await
            {
                tracing::warn!(%error, reason = event.reason, "failed to publish an event");
            }
            Outcome::Told
        });
    }
}

/// Whether somebody waits for what the statuses will say: then they are stored at once, and before pods are touched.
fn is_more_than_figures(plan: &Plan) -> bool {
    plan.roles_changed
        || !plan.events.is_empty()
        || plan.restore_template.is_some()
        || !plan.drop_annotations.is_empty()
        || plan.next.is_some_and(|at| at <= Moment::from(jiff::Timestamp::now()))
}

/// Creates a pod. One that is there under its name already is what we wanted: our cache did not know of it.
async fn create(pen: &Pen, owner: &Key, body: &Value) -> Result<DaemonPod, WriteError> {
    match pen.create::<DaemonPod>(&owner.namespace, body).await {
        Err(error) if error.is_conflict() => {
            let name = body["metadata"]["name"].as_str().unwrap_or_default();
            pen.read_pod(&Key::new(&owner.namespace, name)).await?.ok_or(error)
        }
        other => other,
    }
}

/// A pod whose creation is under way, as it will be.
fn stand_in(replica_set: &KnownReplicaSet, creation: &Creation, body: &Value) -> PodFacts {
    PodFacts {
        name: body["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        node: Some(creation.node.clone()),
        owner: PodOwner::ReplicaSet(replica_set.object.uid().unwrap_or_default()),
        template_hash: replica_set.object.spec.template_generation.clone(),
        failures: creation.failures,
        created: Moment::from(jiff::Timestamp::now()),
        phase: Phase::Pending,
        ..PodFacts::default()
    }
}

pub(super) fn find(view: &View, name: &str) -> Option<Arc<KnownReplicaSet>> {
    view.replica_sets.iter().find(|known| known.object.metadata.name.as_deref() == Some(name)).cloned()
}
