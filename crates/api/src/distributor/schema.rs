//! What the API server checks itself. Each rule is written at its field, so that an object that was stored before the rule was
//! there may keep that field as it is, and only a change of it is checked.

use serde_json::{Value, json};

pub(super) fn distribution() -> Value {
    json!([
        {"rule": "size(self) > 0", "message": "name at least one entry: without one there is nowhere for pods to go"},
        {
            "rule": "size(self) == 0 || self.exists(entry, entry.weight > 0) || self.exists(entry, entry.weight < 0)",
            "message": "at least one weight must be above 0, or no entry ever gets a pod",
        },
        {
            "rule": "self.all(one, self.exists_one(other, other.nodeLabel == one.nodeLabel))",
            "message": "two entries have the same labels: make them one, with the sum of their weights",
        },
    ])
}

pub(super) fn weight() -> Value {
    json!([
        {"rule": "self >= 0", "message": "a weight must not be negative"},
        {"rule": "self <= 1000000", "message": "a weight must not be above 1000000"},
    ])
}

/// As long as a label's value can be, which also bounds what the rules above may cost, and of its characters.
pub(super) fn label_value() -> Value {
    json!({"type": "string", "maxLength": 63, "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"})
}

/// A domain or none, then a name. Empty: none.
pub(super) const TAINT_KEY: &str =
    "^(([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// As pods may have them. Empty is unset. Enumerations and patterns cost none of what the API server grants to rules.
pub(super) const OPERATORS: [&str; 5] = ["", "Equal", "Exists", "Lt", "Gt"];
pub(super) const EFFECTS: [&str; 4] = ["", "NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn kind() -> Value {
    json!([{
        "rule": "self != 'DaemonSet' && self != 'ExtendedDaemonSet'",
        "message": "each pod of a DaemonSet has its own node, so there is nothing to spread: target a Deployment, StatefulSet, \
                    ReplicaSet, Job or another controller of pods",
    }])
}

pub(super) fn name() -> Value {
    json!([{"rule": "size(self) > 0", "message": "must name the workload whose pods are to be spread"}])
}

pub(super) fn toleration() -> Value {
    json!([
        {
            "rule": "(has(self.key) && size(self.key) > 0) || (has(self.operator) && self.operator == 'Exists')",
            "message": "a toleration without a key tolerates every taint and needs operator: Exists",
        },
        {
            "rule": "!has(self.value) || size(self.value) == 0 || !has(self.operator) || self.operator != 'Exists'",
            "message": "operator: Exists takes no value",
        },
        {
            "rule": "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "message": "tolerationSeconds need effect: NoExecute",
        },
    ])
}
