use super::*;
use crate::mutate::Verdict;

fn one() -> Value {
    json!([{"name": "app"}])
}

#[test]
fn a_daemon_sets_pod_gets_its_share_of_the_node_that_it_is_made_for() {
    let containers = json!([{"name": "app", "image": "nginx", "resources": {
        "requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"},
    }}]);
    let mut pod = daemon_pod("four", containers);
    pod["spec"]["initContainers"] = json!([{"name": "setup"}]);
    let after = cluster().mutated(&pod);
    let list = json!({"cpu": "400m", "memory": "2576980377", "ephemeral-storage": "5Gi"});
    let resources = json!({"requests": list, "limits": list});
    assert_eq!(after["spec"]["containers"][0]["resources"], resources);
    assert_eq!(after["spec"]["initContainers"][0]["resources"], resources);
    assert_eq!(
        after["metadata"]["annotations"][keys::SIZED_BY],
        r#"{"template":"sample","node":"four","rules":{"cpu":"10%","ephemeral-storage":"5%","memory":"15%"}}"#
    );
    let outcome = cluster().outcome(&pod);
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
    assert_eq!(
        outcome.audit["sizing"],
        "sample on four: cpu=400m (10%), memory=2576980377 (15%), ephemeral-storage=5Gi (5%)"
    );
}

