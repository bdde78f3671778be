//! Pods as they are counted, read from what a watch of all pods tells.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{api::resource::Quantity as Text, apis::meta::v1::Time};
use kube::ResourceExt;
use podwright_api::{distributor::Toleration, keys};
use podwright_core::{
    distribution::{Mark, Member, Phase, Requests, revision},
    node::NodeTerms,
    pod::DaemonOwner,
    quantity::{Grain, Quantity},
};
use serde::Deserialize;

use super::census::controller_of;
use crate::slim;

/// A pod, of which only this is read.
pub(super) type CountedPod = slim::Pod<SlimSpec, SlimStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SlimSpec {
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
    requests: Option<BTreeMap<String, Text>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SlimStatus {
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

/// The pod as it is counted.
pub(super) fn member(pod: CountedPod) -> Option<Member> {
    let conditions = pod.status.conditions.as_deref().unwrap_or_default();
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
        phase: match pod.status.phase.as_deref() {
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
        // The API server gives only quantities that can be read; another would be of no use.
        requests.filter_map(|requests| requests.get(resource)?.0.parse().ok()).sum::<Quantity>()
    };
    let figure = |amount: Quantity, grain| u64::try_from(amount.floor_grains(grain)).unwrap_or_default();
    Requests { cpu: figure(asked("cpu"), Grain::Milli), memory: figure(asked("memory"), Grain::Byte) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            member(pod.unwrap()).unwrap().required
        };
        let found = read("apps/v1", "ReplicaSet").unwrap();
        assert!(found.match_node("n", &[("disk".to_owned(), "ssd".to_owned())].into()));
        assert!(!found.match_node("n", &BTreeMap::new()));
        assert_eq!(read("apps/v1", "DaemonSet"), None);
        assert_eq!(read("datadoghq.com/v1alpha1", "ExtendedDaemonSetReplicaSet"), None);
    }

    #[test]
    fn an_amount_that_cannot_be_read_does_not_keep_a_pod_from_being_counted() {
        let pod = json!({
            "metadata": {"namespace": "apps", "name": "p"},
            "spec": {"containers": [
                {"resources": {"requests": {"cpu": "250m", "memory": "much"}}}, {"resources": {"requests": {"cpu": "1"}}}, {},
            ]},
        });
        let member = member(serde_json::from_value(pod).unwrap()).unwrap();
        assert_eq!(member.requests, Requests { cpu: 1250, memory: 0 });
    }
}
