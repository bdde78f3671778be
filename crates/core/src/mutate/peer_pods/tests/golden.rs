//! The replaced webhook's own values: they must all hold.

use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn the_vm_is_sized_as_the_peer_pods_webhook_sizes_it() {
    let none = json!({});
    for (case, containers, init, expected) in [
        (
            "requests and limits",
            json!([container(
                "a",
                json!({"cpu": "2", "memory": "4Gi"}),
                json!({"cpu": "3", "memory": "5Gi"})
            )]),
            json!([]),
            (Some("3"), Some("5120"), None),
        ),
        (
            "only a cpu request",
            json!([container("a", json!({"cpu": "2"}), none.clone())]),
            json!([]),
            (Some("2"), None, None),
        ),
        (
            "only a memory request",
            json!([container("a", json!({"memory": "4Gi"}), none.clone())]),
            json!([]),
            (None, Some("4096"), None),
        ),
        (
            "only a gpu request",
            json!([container("a", json!({"nvidia.com/gpu": "1"}), none.clone())]),
            json!([]),
            (None, None, Some("1")),
        ),
        ("nothing", json!([{"name": "a"}]), json!([]), (None, None, None)),
        (
            "requests equal to limits",
            json!([container(
                "a",
                json!({"cpu": "2", "memory": "4Gi"}),
                json!({"cpu": "2", "memory": "4Gi"})
            )]),
            json!([]),
            (Some("2"), Some("4096"), None),
        ),
        (
            "init containers and several containers",
            json!([
                container("c1", json!({"cpu": "2", "memory": "4Gi"}), json!({"cpu": "3", "memory": "5Gi"})),
                container("c2", json!({"cpu": "1", "memory": "1Gi"}), json!({"cpu": "1", "memory": "1Gi"})),
                container(
                    "c3",
                    json!({"cpu": "1", "nvidia.com/gpu": "1"}),
                    json!({"cpu": "1", "nvidia.com/gpu": "1"})
                ),
            ]),
            json!([container(
                "i",
                json!({"cpu": "1", "memory": "2Gi"}),
                json!({"cpu": "1", "memory": "2Gi"})
            )]),
            (Some("6"), Some("8192"), Some("1")),
        ),
        (
            "part of a cpu",
            json!([container(
                "a",
                json!({"cpu": "200m", "memory": "4Gi"}),
                json!({"cpu": "500m", "memory": "4Gi"})
            )]),
            json!([]),
            (Some("1"), Some("4096"), None),
        ),
        (
            "more than one cpu and a part",
            json!([container(
                "a",
                json!({"cpu": "200m", "memory": "4Gi"}),
                json!({"cpu": "1500m", "memory": "4Gi"})
            )]),
            json!([]),
            (Some("2"), Some("4096"), None),
        ),
        (
            "parts of cpus of several containers",
            json!([container(
                "a",
                json!({"cpu": "0.2", "memory": "4Gi"}),
                json!({"cpu": "0.5", "memory": "4Gi"})
            )]),
            json!([container(
                "i",
                json!({"cpu": "0.2", "memory": "4Gi"}),
                json!({"cpu": "0.7", "memory": "4Gi"})
            )]),
            (Some("2"), Some("8192"), None),
        ),
        (
            "limits smaller than requests because a container has none",
            json!([
                container("a", json!({"cpu": "2"}), none.clone()),
                container("b", json!({"cpu": "1"}), json!({"cpu": "1"})),
            ]),
            json!([]),
            (Some("3"), None, None),
        ),
        (
            "an explicit request of zero",
            json!([container("a", json!({"cpu": "0"}), json!({"cpu": "4"}))]),
            json!([]),
            (None, None, None),
        ),
    ] {
        let mut pod = peer_pod(containers);
        pod["spec"]["initContainers"] = init;
        let after = mutated(&by_default(), &pod);
        assert_eq!(size(&after), expected, "{case}");
        assert_eq!(after["spec"]["containers"][0]["resources"], one_vm(), "{case}");
        let others = after["spec"]["containers"].as_array().unwrap().iter().skip(1);
        for other in others.chain(after["spec"]["initContainers"].as_array().unwrap()) {
            assert_eq!(other["resources"], json!({}), "{case}");
        }
    }
}

#[test]
fn what_was_requested_and_limited_over_several_containers_is_summed_apart() {
    // Requests 5/7Gi, limits 6/8Gi, the second container with requests alone.
    let mut pod = peer_pod(json!([
        container("c1", json!({"cpu": "2", "memory": "4Gi"}), json!({"cpu": "3", "memory": "5Gi"})),
        container("c2", json!({"cpu": "1", "memory": "1Gi"}), json!({})),
        container("c3", json!({"cpu": "1", "nvidia.com/gpu": "1"}), json!({})),
    ]));
    pod["spec"]["initContainers"] = json!([container("i", json!({"cpu": "1", "memory": "2Gi"}), json!({}))]);
    assert_eq!(size(&mutated(&by_default(), &pod)), (Some("5"), Some("7168"), Some("1")));
}

#[test]
fn a_pod_of_another_runtime_class_or_of_none_is_left_alone() {
    for class in [json!("different-runtime"), json!(null)] {
        let mut pod = peer_pod(json!([container("a", json!({"cpu": "2"}), json!({}))]));
        pod["spec"]["runtimeClassName"] = class;
        assert_eq!(review(&by_default(), &pod), Outcome::skipped());
    }
}

#[test]
fn every_class_of_the_list_is_treated() {
    let rules = peer_pods(json!({"runtimeClasses": ["kata-remote", "kata-wh-test"]}));
    let mut pod = peer_pod(json!([{"name": "a"}]));
    pod["spec"]["runtimeClassName"] = json!("kata-wh-test");
    assert_eq!(mutated(&rules, &pod)["spec"]["containers"][0]["resources"], one_vm());
}

#[test]
fn the_extended_resource_can_be_renamed() {
    let after = mutated(&peer_pods(json!({"resource": "example.com/vm"})), &peer_pod(json!([{"name": "a"}])));
    assert_eq!(after["spec"]["containers"][0]["resources"]["limits"], json!({"example.com/vm": "1"}));
}

#[test]
fn what_is_not_ours_is_not_touched() {
    let mut pod = peer_pod(json!([{
        "name": "a", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
        "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}], "fromTheFuture": {"x": 1}},
        "env": [{"name": "A", "value": "b"}],
    }]));
    pod["spec"]["overhead"] = json!({"cpu": "250m", "memory": "120Mi"});
    pod["spec"]["resourceClaims"] = json!([{"name": "gpu"}]);
    pod["spec"]["fieldFromTheFuture"] = json!([{"a": 1}]);
    let after = mutated(&by_default(), &pod);
    let mut expected = pod;
    expected["spec"]["containers"][0]["resources"] = json!({
        "requests": {"kata.peerpods.io/vm": "1"}, "limits": {"kata.peerpods.io/vm": "1"},
        "claims": [{"name": "gpu"}], "fromTheFuture": {"x": 1},
    });
    expected["metadata"]["annotations"] = after["metadata"]["annotations"].clone();
    assert_eq!(after, expected);
}

#[test]
fn a_pod_without_containers_is_left_to_the_api_server_to_refuse() {
    assert_eq!(review(&by_default(), &peer_pod(json!([]))), Outcome::skipped());
}
