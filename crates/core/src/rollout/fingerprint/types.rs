//! The shape of a pod template, as the Go types of Kubernetes 1.31 have it.

use std::{collections::HashMap, sync::LazyLock};

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bool,
    Int,
    Quantity,
    IntOrText,
    Time,
    /// Any JSON.
    Raw,
    Struct(String),
    /// Absent is something else than zero.
    Pointer(Box<Self>),
    List(Box<Self>),
    Map(Box<Self>),
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    /// An empty value is left out.
    pub(super) omit_empty: bool,
    pub(super) kind: Kind,
}

static TYPES: LazyLock<HashMap<String, Vec<Field>>> = LazyLock::new(|| read(include_str!("fields.txt")));

/// A struct's fields in their order.
pub(super) fn fields(name: &str) -> &'static [Field] {
    TYPES.get(name).map_or(&[], Vec::as_slice)
}

fn read(table: &str) -> HashMap<String, Vec<Field>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let mut words = line.split(' ');
            let name = words.next()?.to_owned();
            Some((name, words.filter_map(field).collect()))
        })
        .collect()
}

fn field(word: &str) -> Option<Field> {
    let (name, kind) = word.split_once(':')?;
    let omit_empty = name.ends_with('?');
    Some(Field { name: name.trim_end_matches('?').to_owned(), omit_empty, kind: Kind::read(kind) })
}

impl Kind {
    fn read(text: &str) -> Self {
        for (prefix, outer) in
            [("*", Self::Pointer as fn(Box<Self>) -> Self), ("[]", Self::List), ("{}", Self::Map)]
        {
            if let Some(inner) = text.strip_prefix(prefix) {
                return outer(Box::new(Self::read(inner)));
            }
        }
        match text {
            "string" => Self::Text,
            "bool" => Self::Bool,
            "int" => Self::Int,
            "quantity" => Self::Quantity,
            "intstr" => Self::IntOrText,
            "time" => Self::Time,
            "raw" => Self::Raw,
            name => Self::Struct(name.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn innermost(kind: &Kind) -> &Kind {
        match kind {
            Kind::Pointer(inner) | Kind::List(inner) | Kind::Map(inner) => innermost(inner),
            other => other,
        }
    }

    #[test]
    fn every_struct_that_a_field_names_is_in_the_table() {
        assert!(TYPES.len() > 100 && fields("PodSpec").len() > 30);
        for (name, fields) in TYPES.iter() {
            assert!(!fields.is_empty() || name == "NodeInclusionPolicy", "{name}");
            for field in fields {
                if let Kind::Struct(other) = innermost(&field.kind) {
                    assert!(TYPES.contains_key(other), "{name}.{} is a {other}", field.name);
                }
            }
        }
    }
}
