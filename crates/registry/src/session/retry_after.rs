use std::time::{Duration, SystemTime};

use http::{HeaderMap, header::RETRY_AFTER};

/// How long a server wants to be left alone: seconds, or a date.
pub(super) fn read(headers: &HeaderMap) -> Option<Duration> {
    parse(headers.get(RETRY_AFTER)?.to_str().ok()?.trim(), SystemTime::now())
}

fn parse(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds).min(LONGEST));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default().min(LONGEST))
}

/// Nobody is believed who wants to be left alone for longer.
const LONGEST: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read_and_bounded() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (text, expected) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("999999999", Some(3600)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30)),
            ("Sun, 06 Nov 1994 08:49:07 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
        ] {
            assert_eq!(parse(text, now), expected.map(Duration::from_secs), "{text}");
        }
    }
}
