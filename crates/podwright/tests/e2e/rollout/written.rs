//! What we write in a test's namespace, and when that is over.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::scene::{LEASE, Scene};
use crate::labs::soon;

impl Scene<'_> {
    /// What Podwright has written in this namespace, as `verb resource`, with how often.
    pub(crate) fn writes(&self) -> anyhow::Result<BTreeMap<String, usize>> {
        let mut writes = BTreeMap::new();
        for write in self.audit.writes()? {
            *writes.entry(write.deed).or_default() += 1;
        }
        Ok(writes)
    }

    /// Waits until nothing has been written for a second, in which the manager has had its turn: it renewed its lease.
    pub(crate) async fn settled(&self) -> anyhow::Result<()> {
        let look = || anyhow::Ok((self.audit.writes()?.len(), self.audit.renewals(LEASE)?));
        let (mut last, mut since) = (look()?, Instant::now());
        soon(|| {
            let checked = look().map(|now| {
                if now.0 != last.0 {
                    (last, since) = (now, Instant::now());
                }
                since.elapsed() > Duration::from_secs(1) && now.1 >= last.1 + 2
            });
            async move {
                anyhow::ensure!(checked?, "still writing");
                Ok(())
            }
        })
        .await
    }

    /// Waits until the manager has renewed its lease so many times more.
    pub(crate) async fn await_renewals(&self, count: usize) -> anyhow::Result<()> {
        let before = self.audit.renewals(LEASE)?;
        soon(|| async {
            let renewals = self.audit.renewals(LEASE)? - before;
            anyhow::ensure!(renewals >= count, "{renewals} of {count} renewals");
            Ok(())
        })
        .await
    }
}
