//! All pods of the cluster, as little of each as counting needs, and the tickets that they used.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
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
    node::NodeTerms,
    pod::DaemonOwner,
    quantity::{Grain, Quantity},
};
use podwright_runtime::probes::Gate;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::census::controller_of;

/// Who makes pods: group and kind, and name; or nobody, and the label by which such pods belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Maker {
    kind: String,
    name: String,
}

/// All pods, by namespace and maker.
#[derive(Debug, Default)]
pub struct Roster {
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    namespaces: HashMap<String, Namespace>,
    /// What the pods of each node ask for, and how many they are.
    usage: HashMap<String, (Requests, u64)>,
    /// Tickets of pods that exist or did a short while ago, with the time at which they were first seen.
    tickets: HashMap<String, i64>,
    /// When tickets were last looked through.
    swept: i64,
}

#[derive(Debug, Default)]
struct Namespace {
    makers: HashMap<Maker, HashMap<String, Arc<Member>>>,
    /// Each pod's maker, which may change: a pod can be orphaned, and adopted.
    pods: HashMap<String, Maker>,
}

/// The pods of one maker.
pub(super) type Group = Vec<Arc<Member>>;

/// What was to be seen at one moment.
pub(super) struct View {
    /// The pods of a namespace, by maker.
    pub(super) groups: Vec<Group>,
    /// Of the tickets that were asked about, those whose pods have been seen, and when first.
    pub(super) seen: HashMap<String, i64>,
}

impl Roster {
    /// The pods of a namespace, and which of these tickets' pods have been seen: all at one moment, so that no pod counts twice
    /// or not at all.
    pub(super) fn view<'t>(&self, namespace: &str, tickets: impl Iterator<Item = &'t str>) -> View {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let makers =
            known.namespaces.get(namespace).into_iter().flat_map(|namespace| namespace.makers.values());
        let seen = tickets.filter_map(|ticket| Some((ticket.to_owned(), *known.tickets.get(ticket)?)));
        View { groups: makers.map(|group| group.values().cloned().collect()).collect(), seen: seen.collect() }
    }

    /// What is taken of each node.
    pub(super) fn usage(&self) -> HashMap<String, (Requests, u64)> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).usage.clone()
    }

    fn put(&self, member: Member, now: i64) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).put(member, now);
    }

    fn remove(&self, namespace: &str, name: &str) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).remove(namespace, name);
    }

    /// These are all pods. Gives the namespaces in which something may have changed: all that there are or were.
    fn replace(&self, members: Vec<Member>, now: i64) -> Vec<String> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut namespaces: HashSet<String> = known.namespaces.drain().map(|(name, _)| name).collect();
        known.usage.clear();
        for member in members {
            namespaces.insert(member.namespace.clone());
            known.put(member, now);
        }
        namespaces.into_iter().collect()
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
            let namespaces = match event {
                Ok(watcher::Event::Init) => {
                    relisted = Vec::new();
                    Vec::new()
                }
                Ok(watcher::Event::InitApply(pod)) => {
                    relisted.extend(member(pod));
                    Vec::new()
                }
                Ok(watcher::Event::InitDone) => {
                    let namespaces = self.replace(std::mem::take(&mut relisted), now);
                    synced.open();
                    namespaces
                }
                Ok(watcher::Event::Apply(pod)) => member(pod).map_or_else(Vec::new, |member| {
                    let namespace = member.namespace.clone();
                    self.put(member, now);
                    vec![namespace]
                }),
                Ok(watcher::Event::Delete(pod)) => {
                    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
                    self.remove(&namespace, &name);
                    vec![namespace]
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to watch pods");
                    Vec::new()
                }
            };
            for namespace in namespaces {
                // Whoever listens ends with us.
                let _ = changed.send(namespace);
            }
        }
    }
}

impl Known {
    fn put(&mut self, member: Member, now: i64) {
        self.remove(&member.namespace, &member.name);
        self.note(&member, now);
        if let Some((taken, pods)) = self.used_by(&member) {
            taken.cpu += member.requests.cpu;
            taken.memory += member.requests.memory;
            *pods += 1;
        }
        let (name, maker) = (member.name.clone(), maker(&member));
        let namespace = self.namespaces.entry(member.namespace.clone()).or_default();
        namespace.pods.insert(name.clone(), maker.clone());
        namespace.makers.entry(maker).or_default().insert(name, Arc::new(member));
    }

    fn remove(&mut self, namespace: &str, name: &str) {
        let Some(there) = self.namespaces.get_mut(namespace) else { return };
        let Some(maker) = there.pods.remove(name) else { return };
        let Some(group) = there.makers.get_mut(&maker) else { return };
        let member = group.remove(name);
        if group.is_empty() {
            there.makers.remove(&maker);
        }
        if there.pods.is_empty() {
            self.namespaces.remove(namespace);
        }
        let Some(member) = member else { return };
        if let Some((taken, pods)) = self.used_by(&member) {
            taken.cpu = taken.cpu.saturating_sub(member.requests.cpu);
            taken.memory = taken.memory.saturating_sub(member.requests.memory);
            *pods = pods.saturating_sub(1);
            if *pods == 0 {
                self.usage.remove(member.node.as_deref().unwrap_or_default());
            }
        }
    }

    /// What is taken of the node on which the pod takes something.
    fn used_by(&mut self, member: &Member) -> Option<&mut (Requests, u64)> {
        let node = member.node.as_ref().filter(|_| member.phase != Phase::Ended)?;
        Some(self.usage.entry(node.clone()).or_default())
    }

    /// Remembers the pod's ticket for as long as a ledger may have it.
    fn note(&mut self, member: &Member, now: i64) {
        if let Some(ticket) = member.ticket() {
            self.tickets.entry(ticket.to_owned()).or_insert(now);
        }
        if now - self.swept > LIFETIME {
            self.swept = now;
            self.tickets.retain(|_, since| now - *since < 4 * LIFETIME);
        }
    }
}

