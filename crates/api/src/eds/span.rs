use std::time::Duration;

/// A span of time that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSpan {
    /// Not a span at all.
    #[error("{0:?} is not a duration: write numbers with units (h, m, s, ms), such as 90s, 5m or 1h30m")]
    Unreadable(String),
    /// Less than nothing.
    #[error("{0:?} is negative")]
    Negative(String),
}

/// Nanoseconds in each unit.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a span of time as Kubernetes objects hold it, which is as Go writes it: `10m0s`, `1h30m`, `1.5s`, `0`.
pub(super) fn read(text: &str) -> Result<Duration, BadSpan> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let nanos = nanos(unsigned).ok_or_else(|| BadSpan::Unreadable(text.to_owned()))?;
    if text.starts_with('-') && nanos > 0 {
        return Err(BadSpan::Negative(text.to_owned()));
    }
    Ok(Duration::from_nanos(nanos))
}

fn nanos(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let mut rest = text;
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, next) = tail.split_at(end);
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(*size)?)?;
        // Finer than a nanosecond is cut off, as Go does.
        let mut part = *size;
        for digit in fraction.chars().filter_map(|c| c.to_digit(10)) {
            part /= 10;
            total += u128::from(digit) * part;
        }
        rest = next;
    }
    (!text.is_empty())
        .then_some(total)
        .filter(|total| *total <= i64::MAX as u128)
        .and_then(|t| u64::try_from(t).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("-0s", 0),
            ("10m0s", 600_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("1.s", 1_000),
            ("+5s", 5_000),
            ("100ms", 100),
            ("2000us", 2),
            ("2000µs", 2),
            ("1h1h", 7_200_000),
        ] {
            assert_eq!(read(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused_with_an_example_and_what_is_negative_says_so() {
        for text in
            ["", "5", "m", "5 m", "1d", "1w", ".", "-", "+", "1..5s", "5mm", "s5", "9999999999h", "１s"]
        {
            assert!(matches!(read(text), Err(BadSpan::Unreadable(_))), "{text:?}: {:?}", read(text));
        }
        assert_eq!(read("-5s"), Err(BadSpan::Negative("-5s".to_owned())));
    }
}
