//! Whether a pod of a template may run on a node, as the DaemonSet controller of Kubernetes decides it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::affinity::NodeTerms;
use crate::pod::null_is_empty;

/// Where a template lets its pods run. Read from a pod template's `spec`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// `nodeName`: only this node.
    pub node_name: Option<String>,
    /// `nodeSelector`: all of these labels.
    pub node_selector: BTreeMap<String, String>,
    /// What its node affinity insists on.
    pub required: Option<NodeTerms>,
    /// Its tolerations, without those that every daemon gets.
    pub tolerations: Vec<Toleration>,
}

/// Something that a node has against pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// A taint that a pod puts up with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// The taint's key; empty with `Exists`: any.
    #[serde(deserialize_with = "null_is_empty")]
    pub key: String,
    /// `Exists`, or `Equal`, which is also meant by nothing; `Lt` and `Gt` compare numbers.
    #[serde(deserialize_with = "null_is_empty")]
    pub operator: String,
    /// The taint's value.
    #[serde(deserialize_with = "null_is_empty")]
    pub value: String,
    /// The taint's effect; empty: any.
    #[serde(deserialize_with = "null_is_empty")]
    pub effect: String,
}

/// Key and effect of each taint that every daemon puts up with: it is to run wherever the node is in a state to be repaired.
pub const STANDARD_TOLERATIONS: [(&str, &str); 7] = [
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
    ("node.kubernetes.io/network-unavailable", NO_SCHEDULE),
];

const NO_EXECUTE: &str = "NoExecute";
const NO_SCHEDULE: &str = "NoSchedule";

/// What a node is to a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// No pod of it may be there.
    Never,
    /// A pod that runs there stays; a new one is not made.
    Stay,
    /// A pod belongs there.
    Run,
}

impl Placement {
    /// The placement of a pod template's `spec`. What cannot be read is an error: guessing would put pods where they must
    /// not be.
    pub fn read(spec: &serde_json::Value) -> Result<Self, serde_json::Error> {
        let spec = Spec::deserialize(spec)?;
        let required =
            spec.affinity.and_then(|affinity| affinity.node_affinity).and_then(|node| node.required);
        Ok(Self {
            node_name: spec.node_name.filter(|name| !name.is_empty()),
            node_selector: spec.node_selector,
            required,
            tolerations: spec.tolerations,
        })
    }

    /// What this node is to a pod of the template.
    #[must_use]
    pub fn fit(&self, name: &str, labels: &BTreeMap<String, String>, taints: &[Taint]) -> Fit {
        let selected = self.node_name.as_ref().is_none_or(|only| only == name)
            && self.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        if !selected || !self.required.as_ref().is_none_or(|terms| terms.match_node(name, labels)) {
            return Fit::Never;
        }
        taints
            .iter()
            .filter(|taint| !self.tolerates(taint))
            .map(|taint| match taint.effect.as_str() {
                NO_EXECUTE => Fit::Never,
                NO_SCHEDULE => Fit::Stay,
                _ => Fit::Run,
            })
            .min()
            .unwrap_or(Fit::Run)
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        STANDARD_TOLERATIONS.iter().any(|(key, effect)| taint.key == *key && taint.effect == *effect)
            || self.tolerations.iter().any(|toleration| toleration.covers(taint))
    }
}

impl Toleration {
    fn covers(&self, taint: &Taint) -> bool {
        taint.is_covered_by(&self.key, &self.operator, &self.value, &self.effect)
    }
}

impl Taint {
    /// Whether a toleration with these fields, empty where they are unset, is meant for it.
    pub(crate) fn is_covered_by(&self, key: &str, operator: &str, value: &str, effect: &str) -> bool {
        let named = (key.is_empty() && operator == "Exists") || key == self.key;
        let effective = effect.is_empty() || effect == self.effect;
        named
            && effective
            && match operator {
                "Exists" => true,
                "" | "Equal" => value == self.value,
                "Gt" => numbers(&self.value, value).is_some_and(|(taint, bound)| taint > bound),
                "Lt" => numbers(&self.value, value).is_some_and(|(taint, bound)| taint < bound),
                _ => false,
            }
    }

    /// Whether a pod that does not tolerate it stays away. `PreferNoSchedule` is only a wish.
    pub(crate) fn repels(&self) -> bool {
        matches!(self.effect.as_str(), NO_EXECUTE | NO_SCHEDULE)
    }
}

