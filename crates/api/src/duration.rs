use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A span of time as people write it: `7d`, `1w`, `36h`, `1m30s`, `250ms`.
///
/// ```
/// use podwright_api::LongDuration;
/// let week: LongDuration = "1w".parse().unwrap();
/// assert_eq!(week.get().as_secs(), 7 * 24 * 3600);
/// assert_eq!("90s".parse::<LongDuration>().unwrap().to_string(), "1m30s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LongDuration(Duration);

/// A duration that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a duration: write a number and a unit (ms, s, m, h, d, w), such as 30s, 36h or 7d")]
pub struct BadDuration {
    given: String,
}

/// Largest first: the order in which a duration is printed. Weeks are read, but printed as days.
const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl LongDuration {
    /// So many seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// So many milliseconds.
    #[must_use]
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// The span as the standard library's type.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl FromStr for LongDuration {
    type Err = BadDuration;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadDuration { given: text.to_owned() };
        let mut rest = text.trim();
        let mut millis: u64 = 0;
        if rest.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
            let (number, tail) = rest.split_at(digits);
            let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
            let (unit, next) = tail.split_at(end);
            let number: u64 = number.parse().map_err(|_| bad())?;
            let (_, size) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
            millis = number.checked_mul(*size).and_then(|part| millis.checked_add(part)).ok_or_else(bad)?;
            rest = next;
        }
        Ok(Self(Duration::from_millis(millis)))
    }
}

impl fmt::Display for LongDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if left == 0 {
            return f.write_str("0s");
        }
        for (unit, size) in UNITS.into_iter().filter(|(unit, _)| *unit != "w") {
            if left >= size {
                write!(f, "{}{unit}", left / size)?;
                left %= size;
            }
        }
        Ok(())
    }
}

impl Serialize for LongDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LongDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for LongDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w))+$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_printed_as_people_write_them() {
        for (text, millis, printed) in [
            ("1w", 604_800_000, "7d"),
            ("36h", 129_600_000, "1d12h"),
            ("1m30s", 90_000, "1m30s"),
            ("250ms", 250, "250ms"),
            ("0s", 0, "0s"),
            (" 10s ", 10_000, "10s"),
        ] {
            let read: LongDuration = text.parse().unwrap();
            assert_eq!(read.get(), Duration::from_millis(millis), "{text}");
            assert_eq!(read.to_string(), printed);
            assert_eq!(printed.parse::<LongDuration>().unwrap(), read);
        }
    }

    #[test]
    fn a_duration_without_unit_or_sense_is_refused_with_an_example() {
        for text in ["", "7", "d", "7x", "-1s", "1.5h", "99999999999999999999s", "7d "] {
            match text.parse::<LongDuration>() {
                Ok(read) => assert_eq!(text, "7d ", "{read} was read from {text:?}"),
                Err(error) => assert!(error.to_string().contains("7d"), "{error}"),
            }
        }
    }
}
