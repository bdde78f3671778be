mod drifting;
mod options;
mod vectors;

use podwright_api::flex::FlexDaemonsetTemplateSpec;
use serde_json::{Value, json};

use super::*;
use crate::pod::PodView;

fn template(value: Value) -> FlexDaemonsetTemplateSpec {
    serde_json::from_value(value).unwrap()
}

/// 10, 15 and 5 percent, with these further fields.
fn sample(more: Value) -> FlexDaemonsetTemplateSpec {
    let mut spec = json!({"cpuPercentage": 10, "memoryPercentage": 15, "storagePercentage": 5});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    template(spec)
}

fn node(allocatable: Value) -> NodeFacts {
    NodeFacts {
        name: "n".to_owned(),
        labels: [("pool".to_owned(), "big".to_owned())].into(),
        allocatable: serde_json::from_value(allocatable).unwrap(),
    }
}

/// 4 cores, 16Gi and 100Gi: a tenth is 400m, 15 percent are 2576980377, a twentieth is 5Gi.
fn four_cores() -> NodeFacts {
    node(json!({"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi"}))
}

fn pod(spec: Value) -> PodView {
    PodView::read(&json!({"metadata": {}, "spec": spec}).to_string()).unwrap()
}

/// Resource, amount and rule of each.
fn shared(spec: &FlexDaemonsetTemplateSpec, node: &NodeFacts) -> Vec<(&'static str, String, String)> {
    let share = share(spec, node).unwrap();
    let row = |one: &ResourceShare| (one.resource.name(), one.amount.to_string(), one.rule.to_string());
    share.resources.iter().map(row).collect()
}

fn amounts(spec: &FlexDaemonsetTemplateSpec, node: &NodeFacts) -> Value {
    shared(spec, node).into_iter().map(|(name, amount, _)| (name.to_owned(), json!(amount))).collect()
}

/// What each container should have, as JSON, by the template's share of the node of four cores.
fn sized(spec: &FlexDaemonsetTemplateSpec, pod: &PodView) -> (Vec<Value>, Vec<Value>) {
    let share = share(spec, &four_cores()).unwrap();
    let wanted = wanted(pod, spec, &share);
    let json = |list: Vec<Option<crate::pod::Resources>>| {
        list.into_iter().map(|one| serde_json::to_value(one).unwrap()).collect()
    };
    (json(wanted.containers), json(wanted.init_containers))
}
