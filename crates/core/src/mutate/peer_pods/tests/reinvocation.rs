//! The API server calls again when somebody else has changed the pod after us.

use super::*;

fn first_pass() -> Value {
    mutated(
        &by_default(),
        &peer_pod(json!([
            container("app", json!({"cpu": "2", "memory": "4Gi"}), json!({"cpu": "3", "memory": "5Gi"})),
            {"name": "helper"},
        ])),
    )
}

#[test]
fn defaults_of_a_limit_range_that_reappear_are_stripped_and_not_counted() {
    let mut pod = first_pass();
    for index in 0..2 {
        let resources = &mut pod["spec"]["containers"][index]["resources"];
        resources["requests"]["cpu"] = json!("100m");
        resources["requests"]["memory"] = json!("64Mi");
        resources["limits"]["memory"] = json!("64Gi");
    }
    let after = mutated(&by_default(), &pod);
    assert_eq!(size(&after), (Some("3"), Some("5120"), None));
    assert_eq!(after["spec"]["containers"][0]["resources"], one_vm());
    assert_eq!(after["spec"]["containers"][1]["resources"], json!({}));
}

#[test]
fn an_injected_sidecar_is_added_once_and_the_others_keep_their_count() {
    let mut pod = first_pass();
    pod["spec"]["containers"].as_array_mut().unwrap().push(container(
        "mesh",
        json!({"cpu": "500m", "memory": "128Mi"}),
        json!({"cpu": "1", "memory": "1Gi"}),
    ));
    let after = mutated(&by_default(), &pod);
    assert_eq!(size(&after), (Some("4"), Some("6144"), None));
    assert_eq!(after["spec"]["containers"][2]["resources"], json!({}));
}

#[test]
fn a_sidecar_without_resources_does_not_change_the_vm() {
    let mut pod = first_pass();
    pod["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "mesh"}));
    assert_eq!(size(&mutated(&by_default(), &pod)), (Some("3"), Some("5120"), None));
}

#[test]
fn a_sidecar_put_in_front_does_not_bring_a_second_vm() {
    let mut pod = first_pass();
    pod["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .insert(0, container("mesh", json!({"cpu": "1"}), json!({})));
    let after = mutated(&by_default(), &pod);
    assert_eq!(after["spec"]["containers"][0]["resources"], json!({}));
    assert_eq!(after["spec"]["containers"][1]["resources"], one_vm());
}

#[test]
fn an_unchanged_pod_gets_no_patch_and_no_warning() {
    let outcome = review(&by_default(), &first_pass());
    assert_eq!(outcome, Outcome { concerned: true, ..Outcome::default() });
}

#[test]
fn a_record_that_the_user_brought_along_is_ignored_and_replaced() {
    let mut pod = peer_pod(json!([container("app", json!({"cpu": "8"}), json!({}))]));
    let forged = r#"{"containers":{"app":{"requests":{"cpu":"1"}}}}"#;
    pod["metadata"]["annotations"] = json!({keys::PEER_POD_RECORD: forged});
    let after = mutated(&by_default(), &pod);
    assert_eq!(annotation(&after, keys::VM_VCPUS), Some("8"));
    assert_ne!(annotation(&after, keys::PEER_POD_RECORD), Some(forged));
}

#[test]
fn a_record_that_cannot_be_read_is_written_anew_and_the_size_stays() {
    let mut pod = first_pass();
    pod["metadata"]["annotations"][keys::PEER_POD_RECORD] = json!("{");
    let after = mutated(&by_default(), &pod);
    assert_eq!(size(&after), (Some("3"), Some("5120"), None));
    assert_ne!(annotation(&after, keys::PEER_POD_RECORD), Some("{"));
}

#[test]
fn a_copy_of_a_stored_pod_is_taken_as_it_is() {
    let mut copy = first_pass();
    copy["metadata"]["name"] = json!("copy");
    assert!(review(&by_default(), &copy).patch.is_empty());
}
