//! What holds for every pod, image and cluster.

use proptest::{collection, option, prelude::*, sample::select};

use super::*;
use crate::{
    architecture::NodeKind,
    pod::{NodeRequirement, NodeTerm},
};

const PLATFORMS: [&str; 5] = ["linux/amd64", "linux/arm64", "linux/arm/v6", "linux/s390x", "windows/amd64"];

fn expression() -> impl Strategy<Value = Value> {
    let key =
        select(vec!["zone", "kubernetes.io/arch", "beta.kubernetes.io/arch", "kubernetes.io/os", "pool"]);
    let operator = select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
    let values = collection::vec(select(vec!["a", "amd64", "arm64", "linux", "arm"]), 1..3);
    (key, operator, values).prop_map(|(key, operator, values)| match operator {
        "Exists" | "DoesNotExist" => json!({"key": key, "operator": operator}),
        _ => json!({"key": key, "operator": operator, "values": values}),
    })
}

fn term() -> impl Strategy<Value = Value> {
    (option::of(collection::vec(expression(), 0..3)), any::<bool>()).prop_map(|(expressions, future)| {
        let mut term = json!({});
        if let Some(expressions) = expressions {
            term["matchExpressions"] = json!(expressions);
        }
        if future {
            term["fromTheFuture"] = json!({"a/b": ["~"]});
        }
        term
    })
}

prop_compose! {
    fn any_pod()(
        images in collection::vec(select(vec!["amd", "arm", "both", "all", "mainframe", "lost", "old"]), 1..4),
        terms in option::of(collection::vec(term(), 1..4)), tolerated in any::<bool>(), selected in option::of(select(vec!["zone", "kubernetes.io/os"])),
        labels in any::<bool>(), peer in any::<bool>(), affinity in any::<bool>(),
    ) -> Value {
        let mut made = pod(&images);
        made["spec"]["fieldFromTheFuture"] = json!({"deep": [1, {"er": null}]});
        if affinity { made["spec"]["affinity"] = json!({"podAffinity": {"x": 1}}); }
        if let Some(terms) = terms { made = with(made, TERMS, json!(terms)); }
        if tolerated { made["spec"]["tolerations"] = json!([{"key": "spot", "operator": "Exists"}]); }
        if let Some(selected) = selected { made["spec"]["nodeSelector"] = json!({selected: "linux"}); }
        if labels { made["metadata"]["labels"] = json!({"app": "x"}); }
        if peer { made["spec"]["runtimeClassName"] = json!("kata-remote"); }
        made
    }
}

fn any_world() -> impl Strategy<Value = World> {
    let nodes = collection::vec(select(vec!["amd64", "arm64", "arm", "s390x", "windows"]), 1..5);
    let config = select(vec![
        "{}",
        "{onUnknown: Gate}",
        "{onNoCommonPlatform: Pend, architectures: {arm64: {preference: 80, machineType: m}}}",
        "{architectures: {arm64: {requireNodeLabels: [{pool: arm}]}, amd64: {requireNodeLabels: [{pool: x86}]}}}",
        "{onUnknown: Gate, architectures: {arm64: {requireNodeLabels: [{pool: arm}]}, amd64: {preference: 3}}}",
    ]);
    (nodes, config).prop_map(|(nodes, config)| {
        let mut made = World { census: Census::default(), ..world() };
        for node in nodes {
            made = if node == "windows" {
                made.windows_node()
            } else {
                made.node(node, &[("kubernetes.io/arch", node, "NoSchedule")])
            };
        }
        made.image("old", &PLATFORMS[2..3]).config(&format!("architecture: {config}"))
    })
}

fn holds(requirement: &NodeRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let listed = value.is_some_and(|value| requirement.values.contains(value));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        other => panic!("{other}"),
    }
}

