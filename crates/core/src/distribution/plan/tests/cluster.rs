//! A small cluster: one ReplicaSet, its controller, a scheduler, kubelets, admission, and the leader that follows its plans.

use podwright_api::distributor::Mode;

use super::*;
use crate::distribution::{Mark, Phase, Requests, Sequence, costs::effective, ledger};

pub(super) struct Cluster {
    pub(super) rule: Rule,
    pub(super) weights: Weights,
    /// How many pods each node can run, by pool. A pool without a node is not there.
    pub(super) pools: Vec<(char, Option<u64>)>,
    pub(super) pods: Vec<Member>,
    pub(super) replicas: usize,
    pub(super) webhook_answers: bool,
    /// Whether places are reserved for pods that nobody has seen.
    pub(super) ledger_quiet: bool,
    pub(super) history: History,
    pub(super) now: i64,
    pub(super) removals: Vec<(i64, Removal)>,
    born: u64,
}

impl Cluster {
    pub(super) fn new(weights: &[u32], spec: &Value, pools: &[(char, u64)], replicas: usize) -> Self {
        let rule = samples::rule(weights, spec);
        Self {
            weights: rule.weights().unwrap(),
            rule,
            pools: pools.iter().map(|(pool, room)| (*pool, Some(*room))).collect(),
            pods: Vec::new(),
            replicas,
            webhook_answers: true,
            ledger_quiet: true,
            history: History::default(),
            now: START,
            removals: Vec::new(),
            born: 0,
        }
    }

    /// Lets some seconds pass. While nothing happens, nobody looks before the leader wants to be woken.
    pub(super) fn run(&mut self, seconds: i64) {
        let until = self.now + seconds;
        while self.now < until {
            let before = (self.pods.clone(), self.rule.status.clone());
            let wake_at = self.tick().unwrap_or(until);
            if (&before.0, &before.1) == (&self.pods, &self.rule.status) {
                self.now = wake_at.clamp(self.now, until);
            }
        }
    }

    /// Lets a second pass.
    pub(super) fn tick(&mut self) -> Option<i64> {
        self.pods.retain(|pod| !pod.deleting);
        self.scale();
        self.kubelets();
        self.schedule();
        let wake_at = self.lead();
        self.now += 1;
        wake_at
    }

    pub(super) fn allocation(&self) -> Allocation {
        let members: Vec<Arc<Member>> = self.pods.iter().cloned().map(Arc::new).collect();
        crate::distribution::allocate(&self.rule, &self.weights, &members, &self.nodes(), None)
    }

    pub(super) fn ready(&self) -> usize {
        self.pods.iter().filter(|pod| pod.is_active() && pod.ready).count()
    }

    pub(super) fn evictions(&self) -> usize {
        self.removals.iter().filter(|(_, removal)| removal.how == Disruption::Evict).count()
    }

    pub(super) fn set_pool(&mut self, pool: char, room: Option<u64>) {
        self.pools.iter_mut().find(|(name, _)| *name == pool).unwrap().1 = room;
    }

    fn on(&self, node: &str) -> u64 {
        self.pods.iter().filter(|pod| pod.node.as_deref() == Some(node)).count() as u64
    }

    pub(super) fn nodes(&self) -> Vec<NodeRoom> {
        let existing = self.pools.iter().filter_map(|(pool, room)| Some((pool.to_string(), (*room)?)));
        existing
            .map(|(pool, room)| {
                let node = samples::node(&pool, 0);
                let left = room.saturating_sub(self.on(&node.name));
                NodeRoom { free: Requests { cpu: 100 * left, memory: 1 << 30 }, free_pods: 1000, ..node }
            })
            .collect()
    }

