//! What can be configured, and what is said to the user.

use super::*;
use crate::mutate::Verdict;

fn with_requests() -> Value {
    peer_pod(json!([container(
        "app",
        json!({"cpu": "2", "memory": "4Gi"}),
        json!({"cpu": "3", "memory": "5Gi"})
    )]))
}

#[test]
fn the_users_own_sizing_annotations_give_way_or_win_by_the_switch() {
    let mut pod = with_requests();
    pod["metadata"]["annotations"] = json!({keys::VM_VCPUS: "16", "other": "stays"});
    let replaced = mutated(&by_default(), &pod);
    assert_eq!(annotation(&replaced, keys::VM_VCPUS), Some("3"));
    assert_eq!(annotation(&replaced, "other"), Some("stays"));
    let warnings = review(&by_default(), &pod).warnings;
    assert!(warnings.iter().any(|warning| warning.contains("default_vcpus=16 replaced")), "{warnings:?}");

    let kept = mutated(&peer_pods(json!({"overrideAnnotations": false})), &pod);
    assert_eq!(size(&kept), (Some("16"), Some("5120"), None));
}

#[test]
fn the_users_own_annotations_survive_where_nothing_is_computed() {
    let mut pod = peer_pod(json!([{"name": "app"}]));
    pod["metadata"]["annotations"] = json!({keys::VM_VCPUS: "2", keys::VM_MEMORY: "12288"});
    assert_eq!(size(&mutated(&by_default(), &pod)), (Some("2"), Some("12288"), None));
}

#[test]
fn shrinking_leaves_small_requests_and_the_limits() {
    let rules = peer_pods(json!({"mode": "shrink"}));
    let mut pod = with_requests();
    pod["spec"]["containers"].as_array_mut().unwrap().extend([
        container("tiny", json!({"cpu": "500u", "memory": "10Mi"}), json!({"memory": "512Ki"})),
        container("storing", json!({"ephemeral-storage": "1Gi"}), json!({"ephemeral-storage": "2Gi"})),
    ]);
    let after = mutated(&rules, &pod);
    assert_eq!(
        after["spec"]["containers"][0]["resources"],
        json!({
            "requests": {"cpu": "1m", "memory": "1Mi", "kata.peerpods.io/vm": "1"},
            "limits": {"cpu": "3", "memory": "5Gi", "kata.peerpods.io/vm": "1"},
        })
    );
    assert_eq!(
        after["spec"]["containers"][1]["resources"],
        json!({"requests": {"cpu": "500u", "memory": "512Ki"}, "limits": {"memory": "512Ki"}})
    );
    assert_eq!(after["spec"]["containers"][2]["resources"], json!({}));
    assert_eq!(size(&after), (Some("3"), Some("5121"), None));
}

