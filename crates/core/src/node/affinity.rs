//! Node affinity: terms of conditions on a node's labels and name.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::pod::null_is_empty;

/// The nodes of any of these terms.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTerms {
    /// One of these must match.
    #[serde(deserialize_with = "null_is_empty")]
    pub node_selector_terms: Vec<NodeTerm>,
}

/// Conditions that must all hold. Without any it matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTerm {
    /// On labels.
    #[serde(deserialize_with = "null_is_empty")]
    pub match_expressions: Vec<NodeCondition>,
    /// On fields, of which Kubernetes knows `metadata.name`.
    #[serde(deserialize_with = "null_is_empty")]
    pub match_fields: Vec<NodeCondition>,
}

/// One condition, as it was written. One that makes no sense never holds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeCondition {
    /// The label or the field.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: String,
    /// What it is compared with.
    #[serde(deserialize_with = "null_is_empty")]
    pub values: Vec<String>,
}

impl NodeTerms {
    /// Whether the node is in any term.
    #[must_use]
    pub fn match_node(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.node_selector_terms.iter().any(|term| term.matches(name, labels))
    }
}

impl NodeTerm {
    fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        if self.match_expressions.is_empty() && self.match_fields.is_empty() {
            return false;
        }
        // A condition that makes no sense spoils its term, also where another condition would do so anyway.
        self.match_expressions.iter().all(|condition| condition.holds_for_label(labels) == Some(true))
            && self.match_fields.iter().all(|condition| condition.holds_for_field(name) == Some(true))
    }
}

impl NodeCondition {
    /// Nothing, if it makes no sense.
    fn holds_for_label(&self, labels: &BTreeMap<String, String>) -> Option<bool> {
        let value = labels.get(&self.key);
        match (self.operator.as_str(), &self.values[..]) {
            ("In", [_, ..]) => Some(value.is_some_and(|value| self.values.contains(value))),
            ("NotIn", [_, ..]) => Some(value.is_none_or(|value| !self.values.contains(value))),
            ("Exists", []) => Some(value.is_some()),
            ("DoesNotExist", []) => Some(value.is_none()),
            ("Gt", [bound]) => Some(compare(value, bound.parse().ok()?, |value, bound| value > bound)),
            ("Lt", [bound]) => Some(compare(value, bound.parse().ok()?, |value, bound| value < bound)),
            _ => None,
        }
    }

    fn holds_for_field(&self, name: &str) -> Option<bool> {
        if self.key != "metadata.name" {
            return None;
        }
        match (self.operator.as_str(), &self.values[..]) {
            ("In", [only]) => Some(only == name),
            ("NotIn", [only]) => Some(only != name),
            _ => None,
        }
    }
}

fn compare(value: Option<&String>, bound: i64, holds: fn(i64, i64) -> bool) -> bool {
    value.and_then(|value| value.parse().ok()).is_some_and(|value| holds(value, bound))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn matches(term: Value) -> bool {
        let labels = [("pool", "big"), ("cores", "8")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let terms: NodeTerms = serde_json::from_value(json!({"nodeSelectorTerms": [term]})).unwrap();
        terms.match_node("n1", &labels)
    }

    #[test]
    fn every_operator_on_labels_is_understood_and_nonsense_never_matches() {
        for (key, operator, values, expected) in [
            ("pool", "In", vec!["small", "big"], true),
            ("pool", "In", vec!["small"], false),
            ("zone", "In", vec!["a"], false),
            ("pool", "In", vec![], false),
            ("pool", "NotIn", vec!["small"], true),
            ("pool", "NotIn", vec!["big"], false),
            ("zone", "NotIn", vec!["a"], true),
            ("pool", "Exists", vec![], true),
            ("zone", "Exists", vec![], false),
            ("pool", "Exists", vec!["big"], false),
            ("zone", "DoesNotExist", vec![], true),
            ("pool", "DoesNotExist", vec![], false),
            ("cores", "Gt", vec!["7"], true),
            ("cores", "Gt", vec!["8"], false),
            ("cores", "Lt", vec!["9"], true),
            ("cores", "Lt", vec!["9", "10"], false),
            ("cores", "Gt", vec!["many"], false),
            ("pool", "Gt", vec!["1"], false),
            ("zone", "Lt", vec!["1"], false),
            ("pool", "Invalid", vec!["big"], false),
        ] {
            let term = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
            assert_eq!(matches(term), expected, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn fields_are_compared_with_one_value() {
        for (key, operator, values, expected) in [
            ("metadata.name", "In", vec!["n1"], true),
            ("metadata.name", "In", vec!["n2"], false),
            ("metadata.name", "NotIn", vec!["n2"], true),
            ("metadata.name", "NotIn", vec!["n1"], false),
            ("metadata.name", "In", vec!["n1", "n2"], false),
            ("metadata.name", "NotIn", vec!["n2", "n3"], false),
            ("metadata.name", "Exists", vec![], false),
            ("metadata.uid", "In", vec!["n1"], false),
        ] {
            let term = json!({"matchFields": [{"key": key, "operator": operator, "values": values}]});
            assert_eq!(matches(term), expected, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn terms_are_alternatives_and_the_conditions_of_one_all_count() {
        let labels = [("pool".to_owned(), "big".to_owned())].into();
        let expression = |value: &str| json!({"key": "pool", "operator": "In", "values": [value]});
        let field = json!({"key": "metadata.name", "operator": "In", "values": ["n1"]});
        for (terms, expected) in [
            (json!([]), false),
            (json!([{}]), false),
            (json!([{}, {"matchExpressions": [expression("big")]}]), true),
            (json!([{"matchExpressions": [expression("big")], "matchFields": [field]}]), true),
            (json!([{"matchExpressions": [expression("small")], "matchFields": [field]}]), false),
            (json!([{"matchExpressions": [expression("small")]}, {"matchFields": [field]}]), true),
        ] {
            let read: NodeTerms = serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap();
            assert_eq!(read.match_node("n1", &labels), expected, "{terms}");
        }
    }
}
