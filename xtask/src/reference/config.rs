use std::fmt::Write;

use anyhow::Context;
use podwright_api::config::Config;
use serde_json::Value;

/// Every key of the configuration file: its default and what it does.
pub(super) fn page(schema: &Value) -> anyhow::Result<String> {
    let mut page = "# Configuration file\n\n<!-- Made by `cargo xtask gen`. -->\n\n\
        `podwright manager --config podwright.yaml`. Every key is optional. A key that does not exist is an error that names \
        the nearest one that does.\n\n| key | default | meaning |\n|---|---|---|\n"
        .to_owned();
    let defaults = serde_json::to_value(Config::default())?;
    rows(&mut page, schema, schema, Some(&defaults), "").context("the schema has an unexpected shape")?;
    Ok(page)
}

fn rows(page: &mut String, schema: &Value, root: &Value, defaults: Option<&Value>, path: &str) -> Option<()> {
    for (key, field) in resolve(schema, root).get("properties")?.as_object()? {
        let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let target = resolve(field, root);
        let default = defaults.and_then(|defaults| defaults.get(key));
        let meaning = field
            .get("description")
            .or_else(|| target.get("description"))
            .and_then(Value::as_str)
            .unwrap_or("");
        let nested = target.get("properties").is_some();
        let shown = match default {
            _ if nested => String::new(),
            None | Some(Value::Null) => "unset".to_owned(),
            Some(value) => format!("`{}`", serde_json::to_string(value).ok()?.replace('|', "\\|")),
        };
        let _ = writeln!(
            page,
            "| `{at}` | {shown} | {}{} |",
            meaning.replace('\n', " ").replace('|', "\\|"),
            choices(target)
        );
        if nested {
            rows(page, target, root, default, &at)?;
        }
        if let Some(items) = target
            .get("items")
            .map(|items| resolve(items, root))
            .filter(|items| items.get("properties").is_some())
        {
            rows(page, items, root, None, &format!("{at}[]"))?;
        }
        if let Some(entries) = target
            .get("additionalProperties")
            .map(|entries| resolve(entries, root))
            .filter(|entries| entries.get("properties").is_some())
        {
            rows(page, entries, root, None, &format!("{at}.*"))?;
        }
    }
    Some(())
}

/// The values that an enumeration takes, with what each means.
fn choices(schema: &Value) -> String {
    let one_of = schema.get("oneOf").and_then(Value::as_array);
    let described: Vec<String> = one_of
        .into_iter()
        .flatten()
        .filter_map(|choice| {
            let name = choice.get("const").or_else(|| choice.get("enum")?.get(0))?.as_str()?;
            let meaning = choice.get("description").and_then(Value::as_str).unwrap_or("").replace('\n', " ");
            Some(format!("<br>`{name}`: {meaning}"))
        })
        .collect();
    described.concat()
}

fn resolve<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix('#'));
    if let Some(target) = target.and_then(|at| root.pointer(at)) {
        return target;
    }
    let branches = schema.get("anyOf").and_then(Value::as_array);
    let branch = branches
        .and_then(|all| all.iter().find(|one| one.get("type").and_then(Value::as_str) != Some("null")));
    branch.map_or(schema, |branch| resolve(branch, root))
}
