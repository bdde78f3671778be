//! What a template can say beyond FlexDaemonsets' own fields, and who gets what.

use super::*;

fn full() -> Value {
    let list = json!({"cpu": "400m", "memory": "2576980377", "ephemeral-storage": "5Gi"});
    json!({"requests": list, "limits": list})
}

fn asking(name: &str, cpu: &str) -> Value {
    json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
}

/// Only cpu, so that results are short.
fn cpu(more: Value) -> FlexDaemonsetTemplateSpec {
    let mut spec = sample(more);
    spec.managed_resources = vec![ManagedResource::Cpu];
    spec
}

fn requests(list: &[Value]) -> Vec<Value> {
    list.iter().map(|one| one["requests"]["cpu"].clone()).collect()
}

#[test]
fn every_container_and_init_container_gets_the_whole_figure_as_request_and_limit() {
    let pod = pod(json!({
        "containers": [{"name": "a"}, asking("b", "8")],
        "initContainers": [{"name": "i", "resources": {}}, {"name": "s", "restartPolicy": "Always"}],
    }));
    assert_eq!(sized(&sample(json!({})), &pod), (vec![full(), full()], vec![full(), full()]));
}

#[test]
fn what_is_not_ours_stays() {
    let pod = pod(json!({"containers": [{"name": "a", "resources": {
        "requests": {"nvidia.com/gpu": "1", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi", "memory": "2Gi"},
    }}]}));
    assert_eq!(
        sized(&cpu(json!({})), &pod).0,
        [json!({
            "requests": {"nvidia.com/gpu": "1", "memory": "1Gi", "cpu": "400m"},
            "limits": {"nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi", "memory": "2Gi", "cpu": "400m"},
        })]
    );
}

#[test]
fn containers_can_be_chosen_and_init_containers_left_out() {
    let pod = pod(json!({
        "containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "initContainers": [{"name": "i"}],
    }));
    let choice = sample(json!({"containers": {"exclude": ["b"]}, "initContainers": false}));
    assert_eq!(sized(&choice, &pod), (vec![full(), Value::Null, full()], vec![Value::Null]));
    let choice = sample(json!({"containers": {"include": ["b", "i"]}}));
    assert_eq!(sized(&choice, &pod), (vec![Value::Null, full(), Value::Null], vec![full()]));
}

#[test]
fn requests_only_leaves_limits_unless_they_would_be_below() {
    let pod = pod(json!({"containers": [
        {"name": "none"},
        {"name": "above", "resources": {"limits": {"cpu": "1"}}},
        {"name": "below", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}},
    ]}));
    assert_eq!(
        sized(&cpu(json!({"limits": "RequestsOnly"})), &pod).0,
        [
            json!({"requests": {"cpu": "400m"}}),
            json!({"requests": {"cpu": "400m"}, "limits": {"cpu": "1"}}),
            json!({"requests": {"cpu": "400m"}, "limits": {"cpu": "400m"}}),
        ]
    );
}

#[test]
fn a_pods_total_is_divided_by_what_its_containers_ask_for() {
    let total = cpu(json!({"applyTo": "PodTotal"}));
    let containers = |list: Value| requests(&sized(&total, &pod(json!({"containers": list}))).0);
    assert_eq!(containers(json!([asking("a", "1"), asking("b", "3")])), ["100m", "300m"]);
    assert_eq!(containers(json!([asking("a", "100m"), asking("b", "200m")])), ["133m", "267m"]);
    assert_eq!(containers(json!([{"name": "a"}, {"name": "b"}, {"name": "c"}])), ["134m", "133m", "133m"]);
    let limited = json!({"name": "b", "resources": {"limits": {"cpu": "1"}}});
    assert_eq!(containers(json!([asking("a", "1"), limited])), ["200m", "200m"]);
}

