use std::str::FromStr;

use super::{Format, NANOS, Quantity};

/// A quantity that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is not a quantity: write a number and, if need be, a suffix, such as 100m, 2, 512Mi or 4Gi"
)]
pub struct BadQuantity {
    given: String,
}

/// Kubernetes keeps quantities within 64 bits; what is larger is cut to the largest.
const LARGEST: i128 = i64::MAX as i128 * NANOS;

pub(super) fn capped(nanos: i128) -> i128 {
    nanos.clamp(-LARGEST, LARGEST)
}

/// What one unit of the suffix is worth: a power of two or a power of ten.
enum Scale {
    Binary(u32),
    Decimal(i32),
}

impl FromStr for Quantity {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| BadQuantity { given: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (scale, format) = scale(suffix)?;
    let nanos = nanos(whole, fraction, &scale);
    Some(Quantity { nanos: capped(if negative { -nanos } else { nanos }), format })
}

fn scale(suffix: &str) -> Option<(Scale, Format)> {
    let binary = |power| (Scale::Binary(power), Format::Binary);
    let decimal = |power| (Scale::Decimal(power), Format::Decimal);
    Some(match suffix {
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
                return None;
            }
            (Scale::Decimal(exponent.parse().ok()?), Format::Exponent)
        }
    })
}

/// The magnitude in nano-units, rounded up. Anything that leaves the range comes back as a value beyond it, which the
/// caller caps.
fn nanos(whole: &str, fraction: &str, scale: &Scale) -> i128 {
    let digits = whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0');
    let mut mantissa: i128 = 0;
    for digit in digits {
        match mantissa.checked_mul(10).and_then(|m| m.checked_add(i128::from(digit - b'0'))) {
            Some(next) => mantissa = next,
            None => return too_many_digits(whole, scale),
        }
    }
    let shift = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    match *scale {
        Scale::Binary(power) => {
            let Some(scaled) = mantissa.checked_mul(1 << power) else {
                return i128::MAX;
            };
            shift_decimal(scaled, 9 - shift)
        }
        Scale::Decimal(power) => shift_decimal(mantissa, power.saturating_add(9).saturating_sub(shift)),
    }
}

/// More than 38 significant digits: either the value is beyond all bounds, or the tail of the fraction is finer than a
/// nano and only makes it round up.
fn too_many_digits(whole: &str, scale: &Scale) -> i128 {
    let significant = whole.trim_start_matches('0');
    if significant.len() > 28 { i128::MAX } else { nanos(significant, "", scale).saturating_add(1) }
}

/// `value * 10^power`, rounded up.
fn shift_decimal(value: i128, power: i32) -> i128 {
    let factor = 10_i128.checked_pow(power.unsigned_abs());
    match (factor, power >= 0) {
        (Some(factor), true) => value.checked_mul(factor).unwrap_or(if value == 0 { 0 } else { i128::MAX }),
        (Some(factor), false) => value / factor + i128::from(value % factor != 0),
        (None, true) => {
            if value == 0 {
                0
            } else {
                i128::MAX
            }
        }
        (None, false) => i128::from(value != 0),
    }
}
