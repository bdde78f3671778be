use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{NodeSelector, Operator, Requirement};

/// A label selector as it was written. Whatever was stored is read; whether it makes sense is asked later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must have these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further conditions, all of which must hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
}

/// One condition on a label, as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelRequirement {
    /// The label.
    pub key: String,
    /// How it is compared.
    pub operator: String,
    /// With `In` and `NotIn`: the values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// A selector that selects nothing, because it makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSelector {
    /// No such operator.
    #[error(
        "the label {key:?} is compared with {operator:?}, which is none of In, NotIn, Exists and DoesNotExist"
    )]
    Operator {
        /// The label.
        key: String,
        /// What was written.
        operator: String,
    },
    /// Values where none are taken, or none where some are needed.
    #[error(
        "the condition on the label {key:?} has values where its operator takes none, or none where it needs some"
    )]
    Values {
        /// The label.
        key: String,
    },
}

impl LabelSelector {
    /// The selector, if it makes sense.
    pub fn checked(&self) -> Result<NodeSelector, BadSelector> {
        let match_expressions =
            self.match_expressions.iter().map(LabelRequirement::checked).collect::<Result<_, _>>()?;
        Ok(NodeSelector { match_labels: self.match_labels.clone(), match_expressions })
    }
}

impl LabelRequirement {
    fn checked(&self) -> Result<Requirement, BadSelector> {
        let operator = match self.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => {
                return Err(BadSelector::Operator { key: self.key.clone(), operator: self.operator.clone() });
            }
        };
        let needs_values = matches!(operator, Operator::In | Operator::NotIn);
        if needs_values == self.values.is_empty() {
            return Err(BadSelector::Values { key: self.key.clone() });
        }
        Ok(Requirement { key: self.key.clone(), operator, values: self.values.clone() })
    }
}

impl JsonSchema for LabelSelector {
    fn schema_name() -> Cow<'static, str> {
        "LabelSelector".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
                "matchExpressions": {
                    "type": "array",
                    "x-kubernetes-list-type": "atomic",
                    "items": {
                        "type": "object",
                        "required": ["key", "operator"],
                        "properties": {
                            "key": {"type": "string"},
                            "operator": {"type": "string", "description": "In, NotIn, Exists or DoesNotExist."},
                            "values": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
                        },
                    },
                },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        let values = values.iter().map(|&value| value.to_owned()).collect();
        let requirement = LabelRequirement { key: key.to_owned(), operator: operator.to_owned(), values };
        LabelSelector { match_expressions: vec![requirement], ..LabelSelector::default() }
    }

    #[test]
    fn a_selector_that_makes_no_sense_says_why() {
        assert!(of("k", "In", &["a"]).checked().is_ok());
        assert!(of("k", "DoesNotExist", &[]).checked().is_ok());
        assert!(of("zone", "Nearly", &["a"]).checked().unwrap_err().to_string().contains("Nearly"));
        assert!(of("zone", "In", &[]).checked().unwrap_err().to_string().contains("zone"));
        assert!(of("zone", "Exists", &["a"]).checked().is_err());
    }
}
