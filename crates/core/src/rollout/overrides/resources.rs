use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Map, Value, json};

use crate::quantity::{BadQuantity, Quantity};

/// A container's requests, limits and claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Amounts {
    limits: BTreeMap<String, Amount>,
    requests: BTreeMap<String, Amount>,
    claims: Vec<Value>,
}

/// An amount and how it was written, which is how it goes into the pod.
#[derive(Clone, Debug, PartialEq)]
struct Amount {
    quantity: Quantity,
    written: Value,
}

/// What cannot be read as a container's resources.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadResources {
    #[error("it is not JSON: {0}")]
    Json(String),
    #[error("{0} must be an object, such as {{\"cpu\": \"100m\"}}")]
    NotAnObject(&'static str),
    #[error("{list}.{resource}: {cause}")]
    Amount { list: &'static str, resource: String, cause: BadQuantity },
    #[error("{list}.{resource} is neither a string nor a number")]
    Kind { list: &'static str, resource: String },
}

impl Amounts {
    /// Reads a container's resources and names the fields that were passed over. Go reads the names of fields in any case, so
    /// `Requests` is `requests`.
    pub(super) fn read(value: &Value) -> Result<(Self, Vec<String>), BadResources> {
        let mut amounts = Self::default();
        let mut unknown = Vec::new();
        let fields = match value {
            Value::Null => return Ok((amounts, unknown)),
            Value::Object(fields) => fields,
            _ => return Err(BadResources::NotAnObject("the value")),
        };
        for (name, value) in fields {
            match name.to_lowercase().as_str() {
                "limits" => amounts.limits = list("limits", value)?,
                "requests" => amounts.requests = list("requests", value)?,
                "claims" => amounts.claims = value.as_array().cloned().unwrap_or_default(),
                _ => unknown.push(name.clone()),
            }
        }
        Ok((amounts, unknown))
    }

    /// Whether all of `wanted` is here. What else is here may have been added when the pod was admitted.
    pub(super) fn includes(&self, wanted: &Self) -> bool {
        let all = |have: &BTreeMap<String, Amount>, wanted: &BTreeMap<String, Amount>| {
            wanted
                .iter()
                .all(|(name, amount)| have.get(name).is_some_and(|have| have.quantity == amount.quantity))
        };
        all(&self.limits, &wanted.limits) && all(&self.requests, &wanted.requests)
    }

    pub(super) fn to_json(&self) -> Value {
        let mut resources = Map::new();
        for (name, list) in [("limits", &self.limits), ("requests", &self.requests)] {
            if !list.is_empty() {
                let amounts: Map<String, Value> = list
                    .iter()
                    .map(|(resource, amount)| (resource.clone(), amount.written.clone()))
                    .collect();
                resources.insert(name.to_owned(), amounts.into());
            }
        }
        if !self.claims.is_empty() {
            resources.insert("claims".to_owned(), json!(self.claims));
        }
        resources.into()
    }

    /// A line for each amount, by the amount and not by how it is written.
    pub(super) fn describe(&self, container: &str, text: &mut String) {
        for (list, amounts) in [("limits", &self.limits), ("requests", &self.requests)] {
            for (resource, amount) in amounts {
                let _ = writeln!(text, "{container} {list} {resource} {}", amount.quantity.nanos());
            }
        }
        let _ = writeln!(text, "{container} claims {}", Value::from(self.claims.clone()));
    }
}

fn list(name: &'static str, value: &Value) -> Result<BTreeMap<String, Amount>, BadResources> {
    let entries = match value {
        Value::Null => return Ok(BTreeMap::new()),
        Value::Object(entries) => entries,
        _ => return Err(BadResources::NotAnObject(name)),
    };
    entries
        .iter()
        .map(|(resource, written)| {
            let text = match written {
                Value::String(text) => text.trim().to_owned(),
                Value::Number(number) => number.to_string(),
                _ => return Err(BadResources::Kind { list: name, resource: resource.clone() }),
            };
            let quantity = text.parse().map_err(|cause| BadResources::Amount {
                list: name,
                resource: resource.clone(),
                cause,
            })?;
            Ok((resource.clone(), Amount { quantity, written: text.into() }))
        })
        .collect()
}
