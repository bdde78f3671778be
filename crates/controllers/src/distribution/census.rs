//! Whose pods are whose: rules, the pods that each counts, and the room that nodes have.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt, runtime::reflector::ObjectRef};
use podwright_api::distributor::{PodDistributor, PodDistributorSpec};
use podwright_core::{
    distribution::{Labels, Lineage, Member, NodeRoom, Requests, Rivals, Rule, governing, rivals},
    node::Taint,
    pod::OwnerReference,
    quantity::{Grain, Quantity},
};
use tokio::sync::Notify;

use super::{
    memory::RuleKey,
    roster::{Group, Roster},
};
use crate::caches::Caches;

/// What counting rests on.
#[derive(Clone)]
pub struct Census {
    /// Nodes, ReplicaSets, rules.
    pub caches: Caches,
    /// Pods.
    pub roster: Arc<Roster>,
    book: Arc<RuleBook>,
    /// How many times rules have gone, or may have.
    departures: Arc<AtomicU64>,
}

/// The labels of a node of the cache, where they are: each pod that is counted asks for those of its own.
struct NodeLabels(Arc<Node>);

impl AsRef<Labels> for NodeLabels {
    fn as_ref(&self) -> &Labels {
        self.0.labels()
    }
}

/// The rules of each namespace, ready for decisions.
#[derive(Debug, Default)]
struct RuleBook {
    rules: RwLock<HashMap<String, Arc<[Arc<Rule>]>>>,
    /// Namespaces of which a rule has come or gone, or asks for something else, since somebody took note.
    changed: Mutex<HashSet<String>>,
    news: Notify,
}