#[test]
fn what_is_needed_is_asked_for_in_two_rounds() {
    let (_, rounds) = cluster().review(&by_default(), &daemon_pod("four", one()));
    assert_eq!(rounds.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
    assert!(
        matches!(&rounds[0][0], Lookup::Workload { kind, namespace, .. } if kind == "DaemonSet" && namespace == "apps")
    );
}

#[test]
fn the_daemon_sets_annotation_wins_over_its_pod_templates_and_either_will_do() {
    let cluster = |annotations: Value| {
        Cluster::default()
            .daemon_set(annotations)
            .template("sample", sample())
            .template("half", json!({"cpuPercentage": 50, "memoryPercentage": 1, "storagePercentage": 1}))
            .node("four", json!({"cpu": "4"}))
    };
    let pod = annotated(daemon_pod("four", one()), json!({keys::RESOURCE_TEMPLATE: "half"}));
    assert_eq!(cpu(&cluster(json!({})).mutated(&pod)), "2");
    let both = cluster(json!({keys::RESOURCE_TEMPLATE: "sample"}));
    assert_eq!(cpu(&both.mutated(&pod)), "400m");
    assert!(both.outcome(&pod).warnings[0].contains("\"sample\""));
    let opted_out = cluster(json!({keys::RESOURCE_TEMPLATE: ""}));
    assert_eq!(opted_out.outcome(&pod).verdict(), Verdict::Skipped);
    // A DaemonSet that is gone says nothing.
    let mut gone = cluster(json!({}));
    gone.facts.remove(0);
    assert_eq!(cpu(&gone.mutated(&pod)), "2");
}

#[test]
fn pods_that_nobody_asks_to_be_sized_are_not_touched_and_need_little() {
    let skipped = |cluster: Cluster, pod: &Value| {
        let (outcome, rounds) = cluster.review(&by_default(), pod);
        assert_eq!(outcome, Outcome::skipped());
        rounds.len()
    };
    assert_eq!(skipped(Cluster::default().daemon_set(json!({})), &daemon_pod("four", one())), 1);
    let mut bare = annotated(daemon_pod("four", one()), json!({keys::RESOURCE_TEMPLATE: "sample"}));
    bare["metadata"]["ownerReferences"][0]["kind"] = json!("ReplicaSet");
    assert_eq!(skipped(cluster(), &bare), 0);
    let request = Request { ask: Ask::Resize, namespace: "apps", uid: "2f1c9d6e-0b1a", dry_run: false };
    let pod = PodView::read(&daemon_pod("four", one()).to_string()).unwrap();
    assert_eq!(by_default().review(&request, &pod, &Facts::default()), Review::Done(Outcome::skipped()));
}

#[test]
fn what_is_missing_or_wrong_is_a_denial_that_says_what_to_do() {
    let without = |index: usize| {
        let mut cluster = cluster();
        cluster.facts.remove(index);
        cluster
    };
    let mut bad = sample();
    bad["minCPU"] = json!("a lot");
    let invalid = without(1).template("sample", bad);
    for (cluster, parts) in [
        (without(1), ["no FlexDaemonsetTemplate \"sample\"", "DaemonSet apps/agent", "create it"]),
        (without(2), ["no Node \"four\"", "DaemonSet apps/agent", "tried again"]),
        (invalid, ["FlexDaemonsetTemplate \"sample\"", "spec.minCPU: \"a lot\"", "such as 100m"]),
    ] {
        let pod = daemon_pod("four", one());
        let denial = cluster.outcome(&pod).denial.unwrap();
        assert!(parts.iter().all(|part| denial.contains(part)), "{denial}");

        let lenient = Sizing::new(&serde_json::from_value(json!({"onError": "Allow"})).unwrap());
        let (outcome, _) = cluster.review(&lenient, &pod);
        assert_eq!(outcome.verdict(), Verdict::Unchanged);
        assert!(outcome.warnings[0].contains(parts[0]), "{:?}", outcome.warnings);
    }
}

#[test]
fn a_daemon_set_says_itself_what_becomes_of_pods_that_cannot_be_sized() {
    let reviewed = |configured: &str, annotation: &str| {
        let rules = Sizing::new(&serde_json::from_value(json!({"onError": configured})).unwrap());
        let cluster = Cluster::default()
            .daemon_set(json!({keys::RESOURCE_TEMPLATE: "none", keys::SIZING_ON_ERROR: annotation}));
        cluster.review(&rules, &daemon_pod("four", one())).0
    };
    assert_eq!(reviewed("Deny", "Allow").verdict(), Verdict::Unchanged);
    assert_eq!(reviewed("Allow", "Deny").verdict(), Verdict::Denied);
    let typo = reviewed("Deny", "allow").denial.unwrap();
    assert!(typo.contains("podwright.io/sizing-on-error") && typo.contains("\"allow\" is neither"), "{typo}");
}

#[test]
fn a_pod_for_no_node_in_particular_is_let_through_with_a_warning() {
    let mut pod = daemon_pod("four", one());
    pod["spec"].as_object_mut().unwrap().remove("affinity");
    let outcome = cluster().outcome(&pod);
    assert_eq!(outcome.verdict(), Verdict::Unchanged);
    assert!(outcome.warnings[0].contains("names no node"), "{:?}", outcome.warnings);
}

#[test]
fn a_minimum_that_the_node_does_not_have_is_given_and_warned_of() {
    let tiny = cluster().node("tiny", json!({"cpu": "50m", "memory": "1Gi"}));
    let pod = daemon_pod("tiny", one());
    assert_eq!(cpu(&tiny.mutated(&pod)), "100m");
    let warnings = tiny.outcome(&pod).warnings;
    assert_eq!(
        warnings,
        [
            "sizing: the template's minimum of cpu 100m is more than node tiny has (50m), so the pod stays pending; see \
          capAtAllocatable"
        ]
    );
    assert!(warnings.iter().all(|warning| warning.len() <= 256));
}

#[test]
fn an_extended_daemon_sets_pod_is_sized_by_the_annotation_of_the_extended_daemon_set() {
    let (version, set, replicas) =
        ("datadoghq.com/v1alpha1", "ExtendedDaemonSet", "ExtendedDaemonSetReplicaSet");
    let mut pod = daemon_pod("four", one());
    pod["metadata"]["ownerReferences"][0]["apiVersion"] = json!(version);
    pod["metadata"]["ownerReferences"][0]["kind"] = json!(replicas);
    let owner = OwnerReference {
        api_version: version.to_owned(),
        kind: set.to_owned(),
        name: "agent".to_owned(),
        controller: None,
    };
    let cluster = cluster()
        .workload(version, replicas, json!({keys::RESOURCE_TEMPLATE: "stale"}), Some(owner))
        .workload(version, set, json!({keys::RESOURCE_TEMPLATE: "sample"}), None);
    assert_eq!(cpu(&cluster.mutated(&pod)), "400m");
    assert_eq!(cluster.review(&by_default(), &pod).1.len(), 3);

    // An override of the ExtendedDaemonSet for this node stays as it is.
    let mut overridden = annotated(pod, json!({keys::EDS_NODE_OVERRIDES: "abc"}));
    overridden["spec"]["containers"] =
        json!([{"name": "app", "resources": {"requests": {"cpu": "3"}}}, {"name": "helper"}]);
    let after = cluster.mutated(&overridden);
    assert_eq!(after["spec"]["containers"][0], overridden["spec"]["containers"][0]);
    assert_eq!(after["spec"]["containers"][1]["resources"]["limits"]["cpu"], "400m");
}

#[test]
fn a_peer_pod_that_has_its_vm_is_not_given_resources_again() {
    let pod = annotated(daemon_pod("four", one()), json!({keys::PEER_POD_RECORD: "{}"}));
    let (outcome, rounds) = cluster().review(&by_default(), &pod);
    assert_eq!((outcome.verdict(), rounds.len()), (Verdict::Unchanged, 0));
}

#[test]
fn a_record_that_the_user_brought_along_is_replaced() {
    let pod = annotated(daemon_pod("four", one()), json!({keys::SIZED_BY: "by hand"}));
    let after = cluster().mutated(&pod);
    assert!(after["metadata"]["annotations"][keys::SIZED_BY].as_str().unwrap().contains("sample"));
}

#[test]
fn a_container_that_somebody_injects_later_is_sized_when_the_pod_comes_again() {
    let mut pod = cluster().mutated(&daemon_pod("four", one()));
    pod["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "mesh"}));
    pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("1Gi");
    let after = cluster().mutated(&pod);
    let [app, mesh] = &after["spec"]["containers"].as_array().unwrap()[..] else { panic!("{after}") };
    assert_eq!(app["resources"], mesh["resources"]);
}
