//! A cluster that moves: pods start, become ready, fail and go; nodes come and go; what is seen may lag behind.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use podwright_api::Moment;

use super::cluster::{Cluster, NOW, node, replica_set};
use crate::rollout::plan::{
    NodeFacts, Observed, ObservedPod, Phase, Plan, PodFacts, PodOwner, PodTemplateFacts, plan,
};

/// What will become of a pod, once it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is ready after so many seconds.
    Ready(u8),
    /// It never is.
    Never,
    /// It fails after so many seconds.
    Fails(u8),
    /// The scheduler finds no room for it.
    NoRoom,
}

/// Something that happens to the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happening {
    /// A node comes.
    NodeComes(u8),
    /// A node goes, and its pods with it.
    NodeGoes(u8),
    /// A node has something against new pods, or no more.
    Taint(u8),
    /// A pod stops being ready, and is again after a while.
    Hiccup(u8),
    /// A pod is evicted.
    Evict(u8),
    /// A person deletes a pod.
    DeletePod(u8),
    /// The template changes.
    Template,
    /// The planner's memory is lost: all that it has asked for is forgotten, but what is stored is seen.
    Restart,
    /// What is seen stands still for so many seconds, apart from what was asked for.
    Blind(u8),
}

#[derive(Debug)]
struct Life {
    facts: PodFacts,
    fate: Fate,
    hiccup_until: Option<Moment>,
}

/// The cluster as it really is.
#[derive(Debug)]
pub(super) struct Simulation {
    pub(super) now: Moment,
    pub(super) seen: Observed,
    lives: BTreeMap<String, Life>,
    nodes: BTreeMap<String, NodeFacts>,
    fates: Vec<Fate>,
    made: usize,
    templates: usize,
    blind_until: Moment,
    /// What was asked for and is not seen yet: nodes with a creation, pods with a deletion.
    asked: Vec<ObservedPod>,
    going: Vec<String>,
    /// What was written to the cluster so far.
    pub(super) writes: usize,
}

impl Simulation {
    pub(super) fn new(nodes: u8, fates: Vec<Fate>, start: Cluster) -> Self {
        let mut seen = start.seen;
        seen.pods.clear();
        let nodes = (0..nodes).map(|number| name(number)).map(|name| (name.clone(), node(&name))).collect();
        Self {
            now: NOW,
            seen,
            lives: BTreeMap::new(),
            nodes,
            fates,
            made: 0,
            templates: 1,
            blind_until: NOW,
            asked: Vec::new(),
            going: Vec::new(),
            writes: 0,
        }
    }

    /// What the planner is shown: the truth, unless it is blind, and what it asked for.
    pub(super) fn look(&mut self) {
        if self.now >= self.blind_until {
            self.seen.nodes = self.nodes.values().cloned().map(Arc::new).collect();
            self.seen.pods = self
                .lives
                .values()
                .map(|life| ObservedPod { facts: Arc::new(life.facts.clone()), as_wanted: true })
                .collect();
            self.asked.clear();
            self.going.clear();
        }
    }

    fn shown(&self) -> Observed {
        let mut seen = self.seen.clone();
        for pod in &mut seen.pods {
            if self.going.contains(&pod.facts.name) && pod.facts.deleting.is_none() {
                Arc::make_mut(&mut pod.facts).deleting = Some(self.now.plus_seconds(30));
            }
        }
        seen.pods.extend(self.asked.iter().cloned());
        seen
    }

    /// Plans and enacts.
    pub(super) fn step(&mut self) -> Plan {
        self.look();
        let plan = plan(&self.shown(), self.now);
        self.enact(&plan);
        plan
    }

    fn enact(&mut self, plan: &Plan) {
        if plan.create_replica_set {
            let name = self.seen.set.template_hash.clone();
            let mut made = replica_set(&name);
            made.created = self.now;
            made.same_template = true;
            self.seen.replica_sets.push(made);
            self.writes += 1;
        }
        for (name, status) in &plan.replica_set_statuses {
            let found = self.seen.replica_sets.iter_mut().find(|known| known.name == *name).unwrap();
            found.status = status.clone();
            self.writes += 1;
        }
        if let Some(status) = &plan.status {
            self.seen.set.status = status.clone();
            self.writes += 1;
        }
        if plan.pod_template.is_some() {
            self.seen.pod_template =
                Some(PodTemplateFacts { ours: true, template_hash: self.seen.set.template_hash.clone() });
            self.writes += 1;
        }
        for gone in &plan.delete_replica_sets {
            self.seen.replica_sets.retain(|known| known.uid != gone.uid);
            self.lives.retain(|_, life| life.facts.owner != PodOwner::ReplicaSet(gone.uid.clone()));
            self.writes += 1;
        }
        for deletion in &plan.deletions {
            self.writes += 1;
            if self.going.contains(&deletion.pod.name) {
                panic!("{} is deleted twice", deletion.pod.name);
            }
            self.going.push(deletion.pod.name.clone());
            if let Some(life) = self.lives.get_mut(&deletion.pod.name) {
                life.facts.deleting = Some(self.now.plus_seconds(30));
            }
        }
        for creation in &plan.creations {
            self.writes += 1;
            self.make(&creation.node, &creation.replica_set, creation.failures);
        }
    }

