//! Pods that wait until the platforms of their images are known.

use super::*;

fn waiting() -> (World, Value) {
    let world = world().config("architecture: {onUnknown: Gate}");
    let (held, warnings) = world.admitted(&pod(&["lost"]));
    assert!(warnings[0].contains("waits") && warnings[0].contains("lost:1"), "{warnings:?}");
    (world, held)
}

#[test]
fn a_pod_is_held_back_with_nothing_else_decided() {
    let (world, held) = waiting();
    assert_eq!(held["spec"]["schedulingGates"], json!([{"name": "podwright.io/architecture"}]));
    assert_eq!(held["metadata"]["labels"][keys::ARCHITECTURE_STATE], "gated");
    assert!(held["spec"]["affinity"].is_null() && held["spec"]["tolerations"].is_null());
    let (again, _) = world.review(&held);
    assert_eq!((again.patch, again.warnings), (Vec::new(), Vec::new()));
    let outcome = world.finish(&held, false);
    assert_eq!(outcome.patch, [], "it waits on");
    assert!(outcome.warnings[0].contains("503"));
}

#[test]
fn once_the_platforms_are_known_the_pod_is_placed_and_comes_free() {
    let (world, held) = waiting();
    let world = world.image("lost", &["linux/arm64"]);
    for placed in [patched(&held, &world.finish(&held, false)), patched(&held, &world.review(&held).0)] {
        assert_eq!(placed["spec"]["schedulingGates"], json!([]));
        assert!(placed["metadata"]["labels"].get(keys::ARCHITECTURE_STATE).is_none());
        assert_eq!(*terms(&placed), json!([{"matchExpressions": [arch_in(&["arm64"])]}]));
        assert_eq!(placed["spec"]["tolerations"], json!([arm_toleration()]));
        assert_eq!(world.review(&placed).0.patch, []);
    }
}

#[test]
fn other_gates_stay() {
    let (world, mut held) = waiting();
    held["spec"]["schedulingGates"] =
        json!([{"name": "a"}, {"name": "podwright.io/architecture"}, {"name": "b"}]);
    let placed = patched(&held, &world.image("lost", &["linux/arm64"]).finish(&held, false));
    assert_eq!(placed["spec"]["schedulingGates"], json!([{"name": "a"}, {"name": "b"}]));
}

#[test]
fn when_the_deadline_passes_the_pod_goes_without_or_stays_with_a_reason() {
    let (world, held) = waiting();
    let gone = patched(&held, &world.finish(&held, true));
    assert_eq!(gone["spec"]["schedulingGates"], json!([]));
    assert!(gone["spec"]["affinity"].is_null());

    let strict = world.config("architecture: {onUnknown: Gate, gate: {onDeadline: Pend}}");
    let stuck = patched(&held, &strict.finish(&held, true));
    assert_eq!(stuck["spec"]["schedulingGates"], json!([]));
    assert_eq!(
        *terms(&stuck),
        json!([{"matchExpressions": [{"key": keys::IMPOSSIBLE_UNKNOWN, "operator": "Exists"}]}])
    );
}

#[test]
fn a_held_pod_whose_images_turn_out_to_be_disjoint_is_never_denied() {
    let (world, held) = waiting();
    let mut held = held;
    held["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "x", "image": "amd:1"}));
    let world = world
        .image("lost", &["linux/arm64"])
        .config("architecture: {onUnknown: Gate, onNoCommonPlatform: Deny}");
    let placed = patched(&held, &world.finish(&held, false));
    assert_eq!(placed["metadata"]["labels"][keys::ARCHITECTURE_STATE], keys::NO_COMMON_PLATFORM);
    assert_eq!(placed["spec"]["schedulingGates"], json!([]));
}

#[test]
fn a_held_pod_gets_no_new_terms_because_the_api_server_would_refuse_them() {
    let world = world().config(
        "architecture: {onUnknown: Gate, architectures: {amd64: {}, arm64: {preference: 9, requireNodeLabels: [{pool: arm}]}}}",
    );
    let zone = json!({"key": "zone", "operator": "Exists"});
    let (held, _) = world.admitted(&with(pod(&["lost"]), TERMS, json!([{"matchExpressions": [zone]}])));
    let world = world.image("lost", &["linux/amd64", "linux/arm64"]);
    let placed = patched(&held, &world.finish(&held, false));
    let pool = json!({"key": "pool", "operator": "In", "values": ["arm"]});
    assert_eq!(
        *terms(&placed),
        json!([{"matchExpressions": [zone, arch_in(&["arm64"]), pool]}]),
        "of the two alternatives the preferred one is left"
    );
}

#[test]
fn a_held_pod_comes_free_even_when_there_is_nothing_to_choose_any_more() {
    let (world, held) = waiting();
    let single =
        World { census: Census::default(), ..world }.node("amd64", &[]).image("lost", &["linux/amd64"]);
    let freed = patched(&held, &single.finish(&held, false));
    assert_eq!(freed["spec"]["schedulingGates"], json!([]));
}

#[test]
fn a_held_pod_that_is_opted_out_comes_free_as_it_is() {
    let (world, mut held) = waiting();
    held["metadata"]["labels"][keys::ARCHITECTURE] = json!(keys::OFF);
    let freed = patched(&held, &world.finish(&held, false));
    assert_eq!(freed["spec"]["schedulingGates"], json!([]));
    assert!(freed["spec"]["affinity"].is_null());
}