fn numbers(one: &str, other: &str) -> Option<(i64, i64)> {
    Some((one.parse().ok()?, other.parse().ok()?))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    node_selector: BTreeMap<String, String>,
    affinity: Option<Affinity>,
    #[serde(default, deserialize_with = "null_is_empty")]
    tolerations: Vec<Toleration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Deserialize)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeTerms>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn placed(spec: Value) -> Placement {
        Placement::read(&spec).unwrap()
    }

    fn taint(key: &str, value: &str, effect: &str) -> Taint {
        Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() }
    }

    fn fit(spec: Value, taints: &[Taint]) -> Fit {
        let labels = [("pool", "big"), ("cores", "8")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        placed(spec).fit("n1", &labels, taints)
    }

    fn required(terms: Value) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    }

    #[test]
    fn no_execute_drives_pods_away_and_no_schedule_only_keeps_new_ones_out() {
        for (taints, expected) in [
            (vec![], Fit::Run),
            (vec![taint("a", "b", "NoSchedule")], Fit::Stay),
            (vec![taint("a", "b", "NoExecute")], Fit::Never),
            (vec![taint("a", "b", "NoSchedule"), taint("a", "b", "NoExecute")], Fit::Never),
            (vec![taint("a", "b", "PreferNoSchedule")], Fit::Run),
            (vec![taint("ToBeDeletedByClusterAutoscaler", "1", "NoSchedule")], Fit::Stay),
        ] {
            assert_eq!(fit(json!({}), &taints), expected, "{taints:?}");
        }
    }

    #[test]
    fn a_node_in_trouble_keeps_its_daemon() {
        for (key, effect, expected) in [
            ("not-ready", "NoExecute", Fit::Run),
            ("unreachable", "NoExecute", Fit::Run),
            ("disk-pressure", "NoSchedule", Fit::Run),
            ("memory-pressure", "NoSchedule", Fit::Run),
            ("pid-pressure", "NoSchedule", Fit::Run),
            ("unschedulable", "NoSchedule", Fit::Run),
            ("network-unavailable", "NoSchedule", Fit::Run),
            // Put there by the node lifecycle controller beside NoExecute: keeps new pods away, as with DaemonSets.
            ("not-ready", "NoSchedule", Fit::Stay),
            ("unreachable", "NoSchedule", Fit::Stay),
        ] {
            let key = format!("node.kubernetes.io/{key}");
            assert_eq!(fit(json!({}), &[taint(&key, "", effect)]), expected, "{key}:{effect}");
        }
    }

    #[test]
    fn a_toleration_covers_what_kubernetes_says_it_covers() {
        for (toleration, expected) in [
            (json!({"operator": "Exists"}), Fit::Run),
            (json!({"key": "a", "operator": "Exists"}), Fit::Run),
            (json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"}), Fit::Never),
            (json!({"key": "a", "value": "5"}), Fit::Run),
            (json!({"key": "a", "operator": "Equal", "value": "5", "effect": "NoExecute"}), Fit::Run),
            (json!({"key": "a", "operator": "Equal", "value": "6"}), Fit::Never),
            (json!({"key": "b", "operator": "Exists"}), Fit::Never),
            (json!({"key": "a", "operator": "Gt", "value": "4"}), Fit::Run),
            (json!({"key": "a", "operator": "Lt", "value": "4"}), Fit::Never),
            (json!({"key": "a", "operator": "Whatever", "value": "5"}), Fit::Never),
            (json!({"key": "", "value": ""}), Fit::Never),
        ] {
            let spec = json!({"tolerations": [toleration]});
            assert_eq!(fit(spec, &[taint("a", "5", "NoExecute")]), expected, "{toleration}");
        }
    }

    #[test]
    fn selector_and_affinity_both_count() {
        assert_eq!(fit(json!({"nodeSelector": {"pool": "big"}}), &[]), Fit::Run);
        assert_eq!(fit(json!({"nodeSelector": {"pool": "small"}}), &[]), Fit::Never);
        assert_eq!(fit(json!({"nodeName": "n1"}), &[]), Fit::Run);
        assert_eq!(fit(json!({"nodeName": "n2"}), &[]), Fit::Never);
        let mut both =
            required(json!([{"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]}]));
        assert_eq!(fit(both.clone(), &[]), Fit::Run);
        both["nodeSelector"] = json!({"pool": "small"});
        assert_eq!(fit(both, &[]), Fit::Never);
    }

    #[test]
    fn a_node_that_is_labelled_as_excluded_gets_no_pod() {
        let spec = required(json!([{"matchExpressions": [
            {"key": "extendeddaemonset.datadoghq.com/exclude", "operator": "NotIn", "values": ["foo"]},
        ]}]));
        assert_eq!(fit(spec.clone(), &[]), Fit::Run);
        let labels = [("extendeddaemonset.datadoghq.com/exclude".to_owned(), "foo".to_owned())].into();
        assert_eq!(placed(spec).fit("n1", &labels, &[]), Fit::Never);
    }

    // The table of the Go controller's fitness test, its "node tainted" read as the DaemonSet controller reads it.
    #[test]
    fn nodes_fit_as_with_the_go_controller() {
        let not_ready = taint("node.kubernetes.io/not-ready", "", "NoExecute");
        let unschedulable = taint("node.kubernetes.io/unschedulable", "", "NoSchedule");
        for (what, spec, taints, expected) in [
            ("node ready", json!({}), vec![], Fit::Run),
            ("node not ready", json!({}), vec![not_ready], Fit::Run),
            ("node unschedulable", json!({}), vec![unschedulable], Fit::Run),
            ("node tainted", json!({}), vec![taint("mytaint", "", "NoSchedule")], Fit::Stay),
            (
                "pod with match expression",
                required(json!([{"matchExpressions": [{"key": "pool", "values": ["big"]}]}])),
                vec![],
                Fit::Never,
            ),
            ("pod with nil required", json!({"affinity": {"nodeAffinity": {}}}), vec![], Fit::Run),
            (
                "pod with match field",
                required(
                    json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]),
                ),
                vec![],
                Fit::Never,
            ),
            (
                "pod with empty match expression and field",
                required(json!([{"matchExpressions": [], "matchFields": []}])),
                vec![],
                Fit::Never,
            ),
        ] {
            assert_eq!(fit(spec, &taints), expected, "{what}");
        }
    }

    #[test]
    fn what_is_null_is_not_there_and_what_cannot_be_read_is_an_error() {
        assert_eq!(
            placed(json!({"nodeSelector": null, "affinity": null, "tolerations": null})),
            Placement::default()
        );
        assert!(Placement::read(&json!({"tolerations": "all"})).is_err());
    }
}
