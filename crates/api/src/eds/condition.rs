use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::Moment;

/// One thing that is known of an ExtendedDaemonSet or of one of its replica sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What it is about; one condition a type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the status changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Moment>,
    /// When it was confirmed or changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Moment>,
    /// One word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For a person.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The generation of the object that it speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Whether it holds.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// The condition of a type, if there is one.
#[must_use]
pub fn find<'c>(conditions: &'c [Condition], type_: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Any other type may come from elsewhere, so types have no list here.
pub(super) fn list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "description": "What is known, one entry a type.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["status", "type"],
            "properties": {
                "type": {"type": "string", "description": "What it is about."},
                "status": {"type": "string", "description": "True, False or Unknown."},
                "lastTransitionTime": {"type": "string", "format": "date-time", "description": "When the status changed last."},
                "lastUpdateTime": {"type": "string", "format": "date-time", "description": "When it was confirmed or changed last."},
                "reason": {"type": "string", "description": "One word."},
                "message": {"type": "string", "description": "For a person."},
                "observedGeneration": {"type": "integer", "format": "int64", "description": "The generation of the object that it speaks of."},
            },
        },
    })
}
