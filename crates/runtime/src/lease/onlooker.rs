//! Somebody who takes no part in an election, and has to know whether anybody still does.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::time::Instant;

use super::{api::record, election::Record};

/// Looks at a Lease now and then, and never writes to it.
#[derive(Debug)]
pub struct Onlooker {
    leases: Api<Lease>,
    name: String,
    sight: Sight,
}

/// What was seen, and since when it has been so by our own clock.
#[derive(Debug)]
struct Sight {
    /// How long to wait where the Lease does not say.
    duration: Duration,
    last: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    record: Option<Record>,
    since: Instant,
    until: Instant,
}

impl Onlooker {
    /// Looks at this Lease, whose candidates wait so long for each other unless it says something else.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: impl Into<String>, duration: Duration) -> Self {
        let sight = Sight { duration, last: None };
        Self { leases: Api::namespaced(client, namespace), name: name.into(), sight }
    }

    /// Looks once. Whether all candidates have ended: one that lives renews the Lease, or takes it once it is free, so it has been
    /// seen unchanged for its whole duration only if there is none. The first look never tells so.
    pub async fn is_abandoned(&mut self) -> Result<bool, kube::Error> {
        let looked = self.leases.get_opt(&self.name).await;
        if looked.is_err() {
            self.sight.last = None;
        }
        let lease = looked?;
        Ok(self.sight.note(lease.as_ref().map(record), Instant::now()))
    }
}

impl Sight {
    fn note(&mut self, now_there: Option<Record>, now: Instant) -> bool {
        let duration = now_there.as_ref().and_then(|record| record.duration).unwrap_or(self.duration);
        let since = match self.last.take() {
            // Who looks away for long may have missed that nobody could renew it.
            Some(seen) if seen.record == now_there && now - seen.until <= duration / 2 => seen.since,
            _ => now,
        };
        self.last = Some(Seen { record: now_there, since, until: now });
        now > since && now - since >= duration
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: [u64; 0] = [];

    #[test]
    fn a_lease_is_abandoned_once_nobody_has_touched_it_for_its_duration() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let record = |holder: Option<&str>, version: &str| {
            let duration = holder.map(|_| Duration::from_secs(4));
            Some(Record { holder: holder.map(str::to_owned), duration, version: version.to_owned() })
        };
        let mut sight = Sight { duration: Duration::from_secs(10), last: None };
        let mut looks = |there: &Option<Record>, seconds: std::ops::RangeInclusive<u64>| {
            seconds.filter(|second| sight.note(there.clone(), at(*second))).collect::<Vec<_>>()
        };
        assert_eq!(looks(&record(Some("a"), "1"), 0..=3), NEVER, "nothing is known of before");
        assert_eq!(looks(&record(Some("a"), "2"), 4..=7), NEVER, "renewed");
        assert_eq!(looks(&record(None, "3"), 8..=9), NEVER, "released, and another may take it");
        assert_eq!(looks(&record(Some("b"), "4"), 10..=15), [14, 15], "which it does, and dies");
        assert_eq!(looks(&None, 16..=26), [26], "removed; who held it may not have noticed");
        assert_eq!(looks(&record(Some("c"), "5"), 27..=28), NEVER);
        assert_eq!(
            looks(&record(Some("c"), "5"), 90..=93),
            NEVER,
            "nobody looked meanwhile, nor could it be renewed perhaps"
        );
        assert_eq!(looks(&record(Some("c"), "5"), 94..=94), [94]);
    }
}
