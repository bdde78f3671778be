//! Shapes that the definitions of several custom resources share.

use schemars::Schema;
use serde_json::Value;

/// An optional field that is unset is absent. Without `nullable` a `null` is never stored and no rule ever meets one.
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
