//! A small cluster, written down by its state.

use std::{sync::Arc, time::Duration};

use podwright_api::{
    Moment,
    eds::{Amount, Condition, words::condition},
};
use serde_json::json;

use crate::{
    node::{Placement, Taint},
    rollout::plan::{
        NodeFacts, Observed, ObservedPod, Phase, Plan, PodFacts, PodOwner, PodTemplateFacts, ReplicaSetFacts,
        plan,
    },
};

/// When the tests take place.
pub(super) const NOW: Moment = Moment::from_millis(1_800_000_000_000);

pub(super) fn ago(seconds: i64) -> Moment {
    NOW.plus_seconds(-seconds)
}

pub(super) fn node(name: &str) -> NodeFacts {
    NodeFacts { name: name.to_owned(), ready: true, ..NodeFacts::default() }
}

pub(super) fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), value: String::new(), effect: effect.to_owned() }
}

pub(super) fn condition(type_: &str, status: &str, at: Moment) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(at),
        last_update_time: Some(at),
        ..Condition::default()
    }
}

/// A replica set whose template's hash is its name.
pub(super) fn replica_set(name: &str) -> ReplicaSetFacts {
    ReplicaSetFacts {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        created: ago(3600),
        template_hash: name.to_owned(),
        template_generation: name.to_owned(),
        placement: Some(Arc::new(Placement::default())),
        ..ReplicaSetFacts::default()
    }
}

/// A pod on its way through life, by what has become of it.
#[derive(Clone)]
pub(super) struct PodOf {
    pub(super) facts: PodFacts,
    as_wanted: bool,
}

/// A ready pod of a replica set on a node, ten minutes old.
pub(super) fn pod(name: &str, node: &str, replica_set: &str) -> PodOf {
    PodOf {
        facts: PodFacts {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            node: Some(node.to_owned()),
            scheduled: true,
            owner: PodOwner::ReplicaSet(format!("uid-{replica_set}")),
            template_hash: replica_set.to_owned(),
            created: ago(600),
            started: Some(ago(600)),
            phase: Phase::Running,
            ready_since: Some(ago(590)),
            ..PodFacts::default()
        },
        as_wanted: true,
    }
}

impl PodOf {
    pub(super) fn with(mut self, change: impl FnOnce(&mut PodFacts)) -> Self {
        change(&mut self.facts);
        self
    }

    pub(super) fn not_ready(self) -> Self {
        self.with(|facts| facts.ready_since = None)
    }

    pub(super) fn starting(self) -> Self {
        self.not_ready().with(|facts| {
            facts.created = ago(1);
            facts.phase = Phase::Pending;
        })
    }

    pub(super) fn pending(self, seconds: i64) -> Self {
        self.not_ready().with(|facts| {
            facts.scheduled = false;
            facts.unschedulable = true;
            facts.created = ago(seconds);
            facts.phase = Phase::Pending;
        })
    }

    pub(super) fn leaving(self) -> Self {
        self.with(|facts| facts.deleting = Some(NOW.plus_seconds(30)))
    }

    pub(super) fn failed(self, seconds: i64) -> Self {
        self.not_ready().with(|facts| {
            facts.phase = Phase::Failed;
            facts.ended = Some(ago(seconds));
        })
    }

    pub(super) fn orphaned(self) -> Self {
        self.with(|facts| facts.owner = PodOwner::Nobody)
    }

    pub(super) fn drifted(mut self) -> Self {
        self.as_wanted = false;
        self
    }
}

/// A cluster with one ExtendedDaemonSet `foo`, whose replica set `v1` is active for an hour, and whose budget is wide.
pub(super) struct Cluster {
    pub(super) seen: Observed,
}

pub(super) fn cluster(nodes: &[&str]) -> Cluster {
    let mut seen = Observed {
        nodes: nodes.iter().map(|name| Arc::new(node(name))).collect(),
        pod_template: Some(PodTemplateFacts { ours: true, template_hash: "v1".to_owned() }),
        ..Observed::default()
    };
    seen.set.name = "foo".to_owned();
    seen.set.generation = 1;
    seen.set.template_hash = "v1".to_owned();
    seen.set.status.active_replica_set = "v1".to_owned();
    seen.set.strategy.slow_start_increase = Amount::Count(250);
    let mut first = replica_set("v1");
    first.same_template = true;
    first.status.conditions = vec![condition(condition::ACTIVE, "True", ago(3600))];
    seen.replica_sets = vec![first];
    Cluster { seen }
}

