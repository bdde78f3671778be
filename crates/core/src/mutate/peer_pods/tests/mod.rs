mod golden;
mod options;
mod properties;
mod reinvocation;

use json_patch::PatchOperation;
use podwright_api::{config::PeerPodsConfig, keys};
use serde_json::{Value, json};

use super::PeerPods;
use crate::{
    mutate::{Ask, Facts, Mutator, Outcome, Request, Review},
    pod::PodView,
};

/// The mutator as configured by this piece of YAML-as-JSON.
fn peer_pods(config: Value) -> PeerPods {
    PeerPods::new(&serde_json::from_value::<PeerPodsConfig>(config).unwrap()).unwrap()
}

fn by_default() -> PeerPods {
    peer_pods(json!({}))
}

fn review(rules: &PeerPods, pod: &Value) -> Outcome {
    asked(rules, Ask::Create, pod)
}

fn asked(rules: &PeerPods, ask: Ask, pod: &Value) -> Outcome {
    let pod = PodView::read(&pod.to_string()).unwrap();
    match rules.review(
        &Request { ask, namespace: "default", uid: "2f1c9d6e-0b1a", dry_run: false },
        &pod,
        &Facts::default(),
    ) {
        Review::Done(outcome) => outcome,
        Review::Needs(lookups) => panic!("peer pods need no facts, but asked for {lookups:?}"),
    }
}

/// The pod after the mutation. That a second run has nothing to do is checked each time.
fn mutated(rules: &PeerPods, pod: &Value) -> Value {
    let after = applied(pod, &review(rules, pod).patch);
    let again = review(rules, &after).patch;
    assert!(again.is_empty(), "not idempotent on {after}: {again:?}");
    after
}

fn applied(pod: &Value, patch: &[PatchOperation]) -> Value {
    let mut after = pod.clone();
    json_patch::patch(&mut after, patch).unwrap();
    after
}

/// A peer pod with these containers.
fn peer_pod(containers: Value) -> Value {
    json!({
        "metadata": {"name": "pod"},
        "spec": {"runtimeClassName": "kata-remote", "containers": containers},
    })
}

fn container(name: &str, requests: Value, limits: Value) -> Value {
    json!({"name": name, "image": "img", "resources": {"requests": requests, "limits": limits}})
}

fn annotation<'v>(pod: &'v Value, key: &str) -> Option<&'v str> {
    pod["metadata"]["annotations"].get(key).and_then(Value::as_str)
}

/// vCPUs, MiB and GPUs as the annotations say.
fn size(pod: &Value) -> (Option<&str>, Option<&str>, Option<&str>) {
    (annotation(pod, keys::VM_VCPUS), annotation(pod, keys::VM_MEMORY), annotation(pod, keys::VM_GPUS))
}

fn one_vm() -> Value {
    json!({"requests": {"kata.peerpods.io/vm": "1"}, "limits": {"kata.peerpods.io/vm": "1"}})
}
