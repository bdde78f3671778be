//! Who is left alone.

use super::*;

#[test]
fn pods_whose_place_is_somebody_elses_choice_are_left_alone() {
    let owned = |version: &str, kind: &str| json!([{"apiVersion": version, "kind": kind, "name": "o"}]);
    let named = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]);
    let by_term =
        |key: &str| json!([{"matchExpressions": [{"key": key, "operator": "In", "values": ["amd64"]}]}]);
    for (pointer, value) in [
        ("/metadata/ownerReferences", owned("apps/v1", "DaemonSet")),
        ("/metadata/ownerReferences", owned("datadoghq.com/v1alpha1", "ExtendedDaemonSetReplicaSet")),
        ("/spec/nodeName", json!("n")),
        (TERMS, named),
        (TERMS, by_term("kubernetes.io/arch")),
        (TERMS, by_term("beta.kubernetes.io/arch")),
        ("/spec/nodeSelector", json!({"kubernetes.io/arch": "arm64"})),
        ("/spec/nodeSelector", json!({"beta.kubernetes.io/arch": "arm64"})),
        ("/metadata/labels", json!({"podwright.io/architecture": "off"})),
        ("/metadata/annotations", json!({"kubernetes.io/config.mirror": "x"})),
    ] {
        let (outcome, asked) = world().review(&with(pod(&["arm"]), pointer, value.clone()));
        assert_eq!((outcome, asked.len()), (Outcome::skipped(), 0), "{pointer} {value}");
    }
    let resized = world().mutator().review(
        &Request { ask: Ask::Resize, namespace: "default", uid: "1", dry_run: false },
        &view(&pod(&["arm"])),
        &Facts::default(),
    );
    assert_eq!(resized, Review::Done(Outcome::skipped()));
}

#[test]
fn pods_whose_place_is_open_are_not() {
    let half = json!([
        {"matchExpressions": [arch_in(&["amd64"])]}, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
    ]);
    for (pointer, value) in [
        ("/metadata/ownerReferences", json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o"}])),
        ("/spec/nodeName", json!("")),
        (TERMS, half),
        ("/spec/nodeSelector", json!({"zone": "a"})),
        ("/metadata/labels", json!({"podwright.io/architecture": "on"})),
    ] {
        let (outcome, _) = world().review(&with(pod(&["arm"]), pointer, value.clone()));
        assert!(!outcome.patch.is_empty(), "{pointer} {value}");
    }
}

#[test]
fn pods_that_already_carry_what_is_configured_are_left_alone_as_the_sketch_says() {
    let world = world().config(
        "architecture: {architectures: {arm64: {taintsToTolerate: [{key: ARM, value: 'true', effect: NoExecute}], \
         requireNodeLabels: [{pool: arm}]}}}",
    );
    let toleration = json!({"key": "ARM", "operator": "Equal", "value": "true", "effect": "NoExecute"});
    let pool = json!([{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["arm"]}]}]);
    for (pointer, value) in [
        ("/spec/tolerations", json!([toleration])),
        (TERMS, pool),
        ("/spec/nodeSelector", json!({"pool": "arm"})),
    ] {
        let (outcome, _) = world.review(&with(pod(&["arm"]), pointer, value.clone()));
        assert_eq!(outcome, Outcome::skipped(), "{pointer} {value}");
    }
    // A pod that tolerates everything has not chosen anything.
    let (outcome, _) =
        world.review(&with(pod(&["arm"]), "/spec/tolerations", json!([{"operator": "Exists"}])));
    assert!(!outcome.patch.is_empty());
    // And what we added ourselves is not its author's.
    let placed = world.placed(&pod(&["both"]));
    assert_eq!(placed["spec"]["tolerations"], json!([toleration]));
    let mut later = placed;
    later["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "s", "image": "amd:1"}));
    assert!(!world.review(&later).0.patch.is_empty());
}
