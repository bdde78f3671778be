//! What is remembered of each rule between two looks at it. Another replica that takes the lead starts without it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use podwright_core::distribution::{History, Plan};

use super::metrics::{DistributionMetrics, EntryLabels};

/// A rule's namespace and name.
pub(super) type RuleKey = (String, String);

/// What is remembered of all rules.
#[derive(Debug, Default)]
pub struct Memory(Mutex<HashMap<RuleKey, Remembered>>);

#[derive(Debug, Default)]
struct Remembered {
    history: History,
    /// When it was last looked after.
    entered: Option<Instant>,
    /// Entries that metrics show.
    shown: HashSet<String>,
}

impl Memory {
    /// Begins to look after a rule, unless that has been done within the pause: then it tells how much of it is left.
    pub(super) fn enter(&self, key: &RuleKey, pause: Duration) -> Result<(), Duration> {
        let mut all = self.lock();
        let entered = &mut all.entry(key.clone()).or_default().entered;
        let left = entered.map_or(Duration::ZERO, |entered| pause.saturating_sub(entered.elapsed()));
        if !left.is_zero() {
            return Err(left);
        }
        *entered = Some(Instant::now());
        Ok(())
    }

    pub(super) fn history(&self, key: &RuleKey) -> History {
        self.lock().get(key).map(|known| known.history.clone()).unwrap_or_default()
    }

    pub(super) fn remember(&self, key: RuleKey, history: History) {
        self.lock().entry(key).or_default().history = history;
    }

    /// Shows a rule's entries in metrics, and no longer those that are gone.
    pub(super) fn show(&self, key: &RuleKey, plan: &Plan, metrics: &DistributionMetrics) {
        let now: HashSet<String> = plan.status.entries.iter().map(|entry| entry.entry.clone()).collect();
        let before = std::mem::replace(&mut self.lock().entry(key.clone()).or_default().shown, now.clone());
        for gone in before.difference(&now) {
            metrics.hide(&labels(key, gone));
        }
        for entry in &plan.status.entries {
            metrics.show(&labels(key, &entry.entry), entry.desired, entry.actual);
        }
    }

    /// The rule is gone, or another replica looks after it now.
    pub(super) fn forget(&self, key: &RuleKey, metrics: &DistributionMetrics) {
        let known = self.lock().remove(key);
        for entry in known.iter().flat_map(|known| &known.shown) {
            metrics.hide(&labels(key, entry));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RuleKey, Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn labels((namespace, rule): &RuleKey, entry: &str) -> EntryLabels {
    EntryLabels { namespace: namespace.clone(), rule: rule.clone(), entry: entry.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_looked_after_again_only_after_a_pause_however_often_it_is_asked_for() {
        let memory = Memory::default();
        let key = ("apps".to_owned(), "web".to_owned());
        let pause = Duration::from_millis(40);
        assert_eq!(memory.enter(&key, pause), Ok(()));
        let mut refused = 0;
        while let Err(left) = memory.enter(&key, pause) {
            assert!(left <= pause);
            refused += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(refused > 0, "asking again does not put it off for ever");
    }
}
