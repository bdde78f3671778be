//! Which taints a pod puts up with.

use podwright_api::distributor::Toleration;

/// What keeps pods from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: String,
}

impl Taint {
    /// Whether a pod that does not tolerate it stays away. PreferNoSchedule is only a wish.
    #[must_use]
    pub fn repels(&self) -> bool {
        self.effect != "PreferNoSchedule"
    }

    /// Whether this toleration is meant for it.
    #[must_use]
    pub fn is_tolerated_by(&self, toleration: &Toleration) -> bool {
        let unset_or = |asked: &Option<String>, own: &str| {
            asked.as_deref().is_none_or(|asked| asked.is_empty() || asked == own)
        };
        if !unset_or(&toleration.effect, &self.effect) || !unset_or(&toleration.key, &self.key) {
            return false;
        }
        let value = toleration.value.as_deref().unwrap_or_default();
        match toleration.operator.as_deref().unwrap_or_default() {
            "" | "Equal" => value == self.value,
            "Exists" => true,
            "Lt" => numbers(&self.value, value).is_some_and(|(own, asked)| own < asked),
            "Gt" => numbers(&self.value, value).is_some_and(|(own, asked)| own > asked),
            _ => false,
        }
    }
}

fn numbers(own: &str, asked: &str) -> Option<(i64, i64)> {
    Some((own.parse().ok()?, asked.parse().ok()?))
}

/// Whether pods with these tolerations may come to a node with these taints.
pub(super) fn tolerates<'t>(
    tolerations: impl Iterator<Item = &'t Toleration> + Clone,
    taints: &[Taint],
) -> bool {
    taints
        .iter()
        .filter(|taint| taint.repels())
        .all(|taint| tolerations.clone().any(|toleration| taint.is_tolerated_by(toleration)))
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
            assert_eq!(tolerated.is_tolerated_by(&read), expected, "{toleration}");
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
