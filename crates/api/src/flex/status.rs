use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, transform::RecursiveTransform};
use serde::{Deserialize, Serialize};

use crate::schema::absent_not_null;

/// What is known of a template and of the pods that are sized by it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = RecursiveTransform(absent_not_null))]
pub struct FlexDaemonsetTemplateStatus {
    /// The generation of the template that this speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether the template can be used, and whether all pods follow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// How many workloads ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_sets: Option<i32>,
    /// How many pods are sized by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_use: Option<i32>,
    /// How many of these have other resources than they should and can't be resized in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drifted: Option<i32>,
}

fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
                "message": {"type": "string", "maxLength": 32768},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
            },
        },
    })
}