impl RuleBook {
    fn of(&self, namespace: &str) -> Option<Arc<[Arc<Rule>]>> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).get(namespace).cloned()
    }

    fn namespaces(&self) -> Vec<String> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Makes of the rules of a namespace what they are now.
    fn write(&self, namespace: &str, rules: impl FnOnce(&[Arc<Rule>]) -> Arc<[Arc<Rule>]>) {
        let mut book = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        let before = book.remove(namespace).unwrap_or_else(|| Arc::from([]));
        let after = rules(&before);
        let is_new = asked(&before) != asked(&after);
        if !after.is_empty() {
            book.insert(namespace.to_owned(), after);
        }
        drop(book);
        if is_new {
            self.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace.to_owned());
            self.news.notify_one();
        }
    }

    fn take_changed(&self) -> HashSet<String> {
        std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What each rule asks for, by name. Their status is left out: it changes with every place that is given.
fn asked(rules: &[Arc<Rule>]) -> BTreeMap<&str, (i64, &PodDistributorSpec)> {
    rules.iter().map(|rule| (rule.name.as_str(), (rule.created, &rule.spec))).collect()
}

impl Census {
    /// What is known from these caches.
    #[must_use]
    pub fn new(caches: Caches) -> Self {
        Self { caches, roster: Arc::default(), book: Arc::default(), departures: Arc::default() }
    }

    /// The rules of a namespace.
    #[must_use]
    pub fn rules(&self, namespace: &str) -> Option<Arc<[Arc<Rule>]>> {
        self.book.of(namespace)
    }

    /// Waits until rules come or go, or ask for something else, and gives their namespaces: each may count for pods of another.
    pub(super) async fn changed(&self) -> HashSet<String> {
        self.book.news.notified().await;
        self.book.take_changed()
    }

    /// Whether the watch has this rule, and not another of its name.
    pub(super) fn has(&self, (namespace, name): &RuleKey, uid: &str) -> bool {
        let rule = self.caches.rules.get(&ObjectRef::new(name).within(namespace));
        rule.is_some_and(|rule| rule.uid().unwrap_or_default() == uid)
    }

    /// Some rules have gone, or may have. To be told before the rules are read anew.
    pub(super) fn rules_left(&self) {
        self.departures.fetch_add(1, Ordering::AcqRel);
    }

    /// How many times that was told.
    pub(super) fn departures(&self) -> u64 {
        self.departures.load(Ordering::Acquire)
    }

    /// Reads the rules of a namespace anew.
    pub(super) fn refresh(&self, namespace: &str) {
        // While nobody else can write: what was read first must not be written last.
        self.book.write(namespace, |_| {
            let rules = self.caches.rules.state();
            let rules = rules.iter().filter(|rule| rule.namespace().as_deref() == Some(namespace));
            rules.map(|rule| Arc::new(without_ledger(rule))).collect()
        });
    }

    /// Reads the rules of all namespaces anew.
    pub(super) fn refresh_all(&self) {
        let rules = self.caches.rules.state();
        let known = self.book.namespaces();
        let namespaces: HashSet<String> =
            rules.iter().filter_map(|rule| rule.namespace()).chain(known).collect();
        for namespace in namespaces {
            self.refresh(&namespace);
        }
    }

    /// These rules are there, although the watch may not have told of them yet. False if rules have gone since there were so many
    /// `departures`: these may be among them, and nothing would tell so again.
    #[must_use]
    pub(super) fn learn(&self, namespace: &str, rules: &[PodDistributor], departures: u64) -> bool {
        let mut current = true;
        self.book.write(namespace, |known| {
            current = self.departures() == departures;
            let is_new = |rule: &&PodDistributor| known.iter().all(|known| known.name != rule.name_any());
            let new = rules.iter().filter(|_| current).filter(is_new);
            known.iter().cloned().chain(new.map(|rule| Arc::new(without_ledger(rule)))).collect()
        });
        current
    }

    /// Of all pods of its namespace, those for which a rule counts, active or not.
    pub(super) fn members(&self, rule: &Rule, groups: &[Group]) -> Vec<Arc<Member>> {
        let Some(rules) = self.rules(&rule.namespace) else {
            return Vec::new();
        };
        let counts = |group: &&Group| {
            let Some(first) = group.first() else { return false };
            let lineage = self.lineage(first);
            governing(&rules, &lineage).is_some_and(|governing| governing.name == rule.name)
        };
        groups.iter().filter(counts).flatten().cloned().collect()
    }

    /// How many active pods of a revision each entry has.
    pub(super) fn counts(&self, rule: &Rule, members: &[Arc<Member>], revision: &str) -> Vec<u64> {
        let mut counts = vec![0; rule.entries().len()];
        for member in members.iter().filter(|member| member.is_active() && member.revision == revision) {
            if let Some(entry) = rule.entry_of(member, |node| self.labels(node)) {
                counts[entry] += 1;
            }
        }
        counts
    }

    fn labels(&self, node: &str) -> Option<NodeLabels> {
        self.caches.nodes.get(&ObjectRef::new(node)).map(NodeLabels)
    }

    /// By whom a pod was made.
    fn lineage(&self, member: &Member) -> Lineage {
        let Some(owner) = &member.owner else {
            return Lineage { owners: Vec::new(), app: member.app.clone() };
        };
        let mut owners = vec![owner.clone()];
        if (owner.api_version.as_str(), owner.kind.as_str()) == ("apps/v1", "ReplicaSet") {
            let key = ObjectRef::new(&owner.name).within(&member.namespace);
            match self.caches.replica_sets.get(&key) {
                Some(found) => owners.extend(controller_of(found.owner_references())),
                None => owners.extend(OwnerReference::deployment_of(owner, &member.revision)),
            }
        }
        Lineage { owners, app: None }
    }

    /// Which of these rules, all of one namespace, count instead of one.
    pub(super) fn rivals<'r>(&self, rule: &Rule, rules: &'r [Arc<Rule>]) -> Rivals<'r> {
        rivals(rule, rules, |replica_set| {
            let key = ObjectRef::new(replica_set).within(&rule.namespace);
            controller_of(self.caches.replica_sets.get(&key)?.owner_references())
        })
    }

    /// The nodes, and what is free on each.
    #[must_use]
    pub fn rooms(&self) -> Vec<NodeRoom> {
        let usage = self.roster.usage();
        let nodes = self.caches.nodes.state();
        nodes
            .iter()
            .map(|node| room(node, usage.get(&node.name_any()).copied().unwrap_or_default()))
            .collect()
    }
}

