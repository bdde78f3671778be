//! What the pod's author has written stays in force.

use super::*;

fn zone(name: &str) -> Value {
    json!({"key": "zone", "operator": "In", "values": [name]})
}

#[test]
fn every_term_gets_the_architecture_so_that_none_is_a_way_around_it() {
    let two = with(
        pod(&["arm"]),
        TERMS,
        json!([{"matchExpressions": [zone("a")]}, {"matchExpressions": [zone("b")], "fromTheFuture": 1}]),
    );
    assert_eq!(
        *terms(&world().placed(&two)),
        json!([
            {"matchExpressions": [zone("a"), arch_in(&["arm64"])]},
            {"matchExpressions": [zone("b"), arch_in(&["arm64"])], "fromTheFuture": 1},
        ])
    );
}

#[test]
fn a_term_that_names_an_architecture_is_narrowed_unless_it_is_narrow_enough() {
    let old = json!({"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"]});
    let wide = json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]});
    let wrong = arch_in(&["amd64"]);
    let some = with(
        pod(&["arm"]),
        TERMS,
        json!([
            {"matchExpressions": [old]}, {"matchExpressions": [wide]}, {"matchExpressions": [wrong]},
            {"matchExpressions": [zone("a")]},
        ]),
    );
    assert_eq!(
        *terms(&world().placed(&some)),
        json!([
            {"matchExpressions": [old]},
            {"matchExpressions": [wide, arch_in(&["arm64"])]},
            {"matchExpressions": [wrong, arch_in(&["arm64"])]},
            {"matchExpressions": [zone("a"), arch_in(&["arm64"])]},
        ])
    );
}

#[test]
fn a_term_that_matches_no_node_goes_on_matching_none() {
    let empty =
        with(pod(&["arm"]), TERMS, json!([{}, {"matchExpressions": [zone("a")]}, {"matchExpressions": []}]));
    assert_eq!(
        *terms(&world().placed(&empty)),
        json!([{}, {"matchExpressions": [zone("a"), arch_in(&["arm64"])]}, {"matchExpressions": []}])
    );
}

#[test]
fn a_term_by_field_gets_its_expressions() {
    let fields = json!([{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]);
    let by_field =
        with(pod(&["arm"]), TERMS, json!([{"matchFields": fields}, {"matchExpressions": [zone("a")]}]));
    assert_eq!(
        terms(&world().placed(&by_field))[0],
        json!({"matchFields": fields, "matchExpressions": [arch_in(&["arm64"])]})
    );
}

#[test]
fn labels_of_one_architecture_only_split_a_term_without_widening_it() {
    let world = world().config("architecture: {architectures: {arm64: {requireNodeLabels: [{pool: arm}]}}}");
    let pool = json!({"key": "pool", "operator": "In", "values": ["arm"]});
    assert_eq!(
        *terms(&world.placed(&pod(&["both"]))),
        json!([
            {"matchExpressions": [arch_in(&["amd64"])]},
            {"matchExpressions": [arch_in(&["arm64"]), pool]},
        ])
    );
    let two = with(
        pod(&["both"]),
        TERMS,
        json!([{"matchExpressions": [zone("a")], "fromTheFuture": 1}, {"matchExpressions": [arch_in(&["amd64"])]}]),
    );
    let placed = world.placed(&two);
    assert_eq!(
        *terms(&placed),
        json!([
            {"matchExpressions": [zone("a"), arch_in(&["amd64"])], "fromTheFuture": 1},
            {"matchExpressions": [arch_in(&["amd64"])]},
            {"matchExpressions": [zone("a"), arch_in(&["arm64"]), pool], "fromTheFuture": 1},
        ])
    );
    assert_eq!(world.review(&placed).0.patch, []);
}

#[test]
fn what_is_missing_above_the_affinity_is_created_and_what_is_there_stays() {
    for (affinity, kept) in [
        (json!({}), "/spec/affinity/nodeAffinity"),
        (json!({"podAntiAffinity": {"x": 1}}), "/spec/affinity/podAntiAffinity/x"),
        (json!({"nodeAffinity": {"fromTheFuture": 1}}), "/spec/affinity/nodeAffinity/fromTheFuture"),
    ] {
        let placed = world().placed(&with(pod(&["arm"]), "/spec/affinity", affinity.clone()));
        assert_eq!(*terms(&placed), json!([{"matchExpressions": [arch_in(&["arm64"])]}]), "{affinity}");
        assert!(placed.pointer(kept).is_some(), "{affinity}");
    }
}

#[test]
fn tolerations_are_added_behind_those_that_are_there_and_not_twice() {
    let own = json!({"key": "spot", "operator": "Exists"});
    let placed = world().placed(&with(pod(&["arm"]), "/spec/tolerations", json!([own])));
    assert_eq!(placed["spec"]["tolerations"], json!([own, arm_toleration()]));
    let everything = json!([{"operator": "Exists"}]);
    let placed = world().placed(&with(pod(&["arm"]), "/spec/tolerations", everything.clone()));
    assert_eq!(placed["spec"]["tolerations"], everything);
}

#[test]
fn a_sidecar_that_comes_later_narrows_further() {
    let mut placed = world().placed(&pod(&["all"]));
    assert!(placed["spec"]["affinity"].is_null());
    let sidecar = json!({"name": "s", "image": "arm:1"});
    placed["spec"]["containers"].as_array_mut().unwrap().push(sidecar);
    let placed = world().placed(&placed);
    assert_eq!(*terms(&placed), json!([{"matchExpressions": [arch_in(&["arm64"])]}]));

    let world = world().node("s390x", &[]);
    let mut placed = world.placed(&pod(&["both"]));
    assert_eq!(*terms(&placed), json!([{"matchExpressions": [arch_in(&["amd64", "arm64"])]}]));
    placed["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "s", "image": "amd:1"}));
    let placed = world.placed(&placed);
    assert_eq!(
        *terms(&placed),
        json!([{"matchExpressions": [arch_in(&["amd64", "arm64"]), arch_in(&["amd64"])]}])
    );
    assert!(placed["metadata"]["annotations"][keys::ARCHITECTURE].as_str().unwrap().contains("amd:1"));
}
