//! What FlexDaemonsets documents, exactly.

use super::*;

fn with_minimums() -> FlexDaemonsetTemplateSpec {
    sample(json!({"minCPU": "100m", "minMemory": "128Mi", "minStorage": "1Gi"}))
}

#[test]
fn the_sample_template_gives_each_node_its_exact_share() {
    for (allocatable, expected) in [
        (("4", "16Gi", "100Gi"), ("400m", "2576980377", "5Gi")),
        (("3920m", "15842424Ki", "95551679124"), ("392m", "2433396326", "4777583956")),
        (("500m", "512Mi", "10Gi"), ("100m", "128Mi", "1Gi")),
        (("63770m", "260000000Ki", "800Gi"), ("6377m", "39000000Ki", "40Gi")),
    ] {
        let (cpu, memory, storage) = allocatable;
        let node = node(json!({"cpu": cpu, "memory": memory, "ephemeral-storage": storage}));
        let (cpu, memory, storage) = expected;
        assert_eq!(
            amounts(&with_minimums(), &node),
            json!({"cpu": cpu, "memory": memory, "ephemeral-storage": storage})
        );
    }
}

#[test]
fn twenty_nine_percent_of_three_cores_are_870m() {
    let spec = template(json!({"cpuPercentage": 29, "memoryPercentage": 50, "storagePercentage": 1}));
    let node = node(json!({"cpu": "3", "memory": "8Gi", "ephemeral-storage": "50Gi"}));
    assert_eq!(amounts(&spec, &node), json!({"cpu": "870m", "memory": "4Gi", "ephemeral-storage": "512Mi"}));
}

#[test]
fn a_resource_that_the_node_lacks_is_left_out_or_given_by_its_minimum_alone() {
    let node = node(json!({"cpu": "4", "memory": "16Gi"}));
    assert_eq!(amounts(&sample(json!({})), &node), json!({"cpu": "400m", "memory": "2576980377"}));
    let shares = shared(&sample(json!({"minStorage": "1024Mi"})), &node);
    assert_eq!(shares[2], ("ephemeral-storage", "1Gi".to_owned(), "minimum".to_owned()));
    let capped = sample(json!({"minStorage": "1Gi", "capAtAllocatable": true}));
    assert_eq!(amounts(&capped, &node), json!({"cpu": "400m", "memory": "2576980377"}));
}

#[test]
fn the_rule_that_counted_is_told() {
    let node = four_cores();
    let rules = |more: Value| -> Vec<String> {
        shared(&sample(more), &node).into_iter().map(|(_, amount, rule)| format!("{amount} {rule}")).collect()
    };
    assert_eq!(rules(json!({}))[0], "400m 10%");
    assert_eq!(rules(json!({"minCPU": "0.4"}))[0], "400m 10%");
    assert_eq!(rules(json!({"minCPU": "0.401"}))[0], "401m minimum");
    assert_eq!(rules(json!({"minCPU": "-1", "minMemory": ""}))[..2], ["400m 10%", "2576980377 15%"]);
    assert_eq!(rules(json!({"maxCPU": "0.3"}))[0], "300m maximum");
    assert_eq!(rules(json!({"minCPU": "1", "maxCPU": "1"}))[0], "1 minimum");
    assert_eq!(rules(json!({"minCPU": "5"}))[0], "5 minimum");
    assert_eq!(rules(json!({"minCPU": "5", "capAtAllocatable": true}))[0], "4 allocatable");
    assert_eq!(rules(json!({"minCPU": "0.5m", "maxCPU": "0.7m"}))[0], "1m maximum");
}

#[test]
fn a_minimum_that_is_larger_than_the_node_is_marked() {
    let exceeds = |more: Value| share(&sample(more), &four_cores()).unwrap().resources[0].exceeds_node();
    assert!(exceeds(json!({"minCPU": "4001m"})));
    assert!(!exceeds(json!({"minCPU": "4"})));
}

#[test]
fn an_invalid_template_says_where_and_what_on_every_node() {
    for (more, message) in [
        (
            json!({"minStorage": "lots", "managedResources": ["cpu"]}),
            "spec.minStorage: \"lots\" is not a quantity",
        ),
        (
            json!({"maxCPU": "2", "minCPU": "2001m"}),
            "spec.minCPU: 2001m is more than spec.maxCPU, which is 2",
        ),
        (json!({"cpuPercentage": 0}), "spec.cpuPercentage: 0 is not a percentage from 1 to 100"),
        (json!({"memoryPercentage": 101}), "spec.memoryPercentage: 101"),
        (
            json!({"overrides": [{"nodeSelector": {}}, {"nodeSelector": {"matchLabels": {"no": "where"}}, "minMemory": "1GB"}]}),
            "spec.overrides[1].minMemory: \"1GB\"",
        ),
        (
            json!({"minCPU": "2", "overrides": [{"nodeSelector": {}, "maxCPU": "1"}]}),
            "spec.minCPU: 2 is more than spec.overrides[0].maxCPU, which is 1",
        ),
        (
            json!({"overrides": [{"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]}),
            "spec.overrides[0].nodeSelector",
        ),
    ] {
        let error = share(&sample(more), &four_cores()).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}
