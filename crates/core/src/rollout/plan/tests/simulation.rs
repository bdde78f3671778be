//! A cluster that moves: pods start, become ready, fail and go; nodes come and go; what is seen may lag behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use podwright_api::{
    Moment,
    eds::{Condition, EffectiveCanary, find_condition, words::condition},
    keys,
};

use super::cluster::{Cluster, NOW, node, replica_set};
use crate::rollout::plan::{
    ContainerEnd, ContainerFacts, Creation, NodeFacts, Observed, ObservedPod, Phase, Plan, PodFacts,
    PodOwner, PodTemplateFacts, plan,
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
    /// The controller is killed after so many writes of its next plan.
    Killed(u8),
    /// A container of a pod restarts.
    Crash(u8),
    /// The user writes one of these, or takes it away.
    Annotate(u8),
    /// A person fails the canary.
    FailCanary,
    /// The user applies the last template again, whatever became of it.
    Reapply,
    /// The canary block is taken out, or put back.
    CanaryBlock,
}

#[derive(Debug)]
struct Life {
    facts: PodFacts,
    fate: Fate,
    hiccup_until: Option<Moment>,
}

impl Life {
    fn crash(&mut self, now: Moment) {
        if self.facts.containers.is_empty() {
            self.facts
                .containers
                .push(ContainerFacts { name: "main".to_owned(), ..ContainerFacts::default() });
        }
        let container = &mut self.facts.containers[0];
        container.restarts += 1;
        container.last_end = Some(ContainerEnd { reason: "Error".to_owned(), at: Some(now) });
        self.facts.restarts += 1;
    }
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
    /// Writes that are left before the controller is killed.
    left: Option<usize>,
    canary: Option<EffectiveCanary>,
    /// Replica sets whose canary has failed, by uid.
    pub(super) failed: BTreeSet<String>,
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
        let nodes = (0..nodes).map(name).map(|name| (name.clone(), node(&name))).collect();
        Self {
            now: NOW,
            seen,
            lives: BTreeMap::new(),
            nodes,
            fates,
            made: 0,
            templates: 1,
            left: None,
            canary: None,
            failed: BTreeSet::new(),
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

    /// Whether the next write gets through.
    fn write(&mut self) -> bool {
        if let Some(left) = &mut self.left {
            if *left == 0 {
                return false;
            }
            *left -= 1;
        }
        self.writes += 1;
        true
    }

    fn enact(&mut self, plan: &Plan) {
        self.enact_objects(plan);
        self.enact_pods(plan);
        // Whoever was killed is started again, and remembers nothing.
        if self.left.take().is_some() {
            self.blind_until = self.now;
        }
    }

    fn enact_objects(&mut self, plan: &Plan) {
        if plan.create_replica_set && self.write() {
            let name = self.seen.set.template_hash.clone();
            let mut made = replica_set(&name);
            self.made += 1;
            made.uid = format!("uid-{name}-{}", self.made);
            made.created = self.now;
            made.same_template = true;
            self.seen.replica_sets.push(made);
        }
        for (name, status) in &plan.replica_set_statuses {
            if self.write() {
                let found = self.seen.replica_sets.iter_mut().find(|known| known.name == *name).unwrap();
                found.status = status.clone();
            }
        }
        if let Some(status) = plan.status.as_ref().filter(|_| self.write()) {
            self.seen.set.status = status.clone();
        }
        if let Some(name) = plan.restore_template.as_ref().filter(|_| self.write()) {
            let hash = self
                .seen
                .replica_sets
                .iter()
                .find(|known| known.name == *name)
                .unwrap()
                .template_hash
                .clone();
            self.apply(hash);
        }
        for key in &plan.drop_annotations {
            if self.write() {
                self.seen.set.annotations.remove(*key);
            }
        }
        if plan.pod_template.is_some() && self.write() {
            self.seen.pod_template =
                Some(PodTemplateFacts { ours: true, template_hash: self.seen.set.template_hash.clone() });
        }
        for gone in &plan.delete_replica_sets {
            if self.write() {
                self.seen.replica_sets.retain(|known| known.uid != gone.uid);
                self.lives.retain(|_, life| life.facts.owner != PodOwner::ReplicaSet(gone.uid.clone()));
            }
        }
    }

    fn enact_pods(&mut self, plan: &Plan) {
        for label in &plan.labels {
            if self.write()
                && let Some(life) = self.lives.get_mut(&label.pod)
            {
                life.facts.canary_label = label.on;
            }
        }
        for deletion in &plan.deletions {
            if !self.write() {
                return;
            }
            assert!(!self.going.contains(&deletion.pod.name), "{} is deleted twice", deletion.pod.name);
            self.going.push(deletion.pod.name.clone());
            if let Some(life) = self.lives.get_mut(&deletion.pod.name) {
                life.facts.deleting = Some(self.now.plus_seconds(30));
            }
        }
        for creation in &plan.creations {
            if self.write() {
                self.make(creation);
            }
        }
    }

    fn make(&mut self, creation: &Creation) {
        let node = creation.node.as_str();
        let owner = self.seen.replica_sets.iter().find(|known| known.name == creation.replica_set).unwrap();
        let fate = self.fates[self.made % self.fates.len()];
        self.made += 1;
        let pod = format!("pod-{:05}", self.made);
        let facts = PodFacts {
            name: pod.clone(),
            uid: format!("uid-{pod}"),
            node: Some(node.to_owned()),
            scheduled: fate != Fate::NoRoom,
            unschedulable: fate == Fate::NoRoom,
            owner: PodOwner::ReplicaSet(owner.uid.clone()),
            template_hash: owner.template_generation.clone(),
            failures: creation.failures,
            canary_label: creation.canary,
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

    pub(super) fn happen_all(&mut self, happenings: Vec<Happening>) {
        for happening in happenings {
            self.happen(happening);
        }
    }

    fn happen(&mut self, happening: Happening) {
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
                if let Some(node) = self.nodes.values_mut().nth(nth(number, count))
                    && node.taints.pop().is_none()
                {
                    node.taints.push(super::cluster::taint("some", "NoSchedule"));
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
                    life.facts.deleting.get_or_insert_with(|| self.now.plus_seconds(30));
                }
            }
            Happening::Template => {
                self.templates += 1;
                self.apply(format!("v{}", self.templates));
            }
            Happening::Reapply => self.apply(format!("v{}", self.templates)),
            Happening::Killed(writes) => self.left = Some(usize::from(writes % 8)),
            Happening::Crash(number) => {
                let now = self.now;
                if let Some(life) = pod(number, &self.lives).and_then(|name| self.lives.get_mut(&name)) {
                    life.crash(now);
                }
            }
            Happening::Annotate(number) => self.annotate(number),
            Happening::FailCanary => {
                let tried = self.seen.set.status.canary.as_ref().map(|canary| canary.replica_set.clone());
                if let Some(found) =
                    self.seen.replica_sets.iter_mut().find(|known| Some(&known.name) == tried.as_ref())
                {
                    found.status.conditions.retain(|known| known.type_ != condition::CANARY_FAILED);
                    found.status.conditions.push(super::cluster::condition(
                        condition::CANARY_FAILED,
                        "True",
                        self.now,
                    ));
                }
            }
            Happening::CanaryBlock => std::mem::swap(&mut self.canary, &mut self.seen.set.strategy.canary),
            Happening::Restart => self.blind_until = self.now,
            Happening::Blind(seconds) => self.blind_until = self.now.plus_seconds(i64::from(seconds % 20)),
        }
    }

    /// The user writes an annotation, or takes it away.
    fn annotate(&mut self, number: u8) {
        let newest = self.seen.set.template_hash.clone();
        let (key, value) = match number % 6 {
            0 => (keys::EDS_CANARY_PAUSED, "true"),
            1 => (keys::EDS_CANARY_UNPAUSED, "true"),
            2 => (keys::EDS_CANARY_VALID, newest.as_str()),
            3 => (keys::EDS_ROLLOUT_FROZEN, "true"),
            4 => (keys::EDS_ROLLING_UPDATE_PAUSED, "true"),
            _ => (keys::EDS_CANARY_PAUSED, "false"),
        };
        if self.seen.set.annotations.remove(key).is_none() {
            self.seen.set.annotations.insert(key.to_owned(), value.to_owned());
        }
    }

    /// Which replica sets have failed so far.
    pub(super) fn note_failures(&mut self) {
        let failed = self.seen.replica_sets.iter().filter(|known| {
            find_condition(&known.status.conditions, condition::CANARY_FAILED).is_some_and(Condition::is_true)
        });
        self.failed.extend(failed.map(|known| known.uid.clone()));
    }

    fn apply(&mut self, hash: String) {
        self.seen.set.template_hash.clone_from(&hash);
        self.seen.set.generation += 1;
        for known in &mut self.seen.replica_sets {
            known.same_template = known.template_hash == hash;
        }
    }

    /// From now on every pod is well, and nothing happens any more. There is at least one good node.
    pub(super) fn heal(&mut self) {
        self.nodes.insert(name(0), node(&name(0)));
        self.fates = vec![Fate::Ready(1)];
        self.blind_until = self.now;
        self.left = None;
        self.seen.set.annotations.clear();
        self.seen.set.annotations.insert(keys::EDS_CANARY_UNPAUSED.to_owned(), "true".to_owned());
        for life in self.lives.values_mut() {
            life.fate = Fate::Ready(1);
            life.hiccup_until = None;
            life.facts.containers.clear();
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
