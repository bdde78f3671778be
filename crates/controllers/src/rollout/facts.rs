//! Objects as the planner sees them, read once for each change.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{ContainerStatus, Node, PodStatus};
use kube::ResourceExt;
use podwright_api::{Moment, keys};
use podwright_core::{
    node::Taint,
    rollout::{
        overrides::PodRecord,
        plan::{ContainerEnd, ContainerFacts, NodeFacts, Phase, PodFacts, PodOwner},
    },
};

use super::pod::DaemonPod;

/// The field by which a pod is bound to its node before it is scheduled.
const NODE_NAME: &str = "metadata.name";

/// A pod as the planner sees it, and what it was made with.
#[derive(Clone, Debug)]
pub(super) struct KnownPod {
    pub(super) facts: Arc<PodFacts>,
    pub(super) record: PodRecord,
}

/// The pod, as it is kept.
pub(super) fn pod(pod: &DaemonPod) -> KnownPod {
    let containers = || {
        let resources = pod.spec.containers.iter().map(|container| {
            let resources = serde_json::to_value(&container.resources).unwrap_or_default();
            (container.name.clone(), resources)
        });
        resources.collect()
    };
    let record = PodRecord::read(pod.labels(), pod.annotations(), containers);
    KnownPod { facts: Arc::new(planned(pod)), record }
}

fn planned(pod: &DaemonPod) -> PodFacts {
    let status = &pod.status;
    let condition = |kind: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == kind);
    let bound = pod.spec.node_name.clone().filter(|name| !name.is_empty());
    let ordinary = status.container_statuses.iter().flatten();
    let all = ordinary.clone().chain(status.init_container_statuses.iter().flatten());
    let all = all.chain(status.ephemeral_container_statuses.iter().flatten());
    let phase = phase(status.phase.as_deref());
    let failures = pod.annotations().get(keys::EDS_POD_FAILURES).and_then(|count| count.parse().ok());
    let unschedulable = condition("PodScheduled")
        .is_some_and(|found| found.status == "False" && found.reason.as_deref() == Some("Unschedulable"));
    PodFacts {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        scheduled: bound.is_some(),
        node: bound.or_else(|| meant_for(pod)),
        owner: owner(pod),
        template_hash: pod.annotations().get(keys::EDS_TEMPLATE_HASH).cloned().unwrap_or_default(),
        failures: failures.unwrap_or(0),
        created: moment(pod.metadata.creation_timestamp.as_ref()).unwrap_or_default(),
        started: moment(status.start_time.as_ref()),
        phase,
        ready_since: condition("Ready")
            .filter(|ready| ready.status == "True")
            .map(|ready| moment(ready.last_transition_time.as_ref()).unwrap_or_default()),
        ended: matches!(phase, Phase::Failed | Phase::Succeeded).then(|| end_of(status)).flatten(),
        deleting: moment(pod.metadata.deletion_timestamp.as_ref()),
        unschedulable,
        canary_label: pod.labels().get(keys::EDS_CANARY).is_some_and(|value| value == "true"),
        restarts: ordinary.map(restarts).sum(),
        containers: all.filter_map(container).collect(),
    }
}

fn moment(time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>) -> Option<Moment> {
    time.map(|time| time.0.into())
}

fn phase(phase: Option<&str>) -> Phase {
    match phase {
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        Some("Unknown") => Phase::Unknown,
        _ => Phase::Pending,
    }
}

/// The node that its affinity names.
fn meant_for(pod: &DaemonPod) -> Option<String> {
    let affinity = pod.spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let mut named = fields.filter(|field| field.key == NODE_NAME && field.operator == "In");
    named.find_map(|field| field.values.as_ref()?.first().cloned())
}

fn owner(pod: &DaemonPod) -> PodOwner {
    let owners = pod.owner_references();
    match owners.iter().find(|owner| owner.controller == Some(true)).or_else(|| owners.first()) {
        None => PodOwner::Nobody,
        Some(owner) if owner.kind == "ExtendedDaemonSetReplicaSet" => PodOwner::ReplicaSet(owner.uid.clone()),
        Some(owner) if owner.kind == "DaemonSet" => PodOwner::DaemonSet(owner.uid.clone()),
        Some(_) => PodOwner::Another,
    }
}

fn end_of(status: &PodStatus) -> Option<Moment> {
    let containers = status.container_statuses.iter().flatten();
    let ends =
        containers.filter_map(|one| moment(one.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()));
    let changes = status.conditions.iter().flatten();
    ends.chain(changes.filter_map(|condition| moment(condition.last_transition_time.as_ref()))).max()
}

fn restarts(status: &ContainerStatus) -> u32 {
    u32::try_from(status.restart_count).unwrap_or(0)
}

/// Only those that restarted or wait are of interest.
fn container(status: &ContainerStatus) -> Option<ContainerFacts> {
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let facts = ContainerFacts {
        name: status.name.clone(),
        restarts: restarts(status),
        last_end: last.map(|end| ContainerEnd {
            reason: end.reason.clone().unwrap_or_default(),
            at: moment(end.finished_at.as_ref()),
        }),
        waiting: waiting.map(|waiting| waiting.reason.clone().unwrap_or_default()),
    };
    (facts.restarts > 0 || facts.waiting.is_some()).then_some(facts)
}

/// A node as the planner sees it, and the resources that its annotations give to containers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct KnownNode {
    pub(super) facts: Arc<NodeFacts>,
    /// Annotations that override resources.
    pub(super) overrides: BTreeMap<String, String>,
}

/// The node as the planner sees it.
pub(super) fn node(node: &Node) -> KnownNode {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
    let facts = NodeFacts {
        name: node.name_any(),
        labels: node.labels().clone(),
        taints: taints
            .map(|taint| Taint {
                key: taint.key.clone(),
                value: taint.value.clone().unwrap_or_default(),
                effect: taint.effect.clone(),
            })
            .collect(),
        ready,
    };
    let overrides =
        node.annotations().iter().filter(|(key, _)| key.starts_with(keys::EDS_NODE_OVERRIDE_PREFIX));
    let overrides = overrides.map(|(key, value)| (key.clone(), value.clone())).collect();
    KnownNode { facts: facts.into(), overrides }
}
