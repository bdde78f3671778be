//! Schema pieces that all custom resources share.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// An optional field that is unset is absent. Without `nullable`, as in the replaced projects' definitions, a `null` is never
/// stored and no rule ever meets one.
pub(crate) fn absent_not_null(schema: &mut Schema) {
    let Some(Value::Array(types)) = schema.get_mut("type") else {
        return;
    };
    types.retain(|one| one != "null");
    if let [only] = &types[..] {
        let only = only.clone();
        schema.insert("type".to_owned(), only);
    }
}

/// Kubernetes' own conditions, one of each type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
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
