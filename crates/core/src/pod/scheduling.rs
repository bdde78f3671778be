//! What a pod tells the scheduler, beside the node affinity itself.

use podwright_api::config::{TaintConfig, TaintEffect};
use serde::{Deserialize, Serialize};

use super::{NodeTerm, view::null_is_empty};

/// A condition on a node's label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRequirement {
    /// The label.
    pub key: String,
    /// Such as `In`.
    pub operator: String,
    /// What it is compared with.
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl NodeRequirement {
    /// The label has one of these values.
    #[must_use]
    pub fn is_in(key: &str, values: impl IntoIterator<Item = String>) -> Self {
        Self { key: key.to_owned(), operator: "In".to_owned(), values: values.into_iter().collect() }
    }

    /// The label is there.
    #[must_use]
    pub fn exists(key: &str) -> Self {
        Self { key: key.to_owned(), operator: "Exists".to_owned(), values: Vec::new() }
    }
}

/// What the scheduler weighs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PreferredTerm {
    /// From 1 to 100.
    pub weight: i32,
    /// Which nodes.
    pub preference: NodeTerm,
}

/// A taint, or several, that a pod puts up with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// The taint's key; with `Exists`, none for every key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `Equal`, which is the default, or `Exists`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// With `Equal`: the taint's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The taint's effect; none for every effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// With `NoExecute`: for how long.
    #[serde(rename = "tolerationSeconds", skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
}

impl From<&podwright_api::distributor::Toleration> for Toleration {
    fn from(stated: &podwright_api::distributor::Toleration) -> Self {
        Self {
            key: stated.key.clone(),
            operator: stated.operator.clone(),
            value: stated.value.clone(),
            effect: stated.effect.clone(),
            seconds: stated.toleration_seconds,
        }
    }
}

impl Toleration {
    /// What tolerates this taint and nothing else.
    #[must_use]
    pub fn of(taint: &TaintConfig) -> Self {
        Self {
            key: Some(taint.key.clone()),
            operator: Some(if taint.value.is_some() { "Equal" } else { "Exists" }.to_owned()),
            value: taint.value.clone(),
            effect: taint.effect.map(|effect| effect.name().to_owned()),
            seconds: None,
        }
    }

    /// Whether it tolerates the taint, whatever the taint leaves open.
    #[must_use]
    pub fn tolerates(&self, taint: &TaintConfig) -> bool {
        let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let effect = set(&self.effect);
        let exists = self.operator.as_deref() == Some("Exists");
        let key = set(&self.key);
        let any_key = key.is_none() && exists;
        (any_key || key.as_deref() == Some(taint.key.as_str()))
            && (effect.is_none() || effect.as_deref() == taint.effect.map(TaintEffect::name))
            && (exists
                || (taint.value.is_some()
                    && self.value.clone().unwrap_or_default() == taint.value.clone().unwrap_or_default()))
    }
}

/// What a pod waits for before it is scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulingGate {
    /// Who holds it back.
    pub name: String,
}

/// The operating system that a pod says it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodOs {
    /// `linux` or `windows`.
    pub name: String,
}

/// A Secret by name, in the pod's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SecretName {
    /// The name.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_toleration_covers_a_taint_as_the_scheduler_sees_it() {
        let taint = TaintConfig {
            key: "arch".to_owned(),
            value: Some("arm64".to_owned()),
            effect: Some(TaintEffect::NoSchedule),
        };
        for (toleration, covers) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "", "operator": "Exists"}), true),
            (json!({"key": "arch", "operator": "Exists"}), true),
            (json!({"key": "arch", "value": "arm64"}), true),
            (json!({"key": "arch", "operator": "Equal", "value": "arm64", "effect": "NoSchedule"}), true),
            (json!({"key": "arch", "value": "arm64", "effect": "NoExecute"}), false),
            (json!({"key": "arch", "value": "amd64"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
            (json!({"value": "arm64"}), false),
        ] {
            let read: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(read.tolerates(&taint), covers, "{toleration}");
        }
        assert!(Toleration::of(&taint).tolerates(&taint));
        let open = TaintConfig { value: None, effect: None, ..taint };
        assert!(Toleration::of(&open).tolerates(&open));
    }
}
