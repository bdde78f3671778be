//! Nodes as decisions see them: do these labels match that selector, and may a pod of this template run there?

mod affinity;
mod fit;

use std::collections::BTreeMap;

use podwright_api::config::{NodeSelector, Operator, Requirement};

pub use affinity::{NodeCondition, NodeTerm, NodeTerms};
pub use fit::{Fit, Placement, STANDARD_TOLERATIONS, Taint, Toleration};

/// Whether a node with these labels is selected. An empty selector selects every node.
#[must_use]
pub fn selects(selector: &NodeSelector, labels: &BTreeMap<String, String>) -> bool {
    selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().all(|requirement| holds(requirement, labels))
}

fn holds(requirement: &Requirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let listed = value.is_some_and(|value| requirement.values.contains(value));
    match requirement.operator {
        Operator::In => listed,
        Operator::NotIn => !listed,
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_matches_as_kubernetes_label_selectors_do() {
        let labels: BTreeMap<String, String> =
            [("pool", "big"), ("arch", "arm64")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        for (json, expected) in [
            (r"{}", true),
            (r#"{"matchLabels":{"pool":"big"}}"#, true),
            (r#"{"matchLabels":{"pool":"small"}}"#, false),
            (r#"{"matchLabels":{"pool":"big","zone":"a"}}"#, false),
            (r#"{"matchExpressions":[{"key":"arch","operator":"In","values":["amd64","arm64"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"arch","operator":"NotIn","values":["arm64"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"zone","operator":"NotIn","values":["a"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"zone","operator":"Exists"}]}"#, false),
            (r#"{"matchExpressions":[{"key":"zone","operator":"DoesNotExist"}]}"#, true),
            (
                r#"{"matchLabels":{"pool":"big"},"matchExpressions":[{"key":"pool","operator":"DoesNotExist"}]}"#,
                false,
            ),
        ] {
            let selector: NodeSelector = serde_json::from_str(json).unwrap();
            assert_eq!(selects(&selector, &labels), expected, "{json}");
        }
    }
}
