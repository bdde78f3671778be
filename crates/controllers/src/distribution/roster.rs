//! All pods of the cluster, as little of each as counting needs, and the tickets that they used.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, PoisonError, RwLock},
};

use futures::StreamExt;
use kube::{
    Api, Client, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use podwright_core::distribution::{LIFETIME, Member, Phase, Requests};
use podwright_runtime::probes::Gate;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::member::{CountedPod, member};

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
        let mut events =
            watcher(Api::<CountedPod>::all(client), watcher::Config::default()).default_backoff().boxed();
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

#[cfg(test)]
mod tests {
    use podwright_core::{distribution::Mark, pod::OwnerReference};

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
