//! What holds for every pod, template and node.

use std::collections::BTreeMap;

use proptest::{collection, option, prelude::*, sample::select};

use super::*;
use crate::quantity::Quantity;

const OURS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

fn quantity() -> impl Strategy<Value = String> {
    select(vec!["0", "1", "2", "100m", "1500m", "0.3", "64Mi", "1Gi", "1000000", "1e3", "1Ti"])
        .prop_map(str::to_owned)
}

fn list() -> impl Strategy<Value = BTreeMap<String, String>> {
    let name = select(vec!["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi"]);
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
            resources["claims"] = json!([{"name": "gpu", "request": "one"}]);
        }
        resources
    })
}

fn containers(prefix: &'static str, min: usize) -> impl Strategy<Value = Value> {
    collection::vec((option::of(resources()), any::<bool>()), min..4).prop_map(move |list| {
        let container = |(index, (resources, sidecar)): (usize, (Option<Value>, bool))| {
            let mut container = json!({"name": format!("{prefix}{index}"), "future": index});
            if let Some(resources) = resources {
                container["resources"] = resources;
            }
            if sidecar && prefix == "i" {
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
        annotated in option::of(select(vec![json!({}), json!({"x/y~z": "1"}), json!({keys::SIZED_BY: "{}"})])),
    ) -> Value {
        let mut pod = daemon_pod("n", main);
        pod["spec"]["fieldFromTheFuture"] = json!({"deep": [1, {"er": null}]});
        if let Some(init) = init { pod["spec"]["initContainers"] = init; }
        if let Some(whole) = whole { pod["spec"]["resources"] = whole; }
        if let Some(annotated) = annotated { pod["metadata"]["annotations"] = annotated; }
        pod
    }
}

fn cluster_with(template: Value, allocatable: BTreeMap<String, String>) -> Cluster {
    Cluster::default()
        .daemon_set(json!({keys::RESOURCE_TEMPLATE: "t"}))
        .template("t", template)
        .node("n", json!(allocatable))
}

prop_compose! {
    fn template()(
        percentages in (1..=100, 1..=100, 1..=100), min in option::of(quantity()), apply_to in select(vec!["EachContainer", "PodTotal"]),
        limits in select(vec!["Equal", "RequestsOnly"]), init in any::<bool>(), cap in any::<bool>(),
        managed in select(vec![json!(OURS), json!(["cpu"]), json!(["memory", "ephemeral-storage"])]),
        exclude in select(vec![json!([]), json!(["c0"]), json!(["i0", "c1"])]),
    ) -> Value {
        let mut template = json!({
            "cpuPercentage": percentages.0, "memoryPercentage": percentages.1, "storagePercentage": percentages.2,
            "applyTo": apply_to, "limits": limits, "initContainers": init, "capAtAllocatable": cap,
            "managedResources": managed, "containers": {"exclude": exclude},
        });
        if let Some(min) = min { template["minMemory"] = json!(min); }
        template
    }
}

fn cluster_of() -> impl Strategy<Value = Cluster> {
    (template(), list()).prop_map(|(template, allocatable)| cluster_with(template, allocatable))
}

fn all(pod: &mut Value) -> Vec<&mut Value> {
    let Some(spec) = pod["spec"].as_object_mut() else { return Vec::new() };
    spec.iter_mut()
        .filter(|(section, _)| matches!(section.as_str(), "containers" | "initContainers"))
        .flat_map(|(_, list)| list.as_array_mut().into_iter().flatten())
        .collect()
}

/// Everything that we may write, taken away, so that the rest can be compared.
fn rest(pod: &Value) -> Value {
    let mut rest = pod.clone();
    rest["metadata"]["annotations"][keys::SIZED_BY] = Value::Null;
    for container in all(&mut rest) {
        for field in ["requests", "limits"] {
            for name in OURS {
                container["resources"][field][name] = Value::Null;
            }
        }
    }
    rest
}

fn amount(container: &Value, field: &str, name: &str) -> Quantity {
    container["resources"][field]
        .get(name)
        .map_or(Quantity::ZERO, |text| text.as_str().unwrap().parse().unwrap())
}

proptest! {
    #[test]
    fn the_patch_applies_and_a_second_run_has_nothing_to_do(pod in pod(), cluster in cluster_of()) {
        cluster.mutated(&pod);
    }

    #[test]
    fn fields_that_are_not_ours_survive(pod in pod(), cluster in cluster_of()) {
        prop_assert_eq!(rest(&cluster.mutated(&pod)), rest(&pod));
    }

    #[test]
    fn no_limit_that_we_touched_is_below_its_request(pod in pod(), cluster in cluster_of()) {
        let mut before = pod.clone();
        let mut after = cluster.mutated(&pod);
        for (before, after) in all(&mut before).into_iter().zip(all(&mut after)) {
            for name in OURS {
                let (request, limit) = (amount(after, "requests", name), amount(after, "limits", name));
                let touched = amount(before, "requests", name) != request || amount(before, "limits", name) != limit;
                prop_assert!(!touched || !limit.is_positive() || limit >= request, "{}: {}", name, after);
            }
        }
    }

    #[test]
    fn together_containers_never_ask_for_more_than_a_pods_total(main in containers("c", 1), percent in 1..=100) {
        let template = json!({"cpuPercentage": percent, "memoryPercentage": 1, "storagePercentage": 1, "applyTo": "PodTotal"});
        let node = BTreeMap::from([("cpu".to_owned(), "7".to_owned())]);
        let mut after = cluster_with(template, node).mutated(&daemon_pod("n", main));
        let total: Quantity = all(&mut after).into_iter().map(|container| amount(container, "requests", "cpu")).sum();
        prop_assert_eq!(total, format!("{}m", percent * 70).parse().unwrap());
    }
}
