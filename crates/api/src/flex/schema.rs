//! What the API server checks itself. Rules that hold for one field are written at that field: an object that was stored
//! before the rule was there may keep that field as it is, and only a change of it is checked.

use serde_json::{Value, json};

/// An empty string counts as unset, as it does in FlexDaemonsets.
pub(super) fn quantity() -> Value {
    json!([{
        "rule": "self == '' || isQuantity(self)",
        "message": "must be a quantity: a number and, if need be, a suffix, such as 100m, 2, 512Mi or 4Gi",
    }])
}

/// No minimum above its maximum. What is no quantity is reported at its own field.
pub(super) fn bounds() -> Value {
    ["CPU", "Memory", "Storage"]
        .map(|resource| {
            let (min, max) = (format!("self.min{resource}"), format!("self.max{resource}"));
            json!({
                "rule": format!(
                    "!has({min}) || !has({max}) || !isQuantity({min}) || !isQuantity({max}) || \
                     quantity({min}).compareTo(quantity({max})) <= 0"
                ),
                "message": format!("min{resource} must not be more than max{resource}"),
            })
        })
        .into()
}
