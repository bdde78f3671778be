//! All pods of the cluster, as little of each as counting needs, and the tickets that they used.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
};

use futures::StreamExt;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, Object},
    core::DeserializeGuard,
    runtime::{WatchStreamExt, watcher},
};
use podwright_api::{distributor::Toleration, keys};
use podwright_core::{
    distribution::{LIFETIME, Mark, Member, Phase, Requests, revision},
    quantity::{Grain, Quantity},
};
use podwright_runtime::probes::Gate;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::census::controller_of;

/// Pods of one maker in one namespace: its name, or `app` and a label for pods that nobody controls.
type Maker = (String, String);

/// All pods, by maker.
#[derive(Debug, Default)]
pub struct Roster {
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Grows with each change.
    version: u64,
    makers: HashMap<String, HashMap<String, HashMap<String, Arc<Member>>>>,
    /// Tickets of pods that exist or did a short while ago, with the time at which they were first seen.
    tickets: HashMap<String, i64>,
    /// When tickets were last looked through.
    swept: i64,
}

/// What somebody sees of the pods of one maker.
pub(super) type Group = Vec<Arc<Member>>;

impl Roster {
    /// The pods of a namespace, by maker.
    pub(super) fn groups(&self, namespace: &str) -> Vec<Group> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let makers = known.makers.get(namespace).into_iter().flat_map(HashMap::values);
        makers.map(|group| group.values().cloned().collect()).collect()
    }

    /// Grows with each change: what was counted between two equal versions was counted at one moment.
    pub(super) fn version(&self) -> u64 {
        self.known.read().unwrap_or_else(PoisonError::into_inner).version
    }

    /// Whether the pod of a ticket has been seen.
    pub(super) fn has_seen(&self, ticket: &str) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).tickets.contains_key(ticket)
    }

    /// What is taken of each node.
    pub(super) fn usage(&self) -> HashMap<String, (Requests, u64)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut usage: HashMap<String, (Requests, u64)> = HashMap::new();
        let pods = known.makers.values().flat_map(HashMap::values).flat_map(HashMap::values);
        for pod in pods.filter(|pod| pod.phase != Phase::Ended) {
            if let Some(node) = &pod.node {
                let (taken, pods) = usage.entry(node.clone()).or_default();
                taken.cpu += pod.requests.cpu;
                taken.memory += pod.requests.memory;
                *pods += 1;
            }
        }
        usage
    }

    fn put(&self, member: Member, now: i64) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.version += 1;
        known.note(&member, now);
        let (namespace, maker) = maker(&member);
        let group = known.makers.entry(namespace).or_default().entry(maker).or_default();
        group.insert(member.name.clone(), Arc::new(member));
    }

    fn remove(&self, member: &Member) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.version += 1;
        let (namespace, maker) = maker(member);
        let Some(makers) = known.makers.get_mut(&namespace) else { return };
        if let Some(group) = makers.get_mut(&maker) {
            group.remove(&member.name);
            if group.is_empty() {
                makers.remove(&maker);
            }
        }
        if makers.is_empty() {
            known.makers.remove(&namespace);
        }
    }

    fn replace(&self, members: Vec<Member>, now: i64) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.version += 1;
        known.makers.clear();
        for member in members {
            known.note(&member, now);
            let (namespace, maker) = maker(&member);
            let group = known.makers.entry(namespace).or_default().entry(maker).or_default();
            group.insert(member.name.clone(), Arc::new(member));
        }
    }

    /// Watches until cancelled. `synced` opens once all pods are known; `changed` is told the namespaces of pods that come,
    /// change or go.
    pub async fn watch(
        self: Arc<Self>,
        client: Client,
        changed: mpsc::UnboundedSender<String>,
        synced: Gate,
        cancel: CancellationToken,
    ) {
        let resource = ApiResource::erase::<Pod>(&());
        let api: Api<DeserializeGuard<SlimPod>> = Api::all_with(client, &resource);
        let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
        let mut relisted = Vec::new();
        while let Some(Some(event)) = cancel.run_until_cancelled(events.next()).await {
            let now = jiff::Timestamp::now().as_millisecond();
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    tracing::warn!(%error, "failed to watch pods");
                    continue;
                }
            };
            match event {
                watcher::Event::Init => relisted = Vec::new(),
                watcher::Event::InitApply(pod) => relisted.extend(member(pod)),
                watcher::Event::InitDone => {
                    self.replace(std::mem::take(&mut relisted), now);
                    synced.open();
                }
                watcher::Event::Apply(pod) => {
                    if let Some(member) = member(pod) {
                        // Whoever listens ends with us.
                        let _ = changed.send(member.namespace.clone());
                        self.put(member, now);
                    }
                }
                watcher::Event::Delete(pod) => {
                    if let Some(member) = member(pod) {
                        self.remove(&member);
                        let _ = changed.send(member.namespace);
                    }
                }
            }
        }
    }
}

