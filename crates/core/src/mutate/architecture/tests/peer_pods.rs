//! Peer pods: the VM must fit, not the node.

use super::*;

fn peer(images: &[&str]) -> Value {
    with(pod(images), "/spec/runtimeClassName", json!("kata-remote"))
}

fn machines() -> World {
    world().config(
        "architecture: {architectures: {arm64: {machineType: m7g.large, machineImage: arm-image, preference: 50}, \
         amd64: {machineType: m7i.large}}}",
    )
}

fn chosen(pod: &Value) -> (&Value, &Value) {
    let annotations = &pod["metadata"]["annotations"];
    (&annotations[keys::VM_MACHINE_TYPE], &annotations[keys::VM_IMAGE])
}

#[test]
fn the_machine_type_follows_from_the_images_and_the_node_does_not_matter() {
    let world = machines();
    let placed = world.placed(&peer(&["arm"]));
    assert_eq!(chosen(&placed), (&json!("m7g.large"), &json!("arm-image")));
    assert!(placed["spec"]["affinity"].is_null() && placed["spec"]["tolerations"].is_null());
    assert_eq!(world.review(&placed).0.patch, []);
    assert_eq!(chosen(&world.placed(&peer(&["amd"]))), (&json!("m7i.large"), &Value::Null));
    assert_eq!(chosen(&world.placed(&peer(&["both"]))).0, "m7g.large", "the preferred one");
}

#[test]
fn where_there_is_no_machine_type_its_author_is_warned() {
    let (placed, warnings) = machines().admitted(&peer(&["mainframe"]));
    assert_eq!(placed, peer(&["mainframe"]));
    assert!(warnings[0].contains("machineType") && warnings[0].contains("amd64, arm64"), "{warnings:?}");
    assert!(warnings[1].contains("linux/s390x"), "{warnings:?}");
    let (outcome, asked) = world().review(&peer(&["arm"]));
    assert_eq!(
        (outcome, asked.len()),
        (Outcome::skipped(), 1),
        "without any configured nothing is looked up"
    );
}

#[test]
fn a_machine_type_that_its_author_has_chosen_stays() {
    let own = with(peer(&["arm"]), "/metadata/annotations", json!({keys::VM_MACHINE_TYPE: "mine"}));
    assert_eq!(machines().placed(&own), own);
}

#[test]
fn a_peer_pod_is_held_back_like_others() {
    let gate = "architecture: {onUnknown: Gate, architectures: {arm64: {machineType: m7g.large}}}";
    let world = machines().config(gate);
    let (held, _) = world.admitted(&peer(&["lost"]));
    assert_eq!(held["spec"]["schedulingGates"][0]["name"], keys::ARCHITECTURE);
    let freed = patched(&held, &world.image("lost", &["linux/arm64"]).finish(&held, false));
    assert_eq!(chosen(&freed).0, "m7g.large");
    assert_eq!(freed["spec"]["schedulingGates"], json!([]));
}
