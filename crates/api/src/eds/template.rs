use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A pod template as it was written, with every field, also those that no type of ours knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PodTemplate(pub Value);

impl PodTemplate {
    /// Labels of the pods.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.strings("labels")
    }

    /// Annotations of the pods.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.strings("annotations")
    }

    fn strings(&self, field: &str) -> impl Iterator<Item = (&str, &str)> {
        let entries =
            self.0.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
        entries.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// What the pods run.
    #[must_use]
    pub fn spec(&self) -> Option<&Value> {
        self.0.get("spec")
    }
}

/// Only what the API server has to know of it: where lists are maps, so that server-side apply merges them as it merges pods',
/// and that there are containers with names. Everything else, now or in future, passes.
impl JsonSchema for PodTemplate {
    fn schema_name() -> Cow<'static, str> {
        "PodTemplateSpec".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
        json_schema!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "metadata": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"labels": strings, "annotations": strings},
                },
                "spec": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "required": ["containers"],
                    "properties": {
                        "containers": containers(),
                        "initContainers": containers(),
                        "volumes": named(json!({"name": {"type": "string"}})),
                        "nodeSelector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                    },
                },
            },
        })
    }
}

fn containers() -> Value {
    named(json!({
        "name": {"type": "string"},
        "env": named(json!({"name": {"type": "string"}})),
        // Defaulted, as it always was: the key of a list must be there.
        "ports": map_list(&["containerPort", "protocol"], &["containerPort"], json!({
            "containerPort": {"type": "integer", "format": "int32"},
            "protocol": {"type": "string", "default": "TCP"},
        })),
        "volumeMounts": map_list(&["mountPath"], &["mountPath"], json!({"mountPath": {"type": "string"}})),
    }))
}

fn named(properties: Value) -> Value {
    map_list(&["name"], &["name"], properties)
}

fn map_list(keys: &[&str], required: &[&str], properties: Value) -> Value {
    json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys,
        "items": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "required": required,
            "properties": properties,
        },
    })
}