impl Known {
    /// Remembers the pod's ticket for as long as a ledger may have it.
    fn note(&mut self, member: &Member, now: i64) {
        if let Some(ticket) = member.ticket() {
            self.tickets.entry(ticket.to_owned()).or_insert(now);
        }
        if now - self.swept > LIFETIME {
            self.swept = now;
            let existing: std::collections::HashSet<String> = self
                .makers
                .values()
                .flat_map(HashMap::values)
                .flat_map(HashMap::values)
                .filter_map(|member| member.ticket().map(str::to_owned))
                .collect();
            self.tickets.retain(|ticket, since| now - *since < 2 * LIFETIME || existing.contains(ticket));
        }
    }
}

fn maker(member: &Member) -> Maker {
    let maker = match (&member.owner, &member.app) {
        (Some(owner), _) => owner.name.clone(),
        (None, Some(app)) => format!("app={app}"),
        (None, None) => String::new(),
    };
    (member.namespace.clone(), maker)
}

/// A pod, of which only this is read.
type SlimPod = Object<SlimSpec, SlimStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimSpec {
    node_selector: Option<BTreeMap<String, String>>,
    tolerations: Option<Vec<Toleration>>,
    node_name: Option<String>,
    containers: Option<Vec<SlimContainer>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SlimContainer {
    resources: Option<SlimResources>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SlimResources {
    requests: Option<BTreeMap<String, Quantity>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SlimStatus {
    phase: Option<String>,
    conditions: Option<Vec<SlimCondition>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: Option<String>,
    last_transition_time: Option<Time>,
}

/// The pod as it is counted; none if it cannot be read.
fn member(pod: DeserializeGuard<SlimPod>) -> Option<Member> {
    let pod = match pod.0 {
        Ok(pod) => pod,
        Err(error) => {
            let name = error.metadata.name.unwrap_or_default();
            tracing::warn!(name, error = %error.error, "a pod cannot be read and is not counted");
            return None;
        }
    };
    let status = pod.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let condition = |kind: &str| conditions.iter().find(|condition| condition.kind == kind);
    let unschedulable = condition("PodScheduled").filter(|scheduled| {
        scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable")
    });
    let annotation = |key: &str| pod.annotations().get(key).cloned();
    let owner = controller_of(pod.owner_references());
    Some(Member {
        namespace: pod.namespace()?,
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        created: pod.creation_timestamp().map_or(0, |time| time.0.as_second()),
        revision: revision(|key| pod.labels().get(key).cloned(), owner.as_ref()),
        app: pod.labels().get(keys::APP).cloned(),
        mark: annotation(keys::DISTRIBUTION).as_deref().and_then(Mark::read),
        node: pod.spec.node_name.clone().filter(|node| !node.is_empty()),
        phase: match status.phase.as_deref() {
            Some("Running") => Phase::Running,
            Some("Succeeded" | "Failed") => Phase::Ended,
            _ => Phase::Pending,
        },
        deleting: pod.metadata.deletion_timestamp.is_some(),
        ready: condition("Ready").is_some_and(|ready| ready.status == "True"),
        unschedulable_since: unschedulable
            .and_then(|condition| condition.last_transition_time.as_ref())
            .map(|time| time.0.as_second()),
        requests: requests(&pod.spec),
        cost: annotation(keys::POD_DELETION_COST),
        our_cost: annotation(keys::OUR_DELETION_COST),
        node_selector: pod.spec.node_selector.unwrap_or_default(),
        tolerations: pod.spec.tolerations.unwrap_or_default(),
        owner,
    })
}

/// The sum of what its containers ask for.
fn requests(spec: &SlimSpec) -> Requests {
    let asked = |resource: &str| {
        let containers = spec.containers.iter().flatten();
        let requests = containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref());
        requests.filter_map(|requests| requests.get(resource).copied()).sum::<Quantity>()
    };
    let figure = |amount: Quantity, grain| u64::try_from(amount.floor_grains(grain)).unwrap_or_default();
    Requests { cpu: figure(asked("cpu"), Grain::Milli), memory: figure(asked("memory"), Grain::Byte) }
}
