//! What the API server checks itself, with words for a person. Rules that hold for one field are written at that field: an
//! object that was stored before the rule was there may keep that field as it is, and only a change of it is checked.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// As Go writes durations.
const SPAN: &str = r"^[+]?(0|(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";
const SPAN_HELP: &str =
    "must be a duration that is not negative: numbers with units (h, m, s, ms), such as 90s, 5m or 1h30m";
const AMOUNT_HELP: &str = "must be a number such as 5, without quotes, or a percentage such as \"10%\"";

pub(super) fn span() -> Value {
    json!([{"rule": is_span("self"), "message": SPAN_HELP}])
}

/// The Go controller divides by it.
pub(super) fn positive_span() -> Value {
    json!([
        {"rule": is_span("self"), "message": SPAN_HELP},
        {"rule": format!("!{} || duration(self) > duration('0s')", is_span("self")), "message": "must be longer than 0s"},
    ])
}

pub(super) fn amount(_: &mut SchemaGenerator) -> Schema {
    int_or_string(json!([{"rule": is_amount(), "message": AMOUNT_HELP}]))
}

pub(super) fn positive_amount(_: &mut SchemaGenerator) -> Schema {
    int_or_string(json!([
        {"rule": is_amount(), "message": AMOUNT_HELP},
        {
            "rule": "type(self) == int ? self != 0 : !self.matches('^0+%$')",
            "message": "must be more than nothing, or no pod would ever be created",
        },
    ]))
}

fn int_or_string(rules: Value) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true, "x-kubernetes-validations": rules})
}

pub(super) fn at_least_one() -> Value {
    json!([{"rule": "self >= 1", "message": "must be 1 or more, or no pod would ever be created"}])
}

fn is_span(value: &str) -> String {
    format!("{value}.matches('{SPAN}')")
}

fn is_amount() -> &'static str {
    "type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^[0-9]{1,9}%$')"
}

/// Fields of a canary that contradict each other. What the controllers before us wrote into `duration` and `noRestartsDuration`
/// by themselves (`10m0s`, `5m0s`) is no one's wish and does not hinder `manual`.
pub(super) fn canary() -> Value {
    let (timeout, length) = ("self.autoFail.canaryTimeout", "self.duration");
    json!([
        {
            "rule": "!self.?autoFail.?enabled.orValue(true) || !self.?autoPause.?enabled.orValue(true) || \
                     self.?autoFail.?maxRestarts.orValue(5) >= self.?autoPause.?maxRestarts.orValue(2)",
            "message": "autoFail.maxRestarts (unset: 5) must not be less than autoPause.maxRestarts (unset: 2): \
                        the canary would fail before it could be paused",
        },
        {
            "rule": format!(
                "!has(self.autoFail) || !has({timeout}) || !self.autoFail.?enabled.orValue(true) || \
                 self.?validationMode.orValue('auto') == 'manual' || !{} || \
                 (has({length}) ? !{} || duration({timeout}) > duration({length}) : duration({timeout}) > duration('10m'))",
                is_span(timeout),
                is_span(length),
            ),
            "message": "autoFail.canaryTimeout must be longer than the canary's duration (unset: 10m): \
                        every canary would fail before its end",
        },
        {
            "rule": "self.?validationMode.orValue('auto') != 'manual' || !has(self.duration) || self.duration == '10m0s'",
            "message": "duration has no effect with validationMode manual, where a person ends the canary: remove one of the two",
        },
        {
            "rule": "self.?validationMode.orValue('auto') != 'manual' || !has(self.noRestartsDuration) || self.noRestartsDuration == '5m0s'",
            "message": "noRestartsDuration has no effect with validationMode manual, where a person ends the canary: remove one of the two",
        },
    ])
}

/// Defaults are computed, never stored: only the key of a list has one, because the API server insists.
pub(super) fn no_default(schema: &mut Schema) {
    if schema.get("default").is_some_and(|default| default != "TCP") {
        schema.remove("default");
    }
}

/// A quantity: a number, and a suffix or an exponent.
pub(super) const QUANTITY: &str =
    r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?([0-9]+([.][0-9]*)?|[.][0-9]+))?$";