#[test]
fn amounts_to_shrink_to_must_be_positive_quantities() {
    for (config, part) in [
        (json!({"mode": "shrink", "shrinkTo": {"cpu": "lots"}}), "peerPods.shrinkTo.cpu"),
        (json!({"mode": "shrink", "shrinkTo": {"memory": "0"}}), "mode: strip"),
    ] {
        let error = PeerPods::new(&serde_json::from_value(config).unwrap()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn effective_sizing_counts_what_runs_at_one_time() {
    let rules = peer_pods(json!({"sizing": "effective"}));
    let mut pod = peer_pod(json!([
        container("a", json!({"cpu": "2"}), json!({})),
        container("b", json!({"cpu": "1"}), json!({"cpu": "4"})),
    ]));
    assert_eq!(annotation(&mutated(&rules, &pod), keys::VM_VCPUS), Some("6"), "max(request, limit) of each");
    let sidecar = |name, cpu| {
        let mut container = container(name, json!({"cpu": cpu}), json!({}));
        container["restartPolicy"] = json!("Always");
        container
    };
    pod["spec"]["initContainers"] = json!([
        sidecar("early", "1"),
        container("heavy", json!({"cpu": "10"}), json!({})),
        sidecar("late", "3"),
    ]);
    assert_eq!(
        annotation(&mutated(&rules, &pod), keys::VM_VCPUS),
        Some("11"),
        "init beside the earlier sidecar"
    );
    pod["spec"]["initContainers"][1] = container("light", json!({"cpu": "1"}), json!({}));
    assert_eq!(
        annotation(&mutated(&rules, &pod), keys::VM_VCPUS),
        Some("10"),
        "all sidecars beside all containers"
    );
}

#[test]
fn resources_of_the_pod_as_a_whole_size_the_vm_and_leave_the_node() {
    let mut pod = with_requests();
    pod["spec"]["resources"] = json!({"requests": {"cpu": "4"}, "limits": {"cpu": "6"}});
    for sizing in ["sum", "effective"] {
        let after = mutated(&peer_pods(json!({"sizing": sizing})), &pod);
        assert_eq!(size(&after), (Some("6"), Some("5120"), None));
        assert_eq!(after["spec"]["resources"], json!({}));
    }
    pod["spec"]["containers"].as_array_mut().unwrap().push(container("b", json!({"cpu": "1"}), json!({})));
    let after = mutated(&peer_pods(json!({"mode": "shrink"})), &pod);
    assert_eq!(after["spec"]["resources"], json!({"requests": {"cpu": "2m"}, "limits": {"cpu": "6"}}));
}

#[test]
fn local_resources_stay_and_other_devices_are_passed_on_or_warned_about() {
    let rules = peer_pods(json!({
        "keep": ["example.com/local"],
        "devices": {"nvidia.com/gpu": keys::VM_GPUS, "amd.com/gpu": "example.com/amd-gpus"},
    }));
    let all = json!({"example.com/local": "1", "amd.com/gpu": "2", "intel.com/qat": "1", "cpu": "1", "memory": "1Gi"});
    let pod = peer_pod(json!([container("a", all.clone(), all.clone()), container("b", all.clone(), all)]));
    let after = mutated(&rules, &pod);
    assert_eq!(annotation(&after, "example.com/amd-gpus"), Some("4"));
    assert_eq!(
        after["spec"]["containers"][1]["resources"],
        json!({"requests": {"example.com/local": "1"}, "limits": {"example.com/local": "1"}})
    );
    let warnings = review(&rules, &pod).warnings;
    assert!(warnings.iter().any(|warning| warning.contains("intel.com/qat removed")), "{warnings:?}");
    assert!(!warnings.iter().any(|warning| warning.contains("example.com/local")), "{warnings:?}");
}

#[test]
fn claims_stay_with_a_warning() {
    let pod = peer_pod(json!([{"name": "app", "resources": {"claims": [{"name": "gpu"}]}}]));
    let after = mutated(&by_default(), &pod);
    assert_eq!(after["spec"]["containers"][0]["resources"]["claims"], json!([{"name": "gpu"}]));
    let warnings = review(&by_default(), &pod).warnings;
    assert!(
        warnings.iter().any(|warning| warning.contains("app keep their resource claims")),
        "{warnings:?}"
    );
}

#[test]
fn variables_that_read_limits_become_the_numbers_asked_for() {
    let mut pod = with_requests();
    let reading = |name: &str, resource: &str, divisor: Value| json!({"name": name, "valueFrom": {"resourceFieldRef": {"resource": resource, "divisor": divisor}}});
    pod["spec"]["containers"][0]["env"] = json!([
        {"name": "PLAIN", "value": "x"},
        reading("CPU", "limits.cpu", json!("0")),
        reading("MILLIS", "requests.cpu", json!("1m")),
        reading("MIB", "limits.memory", json!("1Mi")),
        reading("UNSET", "limits.ephemeral-storage", json!("0")),
        {"name": "OTHER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]);
    pod["spec"]["initContainers"] = json!([{
        "name": "init",
        "env": [{"name": "BYTES", "valueFrom": {"resourceFieldRef": {"containerName": "app", "resource": "requests.memory"}}}],
    }]);
    let literal = mutated(&peer_pods(json!({"downwardApi": "literal"})), &pod);
    let env = &literal["spec"]["containers"][0]["env"];
    assert_eq!(env[1], json!({"name": "CPU", "value": "3"}));
    assert_eq!(env[2], json!({"name": "MILLIS", "value": "2000"}));
    assert_eq!(env[3], json!({"name": "MIB", "value": "5120"}));
    assert_eq!(env[4], pod["spec"]["containers"][0]["env"][4], "it never was the user's number");
    assert_eq!(env[5], pod["spec"]["containers"][0]["env"][5]);
    assert_eq!(
        literal["spec"]["initContainers"][0]["env"][0],
        json!({"name": "BYTES", "value": "4294967296"})
    );

    let kept = mutated(&by_default(), &pod);
    assert_eq!(kept["spec"]["containers"][0]["env"], pod["spec"]["containers"][0]["env"]);
    let warnings = review(&by_default(), &pod).warnings;
    assert!(warnings.iter().any(|warning| warning.contains("variables of init, app")), "{warnings:?}");
    pod["spec"]["containers"][0]["env"] = json!([reading("CPU", "limits.cpu", json!("0"))]);
    let warnings = review(&peer_pods(json!({"mode": "shrink"})), &pod).warnings;
    assert!(
        warnings.iter().any(|warning| warning.contains("variables of init that")),
        "only requests shrink: {warnings:?}"
    );
}

#[test]
fn files_that_read_limits_are_warned_about() {
    let mut pod = with_requests();
    pod["spec"]["volumes"] = json!([{"name": "info", "downwardAPI": {"items": [
        {"path": "mem", "resourceFieldRef": {"containerName": "app", "resource": "limits.memory"}}]}}]);
    let warnings = review(&by_default(), &pod).warnings;
    assert!(warnings.iter().any(|warning| warning.contains("volume info")), "{warnings:?}");
}

#[test]
fn the_warning_says_what_was_removed_and_what_the_vm_has() {
    let outcome = review(&by_default(), &with_requests());
    assert_eq!(outcome.warnings, ["peer pod: removed cpu=2 memory=4Gi; the VM has 3 vCPU / 5120 MiB"]);
    assert_eq!(outcome.audit["peer-pod-vm"], "3 vCPU / 5120 MiB");
    assert_eq!(outcome.verdict(), Verdict::Mutated);
    let half = review(&by_default(), &peer_pod(json!([container("a", json!({"cpu": "1"}), json!({}))])));
    assert!(
        half.warnings.iter().any(|warning| warning.contains("no memory is requested")),
        "{:?}",
        half.warnings
    );
    let bare = review(&by_default(), &peer_pod(json!([{"name": "a"}])));
    assert_eq!(bare.warnings, ["peer pod: asks for no resources; the VM has the provider's default size"]);
}

#[test]
fn a_running_peer_pod_cannot_be_resized_onto_the_node() {
    let denied = asked(&by_default(), Ask::Resize, &with_requests());
    assert_eq!(denied.verdict(), Verdict::Denied);
    assert!(denied.denial.unwrap().contains("Delete the pod"));
    let settled = mutated(&by_default(), &with_requests());
    assert_eq!(asked(&by_default(), Ask::Resize, &settled).verdict(), Verdict::Unchanged);
    let shrink = peer_pods(json!({"mode": "shrink"}));
    let settled = mutated(&shrink, &with_requests());
    assert_eq!(asked(&shrink, Ask::Resize, &settled).verdict(), Verdict::Unchanged);
}
