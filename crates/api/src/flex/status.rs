use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, transform::RecursiveTransform};
use serde::{Deserialize, Serialize};

use crate::schema;

/// What is known of a template and of the pods that are sized by it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = RecursiveTransform(schema::absent_not_null))]
pub struct FlexDaemonsetTemplateStatus {
    /// The generation of the template that this speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether the template can be used, and whether all pods follow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
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