#[test]
fn who_gets_nothing_of_a_pods_total_asks_for_nothing() {
    let total = cpu(json!({"applyTo": "PodTotal"}));
    let tiny = json!({"name": "tiny", "resources": {"requests": {"cpu": "1m", "x/y": "1"}, "limits": {"cpu": "1m"}}});
    let (containers, _) = sized(&total, &pod(json!({"containers": [tiny, asking("big", "10k")]})));
    assert_eq!(containers[0], json!({"requests": {"x/y": "1"}, "limits": {}}));
    assert_eq!(containers[1]["requests"]["cpu"], "400m");
}

#[test]
fn at_no_time_is_more_asked_for_than_a_pods_total() {
    let total = cpu(json!({"applyTo": "PodTotal"}));
    let mut sidecar = asking("sidecar", "1");
    sidecar["restartPolicy"] = json!("Always");
    let pod = pod(json!({
        "initContainers": [asking("first", "9"), sidecar, {"name": "second"}], "containers": [asking("main", "3")],
    }));
    let (containers, init) = sized(&total, &pod);
    assert_eq!(requests(&init), ["400m", "100m", "300m"]);
    assert_eq!(requests(&containers), ["300m"]);
}

#[test]
fn the_first_override_that_selects_the_node_counts_and_what_it_leaves_unset_is_the_templates() {
    let spec = sample(json!({"minMemory": "8Gi", "overrides": [
        {"nodeSelector": {"matchLabels": {"pool": "small"}}, "cpuPercentage": 90},
        {"nodeSelector": {"matchLabels": {"pool": "big"}}, "cpuPercentage": 50, "maxStorage": "1Gi"},
        {"nodeSelector": {}, "cpuPercentage": 1},
    ]}));
    let share = share(&spec, &four_cores()).unwrap();
    assert_eq!(share.overridden, Some(1));
    assert_eq!(
        amounts(&spec, &four_cores()),
        json!({"cpu": "2", "memory": "8Gi", "ephemeral-storage": "1Gi"})
    );
}

fn overridden(annotations: Value, labels: Value) -> PodView {
    let pod = json!({
        "metadata": {
            "annotations": annotations, "labels": labels,
            "ownerReferences": [{"apiVersion": "datadoghq.com/v1alpha1", "kind": "ExtendedDaemonSetReplicaSet", "name": "x"}],
        },
        "spec": {"containers": [asking("agent", "2"), {"name": "helper"}], "initContainers": [asking("i", "1")]},
    });
    PodView::read(&pod.to_string()).unwrap()
}

#[test]
fn explicit_overrides_of_an_extended_daemon_set_win() {
    for pod in [
        overridden(json!({"extendeddaemonset.datadoghq.com/nodehash": "abc"}), json!({})),
        overridden(json!({}), json!({"extendeddaemonsetsetting.datadoghq.com/name": "setting"})),
    ] {
        assert_eq!(sized(&sample(json!({})), &pod), (vec![Value::Null, full()], vec![full()]));
        let share = share(&sample(json!({})), &four_cores()).unwrap();
        assert_eq!(SizedBy::new("t", &share, &pod).kept, ["agent"]);
    }
    let plain = overridden(json!({}), json!({}));
    assert_eq!(sized(&sample(json!({})), &plain).0, [full(), full()]);
}

#[test]
fn a_pod_that_says_which_containers_are_overridden_keeps_no_others() {
    let of = |containers: Value| {
        let said = json!({"digest": "d", "containers": containers}).to_string();
        overridden(
            json!({"extendeddaemonset.datadoghq.com/nodehash": "abc", "podwright.io/overrides": said}),
            json!({}),
        )
    };
    assert_eq!(sized(&sample(json!({})), &of(json!(["helper"]))).0, [full(), Value::Null]);
    assert_eq!(sized(&sample(json!({})), &of(json!([]))).0, [full(), full()]);
}

#[test]
fn once_sized_the_record_tells_which_containers_were_overridden() {
    let record = r#"{"template":"t","node":"n","rules":{},"kept":["helper"]}"#;
    let pod = overridden(
        json!({"extendeddaemonset.datadoghq.com/nodehash": "abc", "podwright.io/sized-by": record}),
        json!({}),
    );
    assert_eq!(sized(&sample(json!({})), &pod).0, [full(), Value::Null]);
}
