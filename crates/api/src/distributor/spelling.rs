//! Whether the API server takes what an entry writes on a pod. It checks most of that when a rule is written, but a rule may have
//! been stored before it did, and it does not look at the keys of labels. A pod with such a label or toleration would be refused.

use super::{Entry, Toleration};

impl Entry {
    /// What is wrong with its labels or tolerations.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        for (key, value) in &self.node_label {
            if !is_label_key(key) {
                return Some(format!(
                    "nodeLabel has the key {key:?}, which no label can have: at most 63 letters, digits, '-', '_' and '.', with a \
                     letter or digit at both ends, after an optional domain and '/'"
                ));
            }
            if !is_label_value(value) {
                return Some(format!(
                    "nodeLabel {key} has the value {value:?}, which no label can have: {VALUES}"
                ));
            }
        }
        self.tolerations
            .iter()
            .enumerate()
            .find_map(|(index, toleration)| Some(format!("tolerations[{index}] {}", toleration.problem()?)))
    }
}

const VALUES: &str = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";

impl Toleration {
    fn problem(&self) -> Option<String> {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let (key, operator, value, effect) =
            (text(&self.key), text(&self.operator), text(&self.value), text(&self.effect));
        if key.is_empty() && operator != "Exists" {
            return Some("has no key, so it tolerates every taint and needs operator: Exists".to_owned());
        }
        if !key.is_empty() && !is_label_key(&key) {
            return Some(format!("has the key {key:?}, which no taint can have"));
        }
        let is_number = || value.parse::<i64>().is_ok_and(|number| number.to_string() == value);
        match operator.as_str() {
            "" | "Equal" if !is_label_value(&value) => {
                return Some(format!("has the value {value:?}, which no taint can have: {VALUES}"));
            }
            "Exists" if !value.is_empty() => {
                return Some("has operator Exists, which takes no value".to_owned());
            }
            "Lt" | "Gt" if !is_number() => {
                return Some(format!(
                    "has operator {operator}, which needs a whole number, and the value {value:?}"
                ));
            }
            "" | "Equal" | "Exists" | "Lt" | "Gt" => {}
            _ => return Some(format!("has the operator {operator:?}: use Equal, Exists, Lt or Gt")),
        }
        if !matches!(effect.as_str(), "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            return Some(format!("has the effect {effect:?}: use NoSchedule, PreferNoSchedule or NoExecute"));
        }
        (self.toleration_seconds.is_some() && effect != "NoExecute")
            .then(|| "has tolerationSeconds, which need the effect NoExecute".to_owned())
    }
}

fn is_label_key(key: &str) -> bool {
    let (domain, name) = key.split_once('/').map_or((None, key), |(domain, name)| (Some(domain), name));
    let is_part = |part: &str| {
        let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        edges(part, inner) && part.bytes().all(|c| inner(c) || c == b'-')
    };
    !name.is_empty()
        && is_label_value(name)
        && domain.is_none_or(|domain| domain.len() <= 253 && domain.split('.').all(is_part))
}

fn is_label_value(value: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric();
    value.is_empty()
        || (value.len() <= 63
            && edges(value, inner)
            && value.bytes().all(|c| inner(c) || matches!(c, b'-' | b'_' | b'.')))
}

fn edges(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    text.bytes().next().is_some_and(&allowed) && text.bytes().last().is_some_and(&allowed)
}
