//! Running pods whose template or node has changed.

use super::*;

fn resources(cpu: &str, memory: &str) -> Value {
    let list = json!({"cpu": cpu, "memory": memory});
    json!({"requests": list, "limits": list})
}

fn running(resources: Value) -> PodView {
    pod(json!({"nodeName": "n", "containers": [{"name": "a", "resources": resources}]}))
}

/// Half of the cpu and a quarter of the memory of four cores and 16Gi.
fn half(more: Value) -> FlexDaemonsetTemplateSpec {
    let mut spec = sample(more);
    (spec.cpu_percentage, spec.memory_percentage) = (50, 25);
    spec
}

fn without_storage(more: Value) -> FlexDaemonsetTemplateSpec {
    let mut spec = half(more);
    spec.managed_resources = vec![ManagedResource::Cpu, ManagedResource::Memory];
    spec
}

fn found(pod: &PodView, spec: &FlexDaemonsetTemplateSpec) -> Drift {
    drift(pod, spec, &four_cores()).unwrap()
}

fn reason(drift: Drift) -> String {
    match drift {
        Drift::Recreate { reason } => reason,
        other => panic!("{other:?}"),
    }
}

fn resized(drift: Drift) -> Vec<(String, bool, Value)> {
    match drift {
        Drift::Resize { containers } => containers
            .into_iter()
            .map(|one| (one.name, one.init, serde_json::to_value(one.resources).unwrap()))
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_with_its_share_is_left_alone_however_its_amounts_are_written() {
    let spec = without_storage(json!({}));
    assert_eq!(found(&running(resources("2000m", "4096Mi")), &spec), Drift::None);
}

#[test]
fn cpu_and_memory_are_resized_in_place() {
    let spec = without_storage(json!({}));
    let mut with_gpu = resources("400m", "4Gi");
    with_gpu["limits"]["nvidia.com/gpu"] = json!("1");
    assert_eq!(resized(found(&running(with_gpu), &spec)), [("a".to_owned(), false, resources("2", "4Gi"))]);
}

#[test]
fn ephemeral_storage_takes_a_new_pod_and_says_why() {
    let reason = reason(found(&running(resources("2", "4Gi")), &half(json!({}))));
    assert_eq!(
        reason,
        "container a should have ephemeral-storage 5Gi and has 0, and only cpu and memory can be resized in place"
    );
}

#[test]
fn a_pod_that_came_while_we_were_away_takes_a_new_pod_if_its_class_would_change() {
    let spec = without_storage(json!({}));
    assert!(reason(found(&running(json!({})), &spec)).contains("from BestEffort to Guaranteed"));
    let burstable = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    assert!(reason(found(&running(burstable.clone()), &spec)).contains("from Burstable to Guaranteed"));
    let requests_only = without_storage(json!({"limits": "RequestsOnly"}));
    assert_eq!(
        resized(found(&running(burstable), &requests_only)),
        [("a".to_owned(), false, json!({"requests": {"cpu": "2", "memory": "4Gi"}}))]
    );
}

#[test]
fn sidecars_are_resized_and_init_containers_that_end_are_not_looked_at() {
    let spec = without_storage(json!({}));
    let pod = pod(json!({
        "containers": [{"name": "a", "resources": resources("2", "4Gi")}],
        "initContainers": [
            {"name": "i", "resources": resources("400m", "1Gi")},
            {"name": "s", "restartPolicy": "Always", "resources": resources("400m", "1Gi")},
        ],
    }));
    assert_eq!(resized(found(&pod, &spec)), [("s".to_owned(), true, resources("2", "4Gi"))]);
}

#[test]
fn what_a_resize_would_have_to_take_away_takes_a_new_pod() {
    let spec = without_storage(json!({"applyTo": "PodTotal"}));
    let pod = pod(json!({"containers": [
        {"name": "tiny", "resources": resources("1m", "1Gi")}, {"name": "big", "resources": resources("10k", "1Gi")},
    ]}));
    let reason = reason(found(&pod, &spec));
    assert!(reason.starts_with("container tiny should have no cpu of its own"), "{reason}");
}

#[test]
fn a_peer_pod_is_left_alone_because_its_resources_are_its_vms() {
    let mut pod = running(json!({}));
    pod.metadata.annotations = Some([("podwright.io/peer-pod-record".to_owned(), "{}".to_owned())].into());
    assert_eq!(found(&pod, &half(json!({}))), Drift::None);
}

#[test]
fn an_invalid_template_moves_no_pod() {
    let invalid = half(json!({"minCPU": "much"}));
    assert!(drift(&running(json!({})), &invalid, &four_cores()).is_err());
}
