//! Rules, pods and nodes for tests.

use std::sync::Arc;

use podwright_api::distributor::{PodDistributorSpec, PodDistributorStatus};
use serde_json::{Value, json};

use super::{Mark, Member, NodeRoom, Phase, Requests, Rule};
use crate::pod::OwnerReference;

/// A rule for the Deployment `web` with an entry `pool=a`, `pool=b`... for each weight, and what else is in its spec. In force since 0.
pub(super) fn rule(weights: &[u32], more: &Value) -> Rule {
    let mut spec = json!({
        "distribution": weights
            .iter()
            .zip('a'..)
            .map(|(weight, pool)| json!({"nodeLabel": {"pool": pool.to_string()}, "weight": weight}))
            .collect::<Vec<_>>(),
        "target": {"name": "web"},
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let spec: PodDistributorSpec = serde_json::from_value(spec).unwrap();
    Rule {
        namespace: "default".to_owned(),
        name: "rule".to_owned(),
        created: 0,
        generation: Some(1),
        status: PodDistributorStatus {
            target: Some(spec.target.title()),
            in_force_since: Some(0),
            ..PodDistributorStatus::default()
        },
        spec,
    }
}

/// A pod of the Deployment's ReplicaSet that runs and is ready on the node `node-<pool>`, where admission sent it.
pub(super) fn pod(name: &str, pool: &str) -> Member {
    Member {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        owner: Some(owner("ReplicaSet")),
        revision: "r1".to_owned(),
        mark: Some(Mark {
            rule: "rule".to_owned(),
            entry: format!("pool={pool}"),
            ticket: format!("t-{name}"),
        }),
        node_selector: [("pool".to_owned(), pool.to_owned())].into(),
        node: Some(format!("node-{pool}")),
        phase: Phase::Running,
        ready: true,
        requests: Requests { cpu: 100, memory: 0 },
        ..Member::default()
    }
}

/// The same before it has a node, and with no hope of one since then.
pub(super) fn stuck(name: &str, pool: &str, since: i64) -> Member {
    Member {
        node: None,
        phase: Phase::Pending,
        ready: false,
        unschedulable_since: Some(since),
        ..pod(name, pool)
    }
}

/// A pod that no webhook has seen, on a node of this pool.
pub(super) fn unmarked(name: &str, pool: &str) -> Member {
    Member { mark: None, node_selector: [].into(), ..pod(name, pool) }
}

/// Its controller.
pub(super) fn owner(kind: &str) -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        name: "web-1".to_owned(),
        controller: Some(true),
    }
}

/// The node of a pool with room for so many pods.
pub(super) fn node(pool: &str, room: u64) -> NodeRoom {
    NodeRoom {
        name: format!("node-{pool}"),
        labels: Arc::new([("pool".to_owned(), pool.to_owned())].into()),
        taints: Vec::new(),
        ready_and_schedulable: true,
        free: Requests { cpu: 100 * room, memory: 1 << 30 },
        free_pods: 110,
    }
}