/// Whether the scheduler would let the pod onto a node with these labels, taints aside.
fn fits(pod: &Value, labels: &BTreeMap<String, String>) -> bool {
    let view = view(pod);
    let matches = |term: &NodeTerm| !term.is_empty() && term.expressions().all(|one| holds(one, labels));
    let selector = view.spec.node_selector.iter().flatten();
    view.required_terms().is_none_or(|terms| terms.iter().any(matches))
        && selector.clone().all(|(key, value)| labels.get(key) == Some(value))
}

/// Nodes of every kind, in and out of every pool.
fn nodes() -> Vec<BTreeMap<String, String>> {
    let mut nodes = Vec::new();
    for (os, arch) in
        [("linux", "amd64"), ("linux", "arm64"), ("linux", "arm"), ("linux", "s390x"), ("windows", "amd64")]
    {
        for pool in ["", "arm", "x86"] {
            for zone in ["", "a", "linux"] {
                let labels = [
                    (keys::ARCH_LABEL, arch),
                    (keys::OLD_ARCH_LABEL, arch),
                    (keys::OS_LABEL, os),
                    (keys::OLD_OS_LABEL, os),
                    ("pool", pool),
                    ("zone", zone),
                ];
                let set = labels.into_iter().filter(|(_, value)| !value.is_empty());
                nodes.push(set.map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
            }
        }
    }
    nodes
}

proptest! {
    #[test]
    fn running_again_on_the_result_changes_nothing(world in any_world(), made in any_pod()) {
        let (outcome, _) = world.review(&made);
        prop_assume!(outcome.denial.is_none());
        let once = patched(&made, &outcome);
        let (again, _) = world.review(&once);
        prop_assert_eq!(again.patch, Vec::new(), "of {}", once);
    }

    #[test]
    fn nothing_of_the_pods_own_is_lost(world in any_world(), made in any_pod()) {
        let once = patched(&made, &world.review(&made).0);
        prop_assert_eq!(&once["spec"]["fieldFromTheFuture"], &made["spec"]["fieldFromTheFuture"]);
        prop_assert_eq!(&once["spec"]["containers"], &made["spec"]["containers"]);
        let before = terms(&made).as_array().cloned().unwrap_or_default();
        for (index, term) in before.iter().enumerate() {
            let after = &terms(&once)[index];
            prop_assert_eq!(&after["fromTheFuture"], &term["fromTheFuture"]);
            let own = term["matchExpressions"].as_array().cloned().unwrap_or_default();
            let now = after["matchExpressions"].as_array().cloned().unwrap_or_default();
            prop_assert_eq!(&now[..own.len()], &own[..]);
        }
    }

    /// We only ever narrow: a node that the author ruled out stays out.
    #[test]
    fn no_node_comes_in_that_the_author_kept_out(world in any_world(), made in any_pod()) {
        let (outcome, _) = world.review(&made);
        let once = patched(&made, &outcome);
        for labels in nodes() {
            prop_assert!(fits(&made, &labels) || !fits(&once, &labels), "{:?} in {}", labels, once);
        }
    }

    /// Where every image is known and nobody has chosen, the scheduler has no node left that an image does not run on.
    #[test]
    fn no_known_image_ends_up_where_it_does_not_run(world in any_world(), made in any_pod()) {
        let (outcome, _) = world.review(&made);
        let concerned = outcome.concerned && made["spec"]["runtimeClassName"].is_null();
        let once = patched(&made, &outcome);
        if !concerned || !once["spec"]["schedulingGates"].is_null() { return Ok(()); }
        let kinds = world.census.platforms().kinds;
        for labels in nodes() {
            let kind = NodeKind::of_labels(&labels).unwrap();
            if !kinds.contains(&kind) || !fits(&once, &labels) { continue; }
            for container in made["spec"]["containers"].as_array().unwrap() {
                let image = container["image"].as_str().unwrap().trim_end_matches(":1");
                if let Some(Some(platforms)) = world.images.get(image) {
                    let runs = platforms.iter().any(|one| one.os() == kind.os && one.architecture() == kind.architecture);
                    prop_assert!(runs, "{} on {} by {}", image, kind, once);
                }
            }
        }
    }
}
