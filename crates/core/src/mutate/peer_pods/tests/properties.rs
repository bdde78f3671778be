//! What holds for every pod and every configuration.

use std::collections::BTreeMap;

use proptest::{collection, option, prelude::*, sample::select};

use super::*;

fn quantity() -> impl Strategy<Value = String> {
    select(vec!["0", "1", "2", "100m", "1500m", "0.3", "64Mi", "1Gi", "1000000", "1e3", "3n"])
        .prop_map(str::to_owned)
}

fn list() -> impl Strategy<Value = BTreeMap<String, String>> {
    let name = select(vec![
        "cpu",
        "memory",
        "nvidia.com/gpu",
        "example.com/local",
        "kata.peerpods.io/vm",
        "ephemeral-storage",
    ]);
    collection::btree_map(name.prop_map(str::to_owned), quantity(), 0..4)
}

fn resources() -> impl Strategy<Value = Value> {
    (option::of(list()), option::of(list()), any::<bool>()).prop_map(|(requests, limits, future)| {
        let mut resources = json!({});
        for (field, list) in [("requests", requests), ("limits", limits)] {
            if let Some(list) = list {
                resources[field] = json!(list);
            }
        }
        if future {
            resources["fromTheFuture"] = json!({"a/b": ["~"]});
        }
        resources
    })
}

fn containers(prefix: &'static str, min: usize) -> impl Strategy<Value = Value> {
    let env = option::of(select(vec!["limits.cpu", "requests.memory", "limits.nope", "odd"]));
    collection::vec((option::of(resources()), env, any::<bool>()), min..4).prop_map(move |list| {
        let container = |(index, (resources, env, sidecar)): (usize, (Option<Value>, Option<&str>, bool))| {
            let mut container = json!({"name": format!("{prefix}{index}"), "future": index});
            if let Some(resources) = resources {
                container["resources"] = resources;
            }
            if let Some(resource) = env {
                container["env"] =
                    json!([{"name": "E", "valueFrom": {"resourceFieldRef": {"resource": resource}}}]);
            }
            if sidecar {
                container["restartPolicy"] = json!("Always");
            }
            container
        };
        list.into_iter().enumerate().map(container).collect()
    })
}

prop_compose! {
    fn pod()(
        main in containers("c", 1), init in option::of(containers("i", 0)), whole in option::of(resources()),
        annotated in option::of(select(vec![json!({}), json!({keys::VM_VCPUS: "7"}), json!({"x/y~z": "1", keys::PEER_POD_RECORD: "{}"})])),
    ) -> Value {
        let mut pod = peer_pod(main);
        pod["spec"]["fieldFromTheFuture"] = json!({"deep": [1, {"er": null}]});
        if let Some(init) = init { pod["spec"]["initContainers"] = init; }
        if let Some(whole) = whole { pod["spec"]["resources"] = whole; }
        if let Some(annotated) = annotated { pod["metadata"]["annotations"] = annotated; }
        pod
    }
}

fn configuration() -> impl Strategy<Value = PeerPods> {
    (
        select(vec!["strip", "shrink"]),
        select(vec!["sum", "effective"]),
        any::<bool>(),
        select(vec![json!([]), json!(["example.com/local"]), json!(["cpu"])]),
        select(vec!["keep", "literal"]),
    )
        .prop_map(|(mode, sizing, overrides, keep, downward)| {
            peer_pods(json!({"mode": mode, "sizing": sizing, "overrideAnnotations": overrides, "keep": keep, "downwardApi": downward}))
        })
}

/// Everything that we may write, taken away, so that the rest can be compared.
fn rest(pod: &Value) -> Value {
    let mut rest = pod.clone();
    rest["metadata"].as_object_mut().unwrap().remove("annotations");
    let strip = |resources: &mut Value| {
        if let Some(fields) = resources.as_object_mut() {
            fields.remove("requests");
            fields.remove("limits");
        }
    };
    if let Some(whole) = rest["spec"].get_mut("resources") {
        strip(whole);
    }
    for section in ["containers", "initContainers"] {
        for container in rest["spec"].get_mut(section).and_then(Value::as_array_mut).into_iter().flatten() {
            let fields = container.as_object_mut().unwrap();
            fields.remove("env");
            match fields.get_mut("resources") {
                Some(resources) => strip(resources),
                None => {
                    fields.insert("resources".to_owned(), json!({}));
                }
            }
        }
    }
    rest
}

proptest! {
    #[test]
    fn the_patch_applies_and_a_second_run_has_nothing_to_do(pod in pod(), rules in configuration()) {
        mutated(&rules, &pod);
    }

    #[test]
    fn fields_that_we_do_not_know_survive(pod in pod(), rules in configuration()) {
        prop_assert_eq!(rest(&mutated(&rules, &pod)), rest(&pod));
    }

    #[test]
    fn exactly_one_container_carries_exactly_one_vm(pod in pod(), rules in configuration()) {
        let after = mutated(&rules, &pod);
        let all = ["containers", "initContainers"].iter().flat_map(|section| after["spec"][section].as_array().into_iter().flatten());
        let vms: Vec<&Value> = all.filter_map(|container| container["resources"]["requests"].get("kata.peerpods.io/vm")).collect();
        prop_assert!(matches!(vms[..], [Value::String(one)] if one == "1"), "{:?}", vms);
    }

    #[test]
    fn stripping_leaves_no_cpu_and_no_memory_anywhere(pod in pod(), sizing in select(vec!["sum", "effective"])) {
        let after = mutated(&peer_pods(json!({"sizing": sizing})), &pod);
        let text = after["spec"]["containers"].to_string() + &after["spec"]["initContainers"].to_string() + &after["spec"]["resources"].to_string();
        prop_assert!(!text.contains("\"cpu\":") && !text.contains("\"memory\":"), "{}", text);
    }

    #[test]
    fn defaults_that_reappear_never_change_the_size(pod in pod(), rules in configuration(), more in list()) {
        let once = mutated(&rules, &pod);
        let mut defaulted = once.clone();
        for container in defaulted["spec"]["containers"].as_array_mut().unwrap() {
            for (name, amount) in &more {
                if name != "kata.peerpods.io/vm" && name != "example.com/local" {
                    container["resources"]["requests"][name] = json!(amount);
                }
            }
        }
        let again = mutated(&rules, &defaulted);
        prop_assert_eq!(size(&again), size(&once));
    }
}
