use std::{borrow::Cow, fmt, time::Duration};

use k8s_openapi::jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A point in time, to the millisecond. Kubernetes objects hold whole seconds: that is how it is written.
///
/// ```
/// use podwright_api::Moment;
/// let moment: Moment = serde_json::from_str(r#""2026-11-15T10:00:00.250Z""#).unwrap();
/// assert_eq!(moment.plus_seconds(60).to_string(), "2026-11-15T10:01:00Z");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(i64);

impl Moment {
    /// So many milliseconds after 1970.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// The second that it falls into, which is all that an object holds of it.
    #[must_use]
    pub const fn whole_seconds(self) -> Self {
        Self(self.0.div_euclid(1000) * 1000)
    }

    /// So much later.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// So many seconds later, or earlier.
    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1000)))
    }

    /// How long after `earlier` it is. Nothing, if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Self {
        Self(at.as_millisecond())
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1000);
        match Timestamp::from_second(seconds) {
            Ok(at) => at.fmt(f),
            Err(_) => write!(f, "{seconds}s"),
        }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse::<Timestamp>().map(Self::from).map_err(D::Error::custom)
    }
}

impl JsonSchema for Moment {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_as_kubernetes_writes_times() {
        let moment = Moment::from_millis(1_763_200_800_999);
        let text = serde_json::to_string(&moment).unwrap();
        assert_eq!(text, r#""2025-11-15T10:00:00Z""#);
        assert_eq!(serde_json::from_str::<Moment>(&text).unwrap(), moment.whole_seconds());
        assert!(serde_json::from_str::<Moment>(r#""yesterday""#).is_err());
    }

    #[test]
    fn what_lies_before_is_no_time_ago() {
        let moment = Moment::from_millis(5000);
        assert_eq!(moment.since(moment.plus_seconds(1)), Duration::ZERO);
        assert_eq!(moment.plus(Duration::MAX).millis(), i64::MAX);
        assert_eq!(moment.since(moment.plus_seconds(-2)), Duration::from_secs(2));
    }
}
