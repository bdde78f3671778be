use serde_json::Value;

use super::Config;

/// A configuration file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not YAML, or a value of the wrong kind.
    #[error("{0}")]
    Yaml(String),
    /// A key that does not exist.
    #[error("unknown key `{path}`{}", .nearest.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    UnknownKey {
        /// The key with those above it, such as `peerPods.mode`.
        path: String,
        /// The existing key at the same place that looks most alike.
        nearest: Option<String>,
    },
}

impl Config {
    /// Reads `podwright.yaml`. Every key must exist and every value be of its kind.
    ///
    /// Whether the values make sense is for [`check`](Self::check) to say, once environment and flags are laid over them.
    ///
    /// ```
    /// let error = podwright_api::config::Config::read("peerPods: {runtimeClases: [kata]}").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "unknown key `peerPods.runtimeClases`; did you mean `peerPods.runtimeClasses`?"
    /// );
    /// ```
    pub fn read(text: &str) -> Result<Self, ReadError> {
        let yaml = |error: serde_saphyr::Error| ReadError::Yaml(error.to_string());
        let document: Option<Value> = serde_saphyr::from_str(text).map_err(yaml)?;
        let Some(document) = document.filter(|document| !document.is_null()) else {
            return Ok(Self::default());
        };
        let schema = Self::schema();
        unknown_key(&document, &schema, &schema, "")?;
        serde_saphyr::from_str(text).map_err(yaml)
    }
}

/// Finds the first key that the schema does not have, wherever it is.
fn unknown_key(value: &Value, schema: &Value, root: &Value, path: &str) -> Result<(), ReadError> {
    let schema = resolve(schema, root);
    match value {
        Value::Object(fields) => {
            let known = schema.get("properties").and_then(Value::as_object);
            let free = schema.get("additionalProperties").filter(|free| free.is_object());
            for (key, field) in fields {
                let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match (known.and_then(|known| known.get(key)), free, known) {
                    (Some(inner), _, _) | (None, Some(inner), _) => unknown_key(field, inner, root, &at)?,
                    (None, None, Some(known)) => {
                        return Err(ReadError::UnknownKey {
                            nearest: nearest(key, known.keys(), path),
                            path: at,
                        });
                    }
                    // Not an object by the schema: the typed read says so, with the line.
                    (None, None, None) => {}
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    unknown_key(item, inner, root, &format!("{path}[{index}]"))?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Follows `$ref`, and the one branch of an optional value that says more than `null`.
fn resolve<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let reference = schema.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix('#'));
    if let Some(target) = reference.and_then(|at| root.pointer(at)) {
        return resolve(target, root);
    }
    let branches = schema.get("anyOf").and_then(Value::as_array);
    match branches.and_then(|all| all.iter().find(|one| one.get("type") != Some(&Value::from("null")))) {
        Some(branch) => resolve(branch, root),
        None => schema,
    }
}

fn nearest<'k>(given: &str, known: impl Iterator<Item = &'k String>, path: &str) -> Option<String> {
    let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
    known
        .map(|key| (strsim::damerau_levenshtein(&given.to_lowercase(), &key.to_lowercase()), key))
        .filter(|(distance, key)| *distance <= key.len().div_ceil(2))
        .min()
        .map(|(_, key)| format!("{prefix}{key}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{PeerPodsMode, VmSizing};

    #[test]
    fn an_empty_file_is_the_default() {
        for text in ["", "# only a comment\n", "{}"] {
            assert_eq!(Config::read(text).unwrap(), Config::default(), "{text:?}");
        }
    }

    #[test]
    fn every_level_of_the_file_is_read() {
        let config = Config::read(
            "features: [peer-pods]\npeerPods:\n  mode: shrink\n  sizing: effective\n  devices: {amd.com/gpu: example.com/gpus}\n  \
             capacity:\n    default: 5\n    nodes:\n    - selector: {matchLabels: {pool: big}}\n      vms: 20\n",
        )
        .unwrap();
        assert_eq!(config.peer_pods.mode, PeerPodsMode::Shrink);
        assert_eq!(config.peer_pods.sizing, VmSizing::Effective);
        assert_eq!(config.peer_pods.capacity.nodes[0].vms, 20);
        assert_eq!(config.peer_pods.devices["amd.com/gpu"], "example.com/gpus");
    }

    #[test]
    fn the_defaults_written_out_read_back_the_same() {
        let text = serde_json::to_string(&Config::default()).unwrap();
        assert_eq!(Config::read(&text).unwrap(), Config::default());
    }

    #[test]
    fn an_unknown_key_is_named_with_its_path_and_the_nearest_valid_one() {
        for (text, message) in [
            ("feature: [peer-pods]", "unknown key `feature`; did you mean `features`?"),
            ("webhook: {prot: 1}", "unknown key `webhook.prot`; did you mean `webhook.port`?"),
            ("zzzzzzzz: 1", "unknown key `zzzzzzzz`"),
            (
                "peerPods: {capacity: {nodes: [{selectr: {}, vms: 1}]}}",
                "unknown key `peerPods.capacity.nodes[0].selectr`; did you mean `peerPods.capacity.nodes[0].selector`?",
            ),
        ] {
            assert_eq!(Config::read(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_reported_with_its_place() {
        for (text, part) in [
            ("webhook:\n  port: many\n", "line 2"),
            ("features: [peer-pod]", "peer-pods"),
            ("peerPods: {mode: shrimp}", "shrink"),
            ("webhook: {timeout: 5}", "5"),
            ("a: [", "line"),
            ("- 1", "line"),
            ("webhook: {port: 1, port: 2}", "duplicate"),
        ] {
            let message = Config::read(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text:?} gave {message:?}");
        }
    }
}
