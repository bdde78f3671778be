//! What is remembered of each rule between two looks at it. Another replica that takes the lead starts without it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
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
    /// Entries that metrics show.
    shown: HashSet<String>,
}

impl Memory {
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
