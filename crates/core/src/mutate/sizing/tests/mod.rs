mod decisions;
mod properties;

use std::sync::Arc;

use podwright_api::{config::SizingConfig, keys};
use serde_json::{Value, json};

use super::Sizing;
use crate::{
    mutate::{Ask, Fact, Facts, Lookup, Mutator, Outcome, Request, Review, WorkloadFacts},
    pod::{OwnerReference, PodView},
    sizing::NodeFacts,
};

/// What there is to be looked up.
#[derive(Debug, Default)]
struct Cluster {
    facts: Vec<(Lookup, Fact)>,
}

impl Cluster {
    fn workload(
        mut self,
        version: &str,
        kind: &str,
        annotations: Value,
        owner: Option<OwnerReference>,
    ) -> Self {
        let facts = WorkloadFacts { annotations: serde_json::from_value(annotations).unwrap(), owner };
        let lookup = Lookup::Workload {
            api_version: version.to_owned(),
            kind: kind.to_owned(),
            namespace: "apps".to_owned(),
            name: "agent".to_owned(),
        };
        self.facts.push((lookup, Fact::Workload(Arc::new(facts))));
        self
    }

    fn daemon_set(self, annotations: Value) -> Self {
        self.workload("apps/v1", "DaemonSet", annotations, None)
    }

    fn template(mut self, name: &str, spec: Value) -> Self {
        let spec = serde_json::from_value(spec).unwrap();
        self.facts.push((Lookup::Template { name: name.to_owned() }, Fact::Template(Arc::new(spec))));
        self
    }

    fn node(mut self, name: &str, allocatable: Value) -> Self {
        let allocatable = serde_json::from_value(allocatable).unwrap();
        let facts = NodeFacts { name: name.to_owned(), allocatable, ..NodeFacts::default() };
        self.facts.push((Lookup::Node { name: name.to_owned() }, Fact::Node(Arc::new(facts))));
        self
    }

    /// The decision, and what was looked up for it, round by round.
    fn review(&self, rules: &Sizing, pod: &Value) -> (Outcome, Vec<Vec<Lookup>>) {
        let request = Request { ask: Ask::Create, namespace: "apps", uid: "2f1c9d6e-0b1a", dry_run: false };
        let pod = PodView::read(&pod.to_string()).unwrap();
        let mut facts = Facts::default();
        let mut rounds = Vec::new();
        loop {
            match rules.review(&request, &pod, &facts) {
                Review::Done(outcome) => return (outcome, rounds),
                Review::Needs(lookups) => {
                    assert!(rounds.len() < 5 && !lookups.is_empty(), "{rounds:?}");
                    for lookup in &lookups {
                        let found = self.facts.iter().find(|(known, _)| known == lookup);
                        facts.insert(lookup.clone(), found.map(|(_, fact)| fact.clone()));
                    }
                    rounds.push(lookups);
                }
            }
        }
    }

    fn outcome(&self, pod: &Value) -> Outcome {
        self.review(&by_default(), pod).0
    }

    /// The pod after the mutation. That a second run has nothing to do is checked each time.
    fn mutated(&self, pod: &Value) -> Value {
        let mut after = pod.clone();
        json_patch::patch(&mut after, &self.outcome(pod).patch).unwrap();
        let again = self.outcome(&after).patch;
        assert!(again.is_empty(), "not idempotent on {after}: {again:?}");
        after
    }
}

fn by_default() -> Sizing {
    Sizing::new(&SizingConfig::default())
}

fn sample() -> Value {
    json!({"cpuPercentage": 10, "memoryPercentage": 15, "storagePercentage": 5, "minCPU": "100m", "minMemory": "128Mi"})
}

/// A DaemonSet that asks for template `sample`, the template, and a node of four cores.
fn cluster() -> Cluster {
    Cluster::default()
        .daemon_set(json!({keys::RESOURCE_TEMPLATE: "sample"}))
        .template("sample", sample())
        .node("four", json!({"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi"}))
}

/// A pod as the DaemonSet controller makes it for this node.
fn daemon_pod(node: &str, containers: Value) -> Value {
    json!({
        "metadata": {
            "generateName": "agent-",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": true}],
        },
        "spec": {
            "containers": containers,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]},
            ]}}},
        },
    })
}

fn annotated(mut pod: Value, annotations: Value) -> Value {
    pod["metadata"]["annotations"] = annotations;
    pod
}

fn cpu(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
}