/// The one that controls.
pub(crate) fn controller_of(
    owners: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference],
) -> Option<OwnerReference> {
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    Some(OwnerReference {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        controller: Some(true),
    })
}

/// The rule as decisions see it.
pub(super) fn rule(object: &PodDistributor) -> Rule {
    Rule {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        created: object.creation_timestamp().map_or(0, |time| time.0.as_second()),
        generation: object.metadata.generation,
        spec: object.spec.clone(),
        status: object.status.clone().unwrap_or_default(),
    }
}

/// A ledger is of use only to whoever writes it, and large in a burst.
fn without_ledger(object: &PodDistributor) -> Rule {
    let mut status = object.status.clone().unwrap_or_default();
    status.reserved = Vec::new();
    Rule {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        created: object.creation_timestamp().map_or(0, |time| time.0.as_second()),
        generation: object.metadata.generation,
        spec: object.spec.clone(),
        status,
    }
}

fn room(node: &Node, (taken, pods): (Requests, u64)) -> NodeRoom {
    let spec = node.spec.as_ref();
    let status = node.status.as_ref();
    let allocatable = |resource: &str, grain| {
        let amount = status.and_then(|status| status.allocatable.as_ref()?.get(resource));
        let amount = amount.and_then(|amount| amount.0.parse::<Quantity>().ok()).unwrap_or_default();
        u64::try_from(amount.floor_grains(grain)).unwrap_or_default()
    };
    let ready = status
        .and_then(|status| status.conditions.as_ref())
        .and_then(|conditions| conditions.iter().find(|condition| condition.type_ == "Ready"));
    let taints = spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
    NodeRoom {
        name: node.name_any(),
        labels: Arc::new(node.labels().clone()),
        taints: taints
            .map(|taint| Taint {
                key: taint.key.clone(),
                value: taint.value.clone().unwrap_or_default(),
                effect: taint.effect.clone(),
            })
            .collect(),
        ready_and_schedulable: ready.is_none_or(|ready| ready.status == "True")
            && spec.and_then(|spec| spec.unschedulable) != Some(true),
        free: Requests {
            cpu: allocatable("cpu", Grain::Milli).saturating_sub(taken.cpu),
            memory: allocatable("memory", Grain::Byte).saturating_sub(taken.memory),
        },
        free_pods: allocatable("pods", Grain::Byte).saturating_sub(pods),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(name: &str, weight: i32, word: &str) -> Arc<Rule> {
        let object: PodDistributor = serde_json::from_value(json!({
            "metadata": {"namespace": "apps", "name": name},
            "spec": {"distribution": [{"nodeLabel": {"pool": "a"}, "weight": weight}], "target": {"name": "web"}},
            "status": {"status": word},
        }))
        .unwrap();
        Arc::new(super::rule(&object))
    }

    #[test]
    fn a_rule_that_comes_goes_or_asks_for_something_else_concerns_the_others_and_its_status_does_not() {
        let book = RuleBook::default();
        let told = |rules: &[Arc<Rule>]| {
            book.write("apps", |_| rules.iter().cloned().collect());
            !book.take_changed().is_empty()
        };
        assert!(told(&[rule("one", 1, "NoPods")]), "it has come");
        assert!(!told(&[rule("one", 1, "Balanced")]), "only its status is new");
        assert!(told(&[rule("one", 2, "Balanced")]), "it asks for something else");
        assert!(told(&[rule("two", 1, ""), rule("one", 2, "Balanced")]), "another has come");
        assert!(!told(&[rule("one", 2, "Balanced"), rule("two", 1, "")]), "in another order");
        assert!(told(&[]), "they have gone");
        assert_eq!((told(&[]), book.of("apps")), (false, None));
    }
}