fn maker(member: &Member) -> Maker {
    match (&member.owner, &member.app) {
        (Some(owner), _) => {
            let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            Maker { kind: format!("{group}/{}", owner.kind), name: owner.name.clone() }
        }
        (None, app) => Maker { kind: String::new(), name: app.clone().unwrap_or_default() },
    }
}

/// A pod, of which only this is read.
type SlimPod = Object<SlimSpec, SlimStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimSpec {
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<SlimAffinity>,
    tolerations: Option<Vec<Toleration>>,
    node_name: Option<String>,
    containers: Option<Vec<SlimContainer>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimAffinity {
    node_affinity: Option<SlimNodeAffinity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SlimNodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeTerms>,
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
    // One term for each, of which there are as many as nodes, and no rule is for them.
    let has_own_node = owner
        .as_ref()
        .is_some_and(|owner| DaemonOwner::KINDS.contains(&(owner.api_version.as_str(), owner.kind.as_str())));
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
        required: pod.spec.affinity.filter(|_| !has_own_node).and_then(required),
        tolerations: pod.spec.tolerations.unwrap_or_default(),
        owner,
    })
}

fn required(affinity: SlimAffinity) -> Option<Box<NodeTerms>> {
    affinity.node_affinity?.required.map(Box::new)
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

#[cfg(test)]
mod tests {
    use podwright_core::pod::OwnerReference;
    use serde_json::json;

    use super::*;

    fn member(name: &str, owner: Option<(&str, &str, &str)>, node: Option<&str>) -> Member {
        Member {
            namespace: "apps".to_owned(),
            name: name.to_owned(),
            owner: owner.map(|(version, kind, name)| OwnerReference {
                api_version: version.to_owned(),
                kind: kind.to_owned(),
                name: name.to_owned(),
                controller: Some(true),
            }),
            node: node.map(str::to_owned),
            requests: Requests { cpu: 100, memory: 1 << 20 },
            mark: Some(Mark { rule: "r".to_owned(), entry: "e".to_owned(), ticket: format!("t-{name}") }),
            ..Member::default()
        }
    }

    fn sizes(roster: &Roster) -> Vec<usize> {
        let mut sizes: Vec<usize> =
            roster.view("apps", std::iter::empty()).groups.iter().map(Vec::len).collect();
        sizes.sort_unstable();
        sizes
    }

    #[test]
    fn what_node_affinity_insists_on_is_read_unless_the_pod_has_a_node_of_its_own() {
        let read = |version: &str, kind: &str| {
            let terms =
                json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]});
            let pod = serde_json::from_value(json!({
                "metadata": {
                    "namespace": "apps", "name": "p",
                    "ownerReferences": [{"apiVersion": version, "kind": kind, "name": "w", "uid": "1", "controller": true}],
                },
                "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}},
            }));
            super::member(DeserializeGuard(Ok(pod.unwrap()))).unwrap().required
        };
        let found = read("apps/v1", "ReplicaSet").unwrap();
        assert!(found.match_node("n", &[("disk".to_owned(), "ssd".to_owned())].into()));
        assert!(!found.match_node("n", &BTreeMap::new()));
        assert_eq!(read("apps/v1", "DaemonSet"), None);
        assert_eq!(read("datadoghq.com/v1alpha1", "ExtendedDaemonSetReplicaSet"), None);
    }

    #[test]
    fn a_pod_that_changes_hands_is_counted_once_and_gone_when_it_goes() {
        let roster = Roster::default();
        let owned = ("apps/v1", "ReplicaSet", "web-1");
        roster.put(member("a", Some(owned), None), 1);
        roster.put(member("b", Some(owned), Some("n")), 1);
        assert_eq!(sizes(&roster), [2]);
        roster.put(member("a", None, None), 2);
        assert_eq!(sizes(&roster), [1, 1]);
        roster.remove("apps", "a");
        roster.remove("apps", "b");
        assert_eq!((sizes(&roster), roster.usage().len()), (Vec::new(), 0));
    }

    #[test]
    fn makers_of_one_name_and_different_kinds_are_different_makers() {
        let roster = Roster::default();
        roster.put(member("a", Some(("apps/v1", "StatefulSet", "db")), None), 1);
        roster.put(member("b", Some(("batch/v1", "Job", "db")), None), 1);
        assert_eq!(sizes(&roster), [1, 1]);
    }

    #[test]
    fn what_nodes_have_taken_follows_their_pods() {
        let roster = Roster::default();
        roster.put(member("a", None, Some("n")), 1);
        roster.put(member("a", None, Some("n")), 2);
        roster.put(member("b", None, Some("n")), 2);
        assert_eq!(roster.usage()["n"], (Requests { cpu: 200, memory: 2 << 20 }, 2));
        roster.put(Member { phase: Phase::Ended, ..member("a", None, Some("n")) }, 3);
        assert_eq!(roster.usage()["n"].1, 1);
        assert_eq!(roster.replace(vec![member("c", None, None)], 4), ["apps"]);
        assert!(roster.usage().is_empty());
    }

    #[test]
    fn a_ticket_is_remembered_after_its_pod_has_gone_and_not_for_ever() {
        let roster = Roster::default();
        roster.put(member("a", None, None), 1000);
        roster.remove("apps", "a");
        let seen = |ticket: &str| roster.view("apps", std::iter::once(ticket)).seen.get(ticket).copied();
        assert_eq!((seen("t-a"), seen("t-b")), (Some(1000), None));
        roster.put(member("b", None, None), 1000 + 5 * LIFETIME);
        assert_eq!(seen("t-a"), None);
    }
}
