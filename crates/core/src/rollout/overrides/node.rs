use std::collections::BTreeMap;

use podwright_api::keys;
use serde_json::Value;

use super::{
    super::fingerprint::md5_hex,
    resources::{Amounts, BadResources},
};

/// What a node's annotations say about the containers of one ExtendedDaemonSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeOverrides {
    pub(super) containers: BTreeMap<String, Amounts>,
    /// The digest of these annotations, for which other programs look: none if there are none.
    pub hash: Option<String>,
    /// What is wrong with them, for an event. The container of an annotation that cannot be read keeps what it would have
    /// without it.
    pub problems: Vec<OverrideProblem>,
}

/// What is wrong with an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideProblem {
    /// The annotation.
    pub annotation: String,
    /// What is wrong, and what becomes of it.
    pub message: String,
}

impl NodeOverrides {
    /// Reads a node's annotations for the ExtendedDaemonSet `namespace`/`name`.
    #[must_use]
    pub fn read(annotations: &BTreeMap<String, String>, namespace: &str, name: &str) -> Self {
        let prefix = format!("{}{namespace}.{name}.", keys::EDS_NODE_OVERRIDE_PREFIX);
        let mut overrides = Self::default();
        // Sorted as "key=value" lines, which is not quite the order of the keys.
        let mut lines = Vec::new();
        for (key, value) in annotations.range(prefix.clone()..) {
            let Some(container) = key.strip_prefix(&prefix) else {
                break;
            };
            lines.push(format!("{key}={value}"));
            overrides.add(key, container, value);
        }
        if !lines.is_empty() {
            lines.sort_unstable();
            overrides.hash = Some(md5_hex(lines.concat().as_bytes()));
        }
        overrides
    }

    fn add(&mut self, key: &str, container: &str, value: &str) {
        let read = serde_json::from_str::<Value>(value)
            .map_err(|error| BadResources::Json(error.to_string()))
            .and_then(|value| Amounts::read(&value));
        let message = match read {
            Ok((amounts, unknown)) => {
                self.containers.insert(container.to_owned(), amounts);
                if unknown.is_empty() {
                    return;
                }
                format!(
                    "{} is passed over: the fields are requests, limits and claims",
                    unknown.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
                )
            }
            Err(error) => {
                format!("{error}; the container keeps the resources that it has without this annotation")
            }
        };
        self.problems.push(OverrideProblem { annotation: key.to_owned(), message });
    }
}
