//! Quantities as Go writes them back: in canonical form, unless the text that was read looks canonical enough to be kept.

use crate::quantity::Quantity;

/// The text that Go writes for an amount that it has read from `text`.
pub(super) fn written(text: &str, amount: &Quantity) -> String {
    if is_kept(text) == Some(true) { text.to_owned() } else { amount.to_string() }
}

/// Whether Go's parser takes its short way and finds nothing to normalise. It looks at powers of a thousand only, so `1.500`
/// and `+3` stay as they are.
fn is_kept(text: &str) -> Option<bool> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = unsigned.split_at(digits(unsigned));
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    if let Some(exponent) = binary_exponent(suffix) {
        let room = 15 - i32::try_from(whole.len()).ok()? - exponent * 3 / 10 - 1;
        let value: i64 = whole.parse().ok()?;
        let fits = value.checked_mul(1 << exponent).is_some();
        return Some(fraction.is_empty() && room >= 0 && fits && value & 7 != 0);
    }
    let scale = decimal_exponent(suffix)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let shifted = format!("{whole}{fraction}");
    let short = shifted.len() <= 18 && scale >= -9;
    Some(short && scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'))
}

fn binary_exponent(suffix: &str) -> Option<i32> {
    let at = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|name| *name == suffix)?;
    i32::try_from(10 * (at + 1)).ok()
}

fn decimal_exponent(suffix: &str) -> Option<i32> {
    let named = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(at) = named.iter().position(|name| *name == suffix) {
        return i32::try_from(3 * at).ok().map(|exponent| exponent - 9);
    }
    suffix.strip_prefix(['e', 'E'])?.parse().ok()
}
