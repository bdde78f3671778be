//! A pod template, written field by field as Go's `json.Marshal` writes the typed struct.

use std::fmt::Write as _;

use podwright_api::Moment;
use serde_json::Value;

use super::{
    go_quantity::written,
    types::{Field, Kind, fields},
};
use crate::quantity::Quantity;

/// For whom it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Byte by byte what Go writes.
    Go,
    /// So that two templates that mean the same are written the same.
    Meaning,
}

pub(super) struct Writer {
    form: Form,
    out: String,
    /// Fields that the types do not know, by path.
    unknown: Vec<(String, String)>,
}

impl Writer {
    /// The template's text. Fields that the types do not know follow in lines of their own, so that without any it is Go's.
    pub(super) fn write(template: &Value, form: Form) -> String {
        let mut writer = Self { form, out: String::with_capacity(4096), unknown: Vec::new() };
        writer.object("PodTemplateSpec", Some(template), "");
        let mut text = writer.out;
        for (path, value) in writer.unknown {
            let _ = write!(text, "\n{path}={value}");
        }
        text
    }

    fn value(&mut self, kind: &Kind, value: Option<&Value>, path: &str) {
        let value = value.filter(|value| !value.is_null());
        match kind {
            Kind::Text => match value {
                None => self.out.push_str("\"\""),
                Some(Value::String(text)) => escape(&mut self.out, text),
                Some(other) => self.misfit(other),
            },
            Kind::Bool => match value {
                None => self.out.push_str("false"),
                Some(other) => self.misfit(other),
            },
            Kind::Int => match value {
                None => self.out.push('0'),
                Some(other) => self.misfit(other),
            },
            Kind::IntOrText => match value {
                None => self.out.push('0'),
                Some(Value::String(text)) => escape(&mut self.out, text),
                Some(other) => self.misfit(other),
            },
            Kind::Quantity => self.quantity(value),
            Kind::Time => self.time(value),
            Kind::Raw => match value {
                None => self.out.push_str("null"),
                Some(other) => self.misfit(other),
            },
            Kind::Pointer(inner) => match value {
                None => self.out.push_str("null"),
                Some(value) => self.value(inner, Some(value), path),
            },
            Kind::List(inner) => self.list(inner, value, path),
            Kind::Map(inner) => self.map(inner, value, path),
            Kind::Struct(name) => self.object(name, value, path),
        }
    }

    fn object(&mut self, name: &str, value: Option<&Value>, path: &str) {
        let given = match value {
            None | Some(Value::Null) => None,
            Some(Value::Object(given)) => Some(given),
            Some(other) => return self.misfit(other),
        };
        let known = fields(name);
        self.out.push('{');
        let mut first = true;
        for field in known {
            let value = given.and_then(|given| given.get(&field.name));
            let value =
                if is_empty(&field.kind, value) { self.default(name, field).or(value) } else { value };
            // The Go controller empties the name, and no pod gets it.
            let unnamed = path == "metadata" && field.name == "name";
            if unnamed || (field.omit_empty && is_empty(&field.kind, value)) {
                continue;
            }
            if !first {
                self.out.push(',');
            }
            first = false;
            escape(&mut self.out, &field.name);
            self.out.push(':');
            self.value(&field.kind, value, &join(path, &field.name));
        }
        self.out.push('}');
        for (key, value) in given.into_iter().flatten() {
            if !value.is_null() && !known.iter().any(|field| field.name == *key) {
                self.unknown.push((join(path, key), value.to_string()));
            }
        }
    }

    /// What the definition of the custom resource makes of an absent field, where another one did so and ours may not have.
    fn default(&self, name: &str, field: &Field) -> Option<&'static Value> {
        static TCP: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| "TCP".into());
        static EMPTY: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| "".into());
        match (self.form, name, field.name.as_str()) {
            (Form::Meaning, "ContainerPort", "protocol") => Some(&TCP),
            (Form::Meaning, "GRPCAction", "service") => Some(&EMPTY),
            _ => None,
        }
    }

    fn list(&mut self, inner: &Kind, value: Option<&Value>, path: &str) {
        match value {
            None => self.out.push_str("null"),
            Some(Value::Array(values)) => {
                self.out.push('[');
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        self.out.push(',');
                    }
                    self.value(inner, Some(value), &format!("{path}[{index}]"));
                }
                self.out.push(']');
            }
            Some(other) => self.misfit(other),
        }
    }

    fn map(&mut self, inner: &Kind, value: Option<&Value>, path: &str) {
        match value {
            None => self.out.push_str("null"),
            // Its keys are sorted, as Go sorts them.
            Some(Value::Object(values)) => {
                self.out.push('{');
                for (index, (key, value)) in values.iter().enumerate() {
                    if index > 0 {
                        self.out.push(',');
                    }
                    escape(&mut self.out, key);
                    self.out.push(':');
                    self.value(inner, Some(value), &join(path, key));
                }
                self.out.push('}');
            }
            Some(other) => self.misfit(other),
        }
    }

    fn quantity(&mut self, value: Option<&Value>) {
        let Some(value) = value else {
            return self.out.push_str(if self.form == Form::Go { "\"0\"" } else { "0" });
        };
        match (serde_json::from_value::<Quantity>(value.clone()), self.form) {
            (Ok(amount), Form::Go) => {
                let text = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
                escape(&mut self.out, &written(&text, &amount));
            }
            (Ok(amount), Form::Meaning) => {
                let _ = write!(self.out, "{}", amount.nanos());
            }
            (Err(_), _) => self.misfit(value),
        }
    }

    fn time(&mut self, value: Option<&Value>) {
        let Some(value) = value else {
            return self.out.push_str("null");
        };
        match serde_json::from_value::<Moment>(value.clone()) {
            Ok(moment) => escape(&mut self.out, &moment.to_string()),
            Err(_) => self.misfit(value),
        }
    }

    /// What Go could not even read; and numbers, which Go writes as they are. As it is, so that no two of them are the same.
    fn misfit(&mut self, value: &Value) {
        let _ = write!(self.out, "{value}");
    }
}

fn is_empty(kind: &Kind, value: Option<&Value>) -> bool {
    let value = value.filter(|value| !value.is_null());
    match (kind, value) {
        // Go never leaves a struct out.
        (_, None) => !matches!(kind, Kind::Struct(_) | Kind::Quantity | Kind::Time | Kind::IntOrText),
        (Kind::Text, Some(value)) => value.as_str() == Some(""),
        (Kind::Bool, Some(value)) => value.as_bool() == Some(false),
        (Kind::Int, Some(value)) => value.as_i64() == Some(0),
        (Kind::List(_), Some(value)) => value.as_array().is_some_and(Vec::is_empty),
        (Kind::Map(_), Some(value)) => value.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A string as Go writes it, with what means something in HTML escaped.
fn escape(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
