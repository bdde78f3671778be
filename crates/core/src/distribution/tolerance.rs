//! Which taints a pod puts up with.

use podwright_api::distributor::Toleration;

use crate::node::Taint;

/// Whether this toleration is meant for the taint.
fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let [key, operator, value, effect] =
        [&toleration.key, &toleration.operator, &toleration.value, &toleration.effect]
            .map(|field| field.as_deref().unwrap_or_default());
    taint.is_covered_by(key, operator, value, effect)
}

/// Whether pods with these tolerations may come to a node with these taints.
pub(super) fn tolerates<'t>(
    tolerations: impl Iterator<Item = &'t Toleration> + Clone,
    taints: &[Taint],
) -> bool {
    taints
        .iter()
        .filter(|taint| taint.repels())
        .all(|taint| tolerations.clone().any(|toleration| covers(toleration, taint)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn taints_are_tolerated_as_kubernetes_does() {
        let taint = |key: &str, value: &str, effect: &str| Taint {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
        };
        let spot = taint("spot", "true", "NoSchedule");
        let level = taint("level", "950", "NoExecute");
        for (toleration, tolerated, expected) in [
            (json!({"key": "spot", "value": "true"}), &spot, true),
            (
                json!({"key": "spot", "value": "true", "effect": "NoSchedule", "operator": "Equal"}),
                &spot,
                true,
            ),
            (json!({"key": "spot", "value": "false"}), &spot, false),
            (json!({"key": "spot", "operator": "Exists"}), &spot, true),
            (json!({"key": "spot", "operator": "Exists", "effect": "NoExecute"}), &spot, false),
            (json!({"key": "other", "operator": "Exists"}), &spot, false),
            (json!({"operator": "Exists"}), &spot, true),
            (json!({"key": "level", "operator": "Gt", "value": "900"}), &level, true),
            (json!({"key": "level", "operator": "Gt", "value": "950"}), &level, false),
            (json!({"key": "level", "operator": "Lt", "value": "1000"}), &level, true),
            (json!({"key": "spot", "operator": "Lt", "value": "1000"}), &spot, false),
            (json!({"key": "spot", "operator": "Near", "value": "true"}), &spot, false),
        ] {
            let read: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(covers(&read, tolerated), expected, "{toleration}");
        }
    }

    #[test]
    fn every_taint_that_repels_must_be_tolerated() {
        let taint =
            |effect: &str| Taint { key: "a".to_owned(), value: String::new(), effect: effect.to_owned() };
        let none: [Toleration; 0] = [];
        assert!(tolerates(none.iter(), &[]));
        assert!(tolerates(none.iter(), &[taint("PreferNoSchedule")]));
        assert!(!tolerates(none.iter(), &[taint("PreferNoSchedule"), taint("NoSchedule")]));
    }
}
