//! The trial of a new template.

mod ending;
mod health;
mod nodes;
mod pausing;
mod running;

use std::time::Duration;

use podwright_api::{
    config::ValidationMode,
    eds::{
        Amount, Canary, CanaryStatus, EffectiveCanary, ExtendedDaemonSetReplicaSetStatus,
        ExtendedDaemonSetSpec, Strategy, find_condition, words::condition,
    },
};

use super::cluster::{Cluster, PodOf, ago, condition, pod, settled};
use crate::rollout::plan::{ContainerEnd, ContainerFacts, Plan};

/// A canary with its defaults.
pub(super) fn strategy() -> EffectiveCanary {
    let strategy = Strategy { canary: Some(Canary::default()), ..Strategy::default() };
    let spec = ExtendedDaemonSetSpec { strategy, ..ExtendedDaemonSetSpec::default() };
    spec.effective(ValidationMode::Auto).0.canary.unwrap()
}

/// Four nodes with the old version, and the new one about to be tried on one of them for ten minutes.
fn new() -> Cluster {
    settled(&["a", "b", "c", "d"]).updated().with(|seen| {
        seen.set.strategy.canary = Some(strategy());
        seen.set.strategy.max_unavailable = Amount::Count(4);
    })
}

/// The same, under way for two minutes on these nodes, where its pods run.
fn tried(nodes: &[&str]) -> Cluster {
    begun(nodes).pods_on(nodes)
}

/// The same, but its pods are not there yet.
fn begun(nodes: &[&str]) -> Cluster {
    new().with(|seen| {
        let count = u32::try_from(nodes.len()).unwrap();
        seen.set.strategy.canary.as_mut().unwrap().replicas = Amount::Count(count);
        let nodes = nodes.iter().map(|name| (*name).to_owned()).collect();
        seen.set.status.canary =
            Some(CanaryStatus { replica_set: "v2".into(), nodes, ..CanaryStatus::default() });
        seen.replica_sets[1].created = ago(120);
        seen.replica_sets[1].status.conditions = vec![condition(condition::CANARY, "True", ago(120))];
    })
}

impl Cluster {
    /// The trial's pods run on these nodes instead of the old ones.
    fn pods_on(self, nodes: &[&str]) -> Self {
        nodes.iter().fold(self, |cluster, node| cluster.pod(&format!("p-{node}"), |_| trial_pod(node)))
    }

    fn canary(self, change: impl FnOnce(&mut EffectiveCanary)) -> Self {
        self.with(|seen| change(seen.set.strategy.canary.as_mut().unwrap()))
    }

    fn trial_condition(self, type_: &str, reason: &str, seconds_ago: i64) -> Self {
        self.with(|seen| {
            let mut stored = condition(type_, "True", ago(seconds_ago));
            stored.reason = reason.to_owned();
            seen.replica_sets[1].status.conditions.push(stored);
        })
    }

    /// It has been tried since then.
    fn begun_ago(self, seconds: i64) -> Self {
        self.with(|seen| {
            seen.replica_sets[1].created = ago(seconds);
            seen.replica_sets[1].status.conditions[0] = condition(condition::CANARY, "True", ago(seconds));
        })
    }

    fn gone(self, pod: &str) -> Self {
        self.with(|seen| seen.pods.retain(|known| known.facts.name != pod))
    }

    /// What is planned is stored, as the controller does it.
    fn stored(self) -> Self {
        let plan = self.plan();
        self.with(|seen| {
            if let Some(status) = plan.status {
                seen.set.status = status;
            }
            for (name, status) in plan.replica_set_statuses {
                seen.replica_sets.iter_mut().find(|known| known.name == name).unwrap().status = status;
            }
        })
    }
}

fn trial_pod(node: &str) -> PodOf {
    pod(&format!("p-{node}"), node, "v2").with(|facts| {
        facts.created = ago(110);
        facts.started = Some(ago(110));
        facts.ready_since = Some(ago(100));
        facts.canary_label = true;
    })
}

impl PodOf {
    /// A container has restarted so often, last so many seconds ago.
    fn restarted(self, times: u32, reason: &str, seconds_ago: i64) -> Self {
        self.with(|facts| {
            facts.containers.push(ContainerFacts {
                name: "main".into(),
                restarts: times,
                last_end: Some(ContainerEnd { reason: reason.into(), at: Some(ago(seconds_ago)) }),
                waiting: None,
            });
        })
    }

    fn waiting(self, reason: &str) -> Self {
        self.not_ready().with(|facts| {
            facts.containers.push(ContainerFacts {
                name: "main".into(),
                waiting: Some(reason.into()),
                ..ContainerFacts::default()
            });
        })
    }
}

fn status_of(plan: &Plan, name: &str) -> ExtendedDaemonSetReplicaSetStatus {
    plan.replica_set_statuses.iter().find(|(known, _)| known == name).unwrap().1.clone()
}

/// The reason of a condition of the replica set on trial, if it holds.
fn reason(plan: &Plan, type_: &str) -> Option<String> {
    let status = status_of(plan, "v2");
    find_condition(&status.conditions, type_)
        .filter(|known| known.is_true())
        .map(|known| known.reason.clone())
}

fn minutes(number: u64) -> Duration {
    Duration::from_secs(number * 60)
}
