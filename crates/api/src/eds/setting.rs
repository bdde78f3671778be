use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, transform::RecursiveTransform};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{LabelSelector, schema};
use crate::schema::absent_not_null;

/// Other resources for the containers of one ExtendedDaemonSet on some nodes.
#[derive(Clone, CustomResource, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "datadoghq.com",
    version = "v1alpha1",
    kind = "ExtendedDaemonsetSetting",
    plural = "extendeddaemonsetsettings",
    singular = "extendeddaemonsetsetting",
    namespaced,
    status = "ExtendedDaemonsetSettingStatus",
    derive = "PartialEq",
    doc = "Other resources for the containers of one ExtendedDaemonSet on some nodes.",
    printcolumn = r#"{"name": "status", "type": "string", "jsonPath": ".status.status"}"#,
    printcolumn = r#"{"name": "node selector", "type": "string", "jsonPath": ".spec.nodeSelector"}"#,
    printcolumn = r#"{"name": "error", "type": "string", "jsonPath": ".status.error"}"#,
    printcolumn = r#"{"name": "age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(
    transform = RecursiveTransform(absent_not_null),
    transform = RecursiveTransform(schema::no_default),
    extend("required" = ["nodeSelector", "reference"])
)]
pub struct ExtendedDaemonsetSettingSpec {
    /// Whose pods: an ExtendedDaemonSet of the same namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// On which nodes. Empty: all.
    pub node_selector: LabelSelector,
    /// What their containers get.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub containers: Vec<ContainerResources>,
}

/// The ExtendedDaemonSet that a setting is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["kind", "name"]))]
pub struct Reference {
    /// Not looked at.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Not looked at.
    pub kind: String,
    /// The ExtendedDaemonSet's name.
    pub name: String,
}

/// What a container gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct ContainerResources {
    /// The container's name.
    pub name: String,
    /// Its requests, limits and claims, in place of the template's. Unset: none.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "resources")]
    pub resources: Value,
}

/// Whether a setting is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = RecursiveTransform(schema::no_default), extend("required" = ["status"]))]
pub struct ExtendedDaemonsetSettingStatus {
    /// valid, or error.
    pub status: String,
    /// Why it is not used.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

fn resources(_: &mut SchemaGenerator) -> Schema {
    let amounts = json!({
        "type": "object",
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "pattern": schema::QUANTITY,
        },
    });
    json_schema!({
        "type": "object",
        "description": "Its requests, limits and claims, in place of the template's. Unset: none.",
        "properties": {
            "limits": amounts,
            "requests": amounts,
            "claims": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}, "request": {"type": "string"}},
                },
            },
        },
    })
}
