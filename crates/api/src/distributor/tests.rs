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

#[test]
fn what_no_pod_may_have_is_found_in_an_entry() {
    let entry = |value: serde_json::Value| serde_json::from_value::<Entry>(value).unwrap().problem();
    let labelled = |key: &str, value: &str| entry(json!({"nodeLabel": {key: value}, "weight": 1}));
    let tolerant = |toleration: serde_json::Value| {
        entry(json!({"nodeLabel": {}, "weight": 1, "tolerations": [{"operator": "Exists"}, toleration]}))
    };
    for (key, value) in
        [("type", "spot"), ("type", ""), ("karpenter.sh/capacity-type", "a_B.9"), ("a", "A-1")]
    {
        assert_eq!(labelled(key, value), None, "{key}={value}");
    }
    let long = "x".repeat(64);
    for (key, value, named) in [
        ("type", "not spot", "not spot"),
        ("type", "-spot", "-spot"),
        ("type", long.as_str(), "value"),
        ("my type", "spot", "my type"),
        ("", "spot", "key"),
        ("Upper.case/x", "spot", "Upper.case/x"),
        ("a..b/x", "spot", "a..b/x"),
        ("a/b/c", "spot", "a/b/c"),
        (&long, "spot", "key"),
    ] {
        let problem = labelled(key, value).unwrap_or_default();
        assert!(problem.contains("nodeLabel") && problem.contains(named), "{key}={value}: {problem}");
    }
    for good in [
        json!({"key": "spot", "value": "yes"}),
        json!({"key": "example.com/spot", "operator": "Exists", "value": "", "effect": ""}),
        json!({"key": "spot", "operator": "Equal", "effect": "NoExecute", "tolerationSeconds": 30}),
        json!({"key": "level", "operator": "Gt", "value": "-7", "effect": "PreferNoSchedule"}),
    ] {
        assert_eq!(tolerant(good.clone()), None, "{good}");
    }
    for (bad, named) in [
        (json!({"value": "yes"}), "has no key"),
        (json!({"key": "a b", "operator": "Exists"}), "key \"a b\""),
        (json!({"key": "spot", "value": "a b"}), "value \"a b\""),
        (json!({"key": "spot", "operator": "exists"}), "operator \"exists\""),
        (json!({"key": "spot", "operator": "Exists", "value": "yes"}), "takes no value"),
        (json!({"key": "spot", "operator": "Lt", "value": "yes"}), "whole number"),
        (json!({"key": "spot", "effect": "noSchedule"}), "effect \"noSchedule\""),
        (json!({"key": "spot", "effect": "NoSchedule", "tolerationSeconds": 3}), "NoExecute"),
    ] {
        let problem = tolerant(bad.clone()).unwrap_or_default();
        assert!(problem.starts_with("tolerations[1]") && problem.contains(named), "{bad}: {problem}");
    }
}

#[test]
fn the_definition_bounds_labels_and_names_what_tolerations_may_say() {
    let crd = serde_json::to_value(PodDistributor::crd()).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let entry = &spec["distribution"]["items"]["properties"];
    let value = &entry["nodeLabel"]["additionalProperties"];
    assert!(value["pattern"].is_string() && value["maxLength"] == 63, "{value}");
    let toleration = &entry["tolerations"]["items"];
    let fields = &toleration["properties"];
    assert_eq!(fields["operator"]["enum"], json!(["", "Equal", "Exists", "Lt", "Gt"]));
    assert_eq!(fields["effect"]["enum"], json!(["", "NoSchedule", "PreferNoSchedule", "NoExecute"]));
    assert!(fields["key"]["pattern"].is_string() && fields["key"]["maxLength"] == 317, "{fields}");
    assert_eq!(fields["value"]["maxLength"], 63);
    assert_eq!(toleration["x-kubernetes-validations"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_target_is_the_same_whatever_its_version() {
    let title = |value: serde_json::Value| serde_json::from_value::<Target>(value).unwrap().title();
    assert_eq!(title(json!({"name": "web"})), "Deployment/web");
    assert_eq!(
        title(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"})),
        "StatefulSet.apps/db"
    );
    assert_eq!(title(json!({"apiVersion": "v1", "kind": "X", "name": "y"})), "X/y");
}