/// The same, where each node has a ready pod of the active replica set.
pub(super) fn settled(nodes: &[&str]) -> Cluster {
    let pods: Vec<PodOf> = nodes.iter().map(|name| pod(&format!("p-{name}"), name, "v1")).collect();
    cluster(nodes).pods(pods)
}

impl Cluster {
    pub(super) fn with(mut self, change: impl FnOnce(&mut Observed)) -> Self {
        change(&mut self.seen);
        self
    }

    pub(super) fn pods(mut self, pods: impl IntoIterator<Item = PodOf>) -> Self {
        self.seen.pods.extend(
            pods.into_iter().map(|pod| ObservedPod { facts: Arc::new(pod.facts), as_wanted: pod.as_wanted }),
        );
        self
    }

    /// The pod of that name, changed.
    pub(super) fn pod(mut self, name: &str, change: impl FnOnce(PodOf) -> PodOf) -> Self {
        let found = self.seen.pods.iter_mut().find(|pod| pod.facts.name == name).unwrap();
        let changed = change(PodOf { facts: found.facts.as_ref().clone(), as_wanted: found.as_wanted });
        *found = ObservedPod { facts: Arc::new(changed.facts), as_wanted: changed.as_wanted };
        self
    }

    pub(super) fn node(mut self, name: &str, change: impl FnOnce(&mut NodeFacts)) -> Self {
        let found = self.seen.nodes.iter_mut().find(|node| node.name == name).unwrap();
        change(Arc::make_mut(found));
        self
    }

    /// A new template `v2`, whose replica set is there.
    pub(super) fn updated(self) -> Self {
        self.with(|seen| {
            seen.set.generation = 2;
            seen.set.template_hash = "v2".to_owned();
            seen.replica_sets[0].same_template = false;
            let mut newest = replica_set("v2");
            newest.same_template = true;
            newest.created = ago(1);
            seen.replica_sets.push(newest);
        })
    }

    /// The new template has been active for an hour, so that the slow start is over.
    pub(super) fn rolling(self) -> Self {
        self.updated().with(|seen| {
            seen.set.status.active_replica_set = "v2".to_owned();
            seen.replica_sets[1].status.conditions = vec![condition(condition::ACTIVE, "True", ago(3600))];
        })
    }

    pub(super) fn max_unavailable(self, amount: Amount) -> Self {
        self.with(|seen| seen.set.strategy.max_unavailable = amount)
    }

    pub(super) fn annotated(self, key: &str, value: &str) -> Self {
        self.with(|seen| {
            seen.set.annotations.insert(key.to_owned(), value.to_owned());
        })
    }

    pub(super) fn placed(self, replica_set: usize, spec: serde_json::Value) -> Self {
        self.with(|seen| {
            seen.replica_sets[replica_set].placement = Some(Arc::new(Placement::read(&spec).unwrap()));
        })
    }

    pub(super) fn min_ready(self, seconds: u64) -> Self {
        self.with(|seen| seen.set.strategy.min_ready = Duration::from_secs(seconds))
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.seen, NOW)
    }

    /// What the plan makes and takes, as words: `+node` and `-pod`.
    pub(super) fn moves(&self) -> Vec<String> {
        moves(&self.plan())
    }
}

pub(super) fn moves(plan: &Plan) -> Vec<String> {
    let mut moves: Vec<String> =
        plan.creations.iter().map(|creation| format!("+{}", creation.node)).collect();
    moves.extend(plan.deletions.iter().map(|deletion| format!("-{}", deletion.pod.name)));
    moves.sort();
    moves
}

/// A template that runs only on nodes with this label.
pub(super) fn on_pool(pool: &str) -> serde_json::Value {
    json!({"nodeSelector": {"pool": pool}})
}
