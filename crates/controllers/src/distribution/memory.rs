//! What is remembered of each rule between two looks at it. Another replica that takes the lead starts without it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use podwright_core::distribution::{History, Plan};

use super::metrics::{DistributionMetrics, EntryLabels};

/// A rule's namespace and name.
pub(super) type RuleKey = (String, String);

/// One rule, and no other that comes to have its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleId {
    pub(super) key: RuleKey,
    pub(super) uid: String,
}

/// What is remembered of all rules.
///
/// Whoever looks after a rule may be slower than the news that it is gone. So `is_there` is asked while nobody else can note or
/// forget anything: if it still is then, the news comes afterwards.
#[derive(Debug, Default)]
pub struct Memory(Mutex<HashMap<RuleKey, Remembered>>);

#[derive(Debug, Default)]
struct Remembered {
    uid: String,
    history: History,
    /// Entries that metrics show.
    shown: HashSet<String>,
}

impl Memory {
    pub(super) fn history(&self, key: &RuleKey) -> History {
        self.lock().get(key).map(|known| known.history.clone()).unwrap_or_default()
    }

    pub(super) fn remember(&self, id: &RuleId, history: History, is_there: impl FnOnce() -> bool) {
        self.note(id, is_there, |known| known.history = history);
    }

    /// Shows a rule's entries in metrics, and no longer those that are gone.
    pub(super) fn show(
        &self,
        id: &RuleId,
        plan: &Plan,
        metrics: &DistributionMetrics,
        is_there: impl FnOnce() -> bool,
    ) {
        let now: HashSet<String> = plan.status.entries.iter().map(|entry| entry.entry.clone()).collect();
        self.note(id, is_there, |known| {
            for gone in known.shown.difference(&now) {
                metrics.hide(&labels(&id.key, gone));
            }
            for entry in &plan.status.entries {
                metrics.show(&labels(&id.key, &entry.entry), entry.desired, entry.actual);
            }
            known.shown = now;
        });
    }

    /// The rule is gone, or another replica looks after it now.
    pub(super) fn forget(&self, key: &RuleKey, metrics: &DistributionMetrics) {
        let mut all = self.lock();
        if let Some(known) = all.remove(key) {
            known.hide(key, metrics);
        }
    }

    /// Keeps what is remembered of these rules, by key and uid, and forgets the others.
    pub(super) fn keep(&self, is_there: impl Fn(&RuleKey, &str) -> bool, metrics: &DistributionMetrics) {
        self.lock().retain(|key, known| {
            let stays = is_there(key, &known.uid);
            if !stays {
                known.hide(key, metrics);
            }
            stays
        });
    }

    /// Notes something of a rule if it is there.
    fn note<T>(
        &self,
        id: &RuleId,
        is_there: impl FnOnce() -> bool,
        what: impl FnOnce(&mut Remembered) -> T,
    ) -> Option<T> {
        let mut all = self.lock();
        is_there().then(|| {
            let new = || Remembered { uid: id.uid.clone(), ..Remembered::default() };
            what(all.entry(id.key.clone()).or_insert_with(new))
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RuleKey, Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remembered {
    fn hide(&self, key: &RuleKey, metrics: &DistributionMetrics) {
        for entry in &self.shown {
            metrics.hide(&labels(key, entry));
        }
    }
}

fn labels((namespace, rule): &RuleKey, entry: &str) -> EntryLabels {
    EntryLabels { namespace: namespace.clone(), rule: rule.clone(), entry: entry.to_owned() }
}

#[cfg(test)]
mod tests {
    use podwright_api::distributor::EntryStatus;
    use prometheus_client::{encoding::text::encode, registry::Registry};

    use super::*;

    fn rule(uid: &str) -> RuleId {
        RuleId { key: ("apps".to_owned(), "web".to_owned()), uid: uid.to_owned() }
    }

    fn plan(entries: &[&str]) -> Plan {
        let status = |entry: &&str| EntryStatus { entry: (*entry).to_owned(), ..EntryStatus::default() };
        let mut plan = Plan::default();
        plan.status.entries = entries.iter().map(status).collect();
        plan
    }

    fn shown(registry: &Registry) -> usize {
        let mut page = String::new();
        encode(&mut page, registry).unwrap();
        page.lines().filter(|line| line.contains("rule=\"web\"")).count()
    }

    #[test]
    fn a_look_that_ends_after_its_rule_leaves_nothing_of_it_behind() {
        let mut registry = Registry::default();
        let (memory, metrics) = (Memory::default(), DistributionMetrics::register(&mut registry));
        let id = rule("1");
        memory.show(&id, &plan(&["a", "b"]), &metrics, || true);
        assert_eq!(shown(&registry), 4);
        memory.forget(&id.key, &metrics);
        memory.show(&id, &plan(&["a"]), &metrics, || false);
        memory.remember(&id, History::default(), || false);
        assert_eq!((shown(&registry), memory.lock().len()), (0, 0));
    }

    #[test]
    fn rules_that_went_unseen_are_forgotten_and_so_is_one_whose_name_another_has() {
        let mut registry = Registry::default();
        let (memory, metrics) = (Memory::default(), DistributionMetrics::register(&mut registry));
        memory.show(&rule("1"), &plan(&["a"]), &metrics, || true);
        memory.keep(|_, uid| uid == "1", &metrics);
        assert_eq!((shown(&registry), memory.lock().len()), (2, 1));
        memory.keep(|_, uid| uid == "2", &metrics);
        assert_eq!((shown(&registry), memory.lock().len()), (0, 0));
    }
}
