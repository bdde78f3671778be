use kube::CustomResourceExt;
use serde_json::json;

use super::*;

fn spec(value: serde_json::Value) -> PodDistributorSpec {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_rule_as_versprei_users_have_it_is_read_and_written_back_as_it_was() {
    let theirs = json!({
        "distribution": [
            {"nodeLabel": {"type": "default"}, "weight": 80},
            {"nodeLabel": {"type": "spot"}, "weight": 20},
        ],
        "target": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx-deployment"},
    });
    let spec = spec(theirs.clone());
    assert_eq!((spec.target.kind(), spec.spill_after(), spec.rebalance.per_minute()), ("Deployment", 15, 6));
    assert_eq!(serde_json::to_value(&spec).unwrap(), theirs, "what is unset is not written");
}

#[test]
fn an_entry_keeps_its_name_whatever_the_order_of_its_labels() {
    let entry = |text: &str| serde_json::from_str::<Entry>(text).unwrap().name();
    assert_eq!(entry(r#"{"nodeLabel":{"zone":"a","type":"spot"},"weight":1}"#), "type=spot,zone=a");
    assert_eq!(entry(r#"{"nodeLabel":{"type":"spot","zone":"a"},"weight":9}"#), "type=spot,zone=a");
    assert_eq!(entry(r#"{"nodeLabel":{},"weight":1}"#), ANYWHERE);
}

#[test]
fn the_definition_is_named_as_versprei_names_it() {
    let crd = PodDistributor::crd();
    assert_eq!(crd.metadata.name.as_deref(), Some("poddistributors.versprei.versprei.io"));
    assert_eq!((crd.spec.scope.as_str(), crd.spec.names.short_names), ("Namespaced", None));
    let version = &crd.spec.versions[0];
    assert_eq!((version.name.as_str(), version.served, version.storage), ("v1beta1", true, true));
    assert!(version.subresources.as_ref().unwrap().status.is_some());
}

#[test]
fn no_field_of_a_rule_is_nullable_or_defaulted_so_that_stored_objects_stay_as_they_were_written() {
    let crd = serde_json::to_value(PodDistributor::crd()).unwrap();
    let spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].to_string();
    assert!(!spec.contains("\"nullable\"") && !spec.contains("\"default\""), "{spec}");
}