    fn make(&mut self, node: &str, replica_set: &str, failures: u32) {
        let fate = self.fates[self.made % self.fates.len()];
        self.made += 1;
        let pod = format!("pod-{:05}", self.made);
        let facts = PodFacts {
            name: pod.clone(),
            uid: format!("uid-{pod}"),
            node: Some(node.to_owned()),
            scheduled: fate != Fate::NoRoom,
            unschedulable: fate == Fate::NoRoom,
            owner: PodOwner::ReplicaSet(format!("uid-{replica_set}")),
            template_hash: replica_set.to_owned(),
            failures,
            created: self.now,
            ..PodFacts::default()
        };
        let asked = PodFacts { uid: String::new(), ..facts.clone() };
        self.asked.push(ObservedPod { facts: Arc::new(asked), as_wanted: true });
        if self.nodes.contains_key(node) {
            self.lives.insert(pod, Life { facts, fate, hiccup_until: None });
        }
    }

    /// Time passes, and pods live.
    pub(super) fn pass(&mut self, span: Duration) {
        self.now = self.now.plus(span);
        let now = self.now;
        self.lives.retain(|_, life| life.facts.deleting.is_none_or(|at| now < at.plus_seconds(-29)));
        for life in self.lives.values_mut() {
            let age = now.since(life.facts.created).as_secs();
            let facts = &mut life.facts;
            match life.fate {
                Fate::Ready(after) if age >= u64::from(after) && facts.phase != Phase::Failed => {
                    facts.phase = Phase::Running;
                    let resting = life.hiccup_until.is_some_and(|until| now < until);
                    facts.ready_since = if resting { None } else { facts.ready_since.or(Some(now)) };
                }
                Fate::Fails(after) if age >= u64::from(after) && facts.phase != Phase::Failed => {
                    facts.phase = Phase::Failed;
                    facts.ended = Some(now);
                }
                _ => {}
            }
        }
    }

    pub(super) fn happen(&mut self, happening: Happening) {
        let nth = |number: u8, of: usize| usize::from(number) % of.max(1);
        let pod =
            |number: u8, lives: &BTreeMap<String, Life>| lives.keys().nth(nth(number, lives.len())).cloned();
        match happening {
            Happening::NodeComes(number) => {
                self.nodes.entry(name(number)).or_insert_with(|| node(&name(number)));
            }
            Happening::NodeGoes(number) => {
                if let Some(gone) = self.nodes.keys().nth(nth(number, self.nodes.len())).cloned() {
                    self.nodes.remove(&gone);
                    self.lives.retain(|_, life| life.facts.node.as_deref() != Some(&gone));
                }
            }
            Happening::Taint(number) => {
                let count = self.nodes.len();
                if let Some(node) = self.nodes.values_mut().nth(nth(number, count)) {
                    if node.taints.pop().is_none() {
                        node.taints.push(super::cluster::taint("some", "NoSchedule"));
                    }
                }
            }
            Happening::Hiccup(number) => {
                if let Some(life) = pod(number, &self.lives).and_then(|name| self.lives.get_mut(&name)) {
                    life.hiccup_until = Some(self.now.plus_seconds(20));
                    life.facts.ready_since = None;
                }
            }
            Happening::Evict(number) => {
                if let Some(life) = pod(number, &self.lives).and_then(|name| self.lives.get_mut(&name)) {
                    life.facts.phase = Phase::Failed;
                    life.facts.ended = Some(self.now);
                    life.facts.ready_since = None;
                }
            }
            Happening::DeletePod(number) => {
                if let Some(life) = pod(number, &self.lives).and_then(|name| self.lives.get_mut(&name)) {
                    life.facts.deleting = life.facts.deleting.or(Some(self.now.plus_seconds(30)));
                }
            }
            Happening::Template => self.template(),
            Happening::Restart => self.blind_until = self.now,
            Happening::Blind(seconds) => self.blind_until = self.now.plus_seconds(i64::from(seconds % 20)),
        }
    }

    fn template(&mut self) {
        self.templates += 1;
        let hash = format!("v{}", self.templates);
        self.seen.set.template_hash.clone_from(&hash);
        self.seen.set.generation += 1;
        for known in &mut self.seen.replica_sets {
            known.same_template = known.template_hash == hash;
        }
    }

    /// From now on every pod is well, and nothing happens any more.
    pub(super) fn heal(&mut self) {
        self.fates = vec![Fate::Ready(1)];
        self.blind_until = self.now;
        for life in self.lives.values_mut() {
            life.fate = Fate::Ready(1);
            life.hiccup_until = None;
            life.facts.scheduled = true;
            life.facts.unschedulable = false;
        }
    }

    /// Pods that live on each node.
    pub(super) fn living(&self) -> BTreeMap<&str, Vec<&PodFacts>> {
        let mut living: BTreeMap<&str, Vec<&PodFacts>> = BTreeMap::new();
        for life in self.lives.values().filter(|life| life.facts.phase != Phase::Failed) {
            living.entry(life.facts.node.as_deref().unwrap_or_default()).or_default().push(&life.facts);
        }
        living
    }

    /// Nodes that should have a pod and have none that works, as far as was seen, after all that was asked for.
    pub(super) fn unavailable_seen(&self) -> usize {
        let shown = self.shown();
        let min_ready = self.seen.set.strategy.min_ready;
        let works = |pod: &ObservedPod, node: &str| {
            let since = pod
                .facts
                .ready_since
                .filter(|_| pod.facts.deleting.is_none() && pod.facts.phase != Phase::Failed);
            pod.facts.node.as_deref() == Some(node)
                && since.is_some_and(|since| since.plus(min_ready) <= self.now)
        };
        let wanted = shown.nodes.iter().filter(|node| node.taints.is_empty());
        wanted.filter(|node| !shown.pods.iter().any(|pod| works(pod, &node.name))).count()
    }

    /// Nodes that should have a pod.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &String> {
        self.nodes.iter().filter(|(_, node)| node.taints.is_empty()).map(|(name, _)| name)
    }
}

fn name(number: u8) -> String {
    format!("n{:03}", number % 12)
}