    /// The ReplicaSet controller.
    fn scale(&mut self) {
        while self.pods.iter().filter(|pod| pod.is_active()).count() < self.replicas {
            let pod = self.admit();
            self.pods.push(pod);
        }
        while self.pods.iter().filter(|pod| pod.is_active()).count() > self.replicas {
            let active = self.pods.iter_mut().filter(|pod| pod.is_active());
            let order = |pod: &Member| {
                (pod.node.is_some(), pod.phase == Phase::Running, pod.ready, effective(pod), -pod.created)
            };
            active.min_by_key(|pod| order(pod)).unwrap().deleting = true;
        }
    }

    /// A new pod, as it comes out of admission.
    fn admit(&mut self) -> Member {
        self.born += 1;
        let mut pod = samples::pod(&format!("pod-{:04}", self.born), "-");
        pod.created = self.now;
        (pod.mark, pod.node, pod.phase, pod.ready) = (None, None, Phase::Pending, false);
        pod.node_selector.clear();
        if !self.webhook_answers {
            return pod;
        }
        let counts = self.allocation().counts();
        let entry = ledger::choose(&self.rule, &self.weights, &counts).unwrap();
        let cost = Sequence::new(&self.weights).position(entry, counts[entry] + 1);
        pod.cost = Some(format!("-{cost}"));
        pod.our_cost.clone_from(&pod.cost);
        if self.rule.spec.mode == Mode::Required {
            pod.node_selector = self.rule.entries()[entry].node_label.clone();
        }
        let entry = self.rule.entries()[entry].name();
        pod.mark = Some(Mark { rule: self.rule.name.clone(), entry, ticket: pod.name.clone() });
        pod
    }

    fn schedule(&mut self) {
        for index in 0..self.pods.len() {
            if self.pods[index].node.is_some() || self.pods[index].deleting {
                continue;
            }
            let wanted = self.pods[index].node_selector.clone();
            let nodes = self.nodes();
            let fitting = nodes.iter().filter(|node| {
                node.free.cpu >= 100 && wanted.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            });
            let node = fitting.max_by_key(|node| node.free.cpu).map(|node| node.name.clone());
            let pod = &mut self.pods[index];
            pod.unschedulable_since =
                if node.is_some() { None } else { pod.unschedulable_since.or(Some(self.now)) };
            pod.node = node;
        }
    }

    /// A pod runs and is ready a second after it has come to its node. On a node that is gone, it is not ready.
    fn kubelets(&mut self) {
        let nodes: Vec<String> = self.nodes().into_iter().map(|node| node.name).collect();
        for pod in self.pods.iter_mut().filter(|pod| pod.is_active()) {
            if let Some(node) = &pod.node {
                pod.ready = nodes.contains(node);
                if pod.ready {
                    pod.phase = Phase::Running;
                }
            }
        }
    }

    fn lead(&mut self) -> Option<i64> {
        let members: Vec<Arc<Member>> = self.pods.iter().cloned().map(Arc::new).collect();
        let plan = plan(&Observed {
            rule: &self.rule,
            rivals: &Rivals::default(),
            members: &members,
            nodes: &self.nodes(),
            ledger_quiet: self.ledger_quiet,
            history: &self.history,
            now: self.now,
        });
        write(&mut self.rule, &plan);
        self.history = plan.history;
        for change in plan.costs {
            let pod = self.pods.iter_mut().find(|pod| pod.uid == change.uid).unwrap();
            pod.cost = Some(change.cost.to_string());
            pod.our_cost.clone_from(&pod.cost);
        }
        for Adoption { uid, mark, .. } in plan.adoptions {
            self.pods.iter_mut().find(|pod| pod.uid == uid).unwrap().mark = Some(mark);
        }
        for removal in plan.removals {
            let pod = self.pods.iter_mut().find(|pod| pod.uid == removal.uid).unwrap();
            assert!(removal.how == Disruption::Evict || !pod.ready, "{removal:?} deletes a pod that serves");
            assert!(
                self.ledger_quiet || matches!(removal.cause, Cause::Lost | Cause::Spilled),
                "{removal:?} in a burst"
            );
            pod.deleting = true;
            self.history.removed(&removal, self.now);
            self.removals.push((self.now, removal));
        }
        plan.wake_at
    }
}
