use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::*;

fn definition() -> Value {
    serde_json::to_value(FlexDaemonsetTemplate::crd()).unwrap()
}

fn spec_schema() -> Value {
    definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

#[test]
fn the_definition_has_the_names_that_flexdaemonsets_users_know() {
    let definition = definition();
    assert_eq!(definition["metadata"]["name"], "flexdaemonsettemplates.flexdaemonsets.xai");
    assert_eq!(definition["spec"]["scope"], "Cluster");
    assert_eq!(
        definition["spec"]["names"],
        json!({
            "kind": "FlexDaemonsetTemplate", "plural": "flexdaemonsettemplates", "singular": "flexdaemonsettemplate",
            "shortNames": ["fdt"],
        })
    );
    let version = &definition["spec"]["versions"][0];
    assert_eq!(
        (&version["name"], &version["served"], &version["storage"]),
        (&json!("v1alpha1"), &json!(true), &json!(true))
    );
    assert_eq!(version["subresources"], json!({"status": {}}));
    let columns: Vec<&Value> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| &column["name"])
        .collect();
    assert_eq!(columns, ["CPU", "Memory", "Storage", "In use", "Ready", "Age"]);
}

#[test]
fn the_three_percentages_are_required_and_from_1_to_100_and_nothing_else_is() {
    let schema = spec_schema();
    let mut required: Vec<&str> =
        schema["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    required.sort_unstable();
    assert_eq!(required, ["cpuPercentage", "memoryPercentage", "storagePercentage"]);
    for name in required {
        let field = &schema["properties"][name];
        assert_eq!((&field["type"], &field["format"]), (&json!("integer"), &json!("int32")));
        assert_eq!(
            (field["minimum"].as_f64(), field["maximum"].as_f64()),
            (Some(1.0), Some(100.0)),
            "{field}"
        );
    }
}

#[test]
fn minimums_are_strings_without_a_bound_on_their_length_and_must_be_quantities() {
    for name in ["minCPU", "minMemory", "minStorage"] {
        let field = &spec_schema()["properties"][name];
        assert_eq!((&field["type"], &field["maxLength"]), (&json!("string"), &Value::Null));
        assert_eq!(field["x-kubernetes-validations"][0]["rule"], "self == '' || isQuantity(self)");
    }
    let rules = &spec_schema()["x-kubernetes-validations"];
    assert!(rules[0]["rule"].as_str().unwrap().contains("quantity(self.minCPU)"), "{rules}");
}

#[test]
fn no_field_is_nullable_or_defaulted_so_that_stored_objects_stay_as_they_were_written() {
    let text = spec_schema().to_string();
    assert!(!text.contains("\"nullable\"") && !text.contains("\"default\""), "{text}");
    let properties = &spec_schema()["properties"];
    assert_eq!(properties["applyTo"]["enum"], json!(["EachContainer", "PodTotal"]));
    assert_eq!(
        properties["managedResources"]["items"]["enum"],
        json!(["cpu", "memory", "ephemeral-storage"])
    );
    assert_eq!(properties["overrides"]["items"]["properties"]["cpuPercentage"]["type"], "integer");
}

#[test]
fn a_template_of_flexdaemonsets_reads_with_every_option_unset_and_writes_back_the_same() {
    let written = json!({
        "cpuPercentage": 10, "memoryPercentage": 15, "storagePercentage": 5, "minCPU": "100m", "minMemory": "128Mi",
    });
    let spec: FlexDaemonsetTemplateSpec = serde_json::from_value(written.clone()).unwrap();
    assert!(ManagedResource::ALL.into_iter().all(|resource| spec.manages(resource)));
    assert!(spec.init_containers && spec.containers.chooses("any") && !spec.cap_at_allocatable);
    assert_eq!(
        (spec.apply_to, spec.limits, spec.on_drift),
        (ApplyTo::EachContainer, Limits::Equal, OnDrift::Report)
    );
    assert_eq!(serde_json::to_value(&spec).unwrap(), written);
}

#[test]
fn every_option_reads_and_writes_back_the_same() {
    let written = json!({
        "cpuPercentage": 10, "memoryPercentage": 15, "storagePercentage": 5, "maxCPU": "2", "maxStorage": "1Ti",
        "managedResources": ["cpu", "ephemeral-storage"], "applyTo": "PodTotal", "containers": {"include": ["a"], "exclude": ["b"]},
        "initContainers": false, "limits": "RequestsOnly", "capAtAllocatable": true, "onDrift": "Recreate",
        "overrides": [{
            "nodeSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}, "cpuPercentage": 5, "minCPU": "1",
        }],
    });
    let spec: FlexDaemonsetTemplateSpec = serde_json::from_value(written.clone()).unwrap();
    assert!(!spec.manages(ManagedResource::Memory));
    assert_eq!(serde_json::to_value(&spec).unwrap(), written);
}

#[test]
fn containers_are_chosen_by_name_and_exclusion_wins() {
    let choice: ContainerChoice =
        serde_json::from_value(json!({"include": ["a", "b"], "exclude": ["b"]})).unwrap();
    assert_eq!(["a", "b", "c"].map(|name| choice.chooses(name)), [true, false, false]);
}
