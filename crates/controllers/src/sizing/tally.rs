use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What one DaemonSet's pods look like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Pods that have what the template gives them, or are about to get it.
    pub(super) sized: i32,
    /// Pods that have something else and cannot be resized, with the first reason.
    pub(super) drifted: i32,
    pub(super) reason: Option<String>,
}

/// The tallies of all DaemonSets that ask for a template, as last looked at.
#[derive(Debug, Default)]
pub(super) struct Tallies(Mutex<HashMap<String, (String, Tally)>>);

/// A template's DaemonSets together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) daemon_sets: i32,
    pub(super) sized: i32,
    pub(super) drifted: i32,
    pub(super) reason: Option<String>,
}

impl Tallies {
    /// Notes what a DaemonSet's pods look like, and tells which templates' totals that changes.
    ///
    /// Whoever looked may be slower than the news that the DaemonSet is gone. So `is_there` is asked while nobody else can note
    /// anything: if it still is then, the news comes afterwards.
    pub(super) fn note(
        &self,
        daemon_set: &str,
        now: Option<(String, Tally)>,
        is_there: impl FnOnce() -> bool,
    ) -> Vec<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now.filter(|_| is_there());
        let before = match &now {
            Some(entry) => all.insert(daemon_set.to_owned(), entry.clone()),
            None => all.remove(daemon_set),
        };
        if before == now {
            return Vec::new();
        }
        let mut changed: Vec<String> = before.into_iter().chain(now).map(|(template, _)| template).collect();
        changed.dedup();
        changed
    }

    /// The DaemonSets of which something was noted.
    pub(super) fn known(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// The DaemonSets that ask for a template together; none until each of them has been looked at.
    pub(super) fn total(&self, template: &str, asking: &BTreeSet<String>) -> Option<Total> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asking.iter().try_fold(Total::default(), |mut total, daemon_set| {
            let (_, tally) = all.get(daemon_set).filter(|(looked_at_for, _)| looked_at_for == template)?;
            total.daemon_sets += 1;
            total.sized += tally.sized;
            total.drifted += tally.drifted;
            let reason = tally.reason.as_ref().map(|reason| format!("{daemon_set}: {reason}"));
            total.reason = total.reason.or(reason);
            Some(total)
        })
    }

    /// Forgets everything: from now on another replica looks.
    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A DaemonSet by namespace and name, and by its uid: another may take its name.
pub(super) type Identity = (String, String);

/// Which pods each DaemonSet had when one of them was last replaced: any other has been made since.
#[derive(Debug, Default)]
pub(super) struct Replacements(Mutex<HashMap<Identity, HashSet<String>>>);

impl Replacements {
    /// A pod of the DaemonSet is being replaced, which has these.
    ///
    /// Whoever replaces it may be slower than the news that the DaemonSet is gone. So `is_there` is asked while nobody else can
    /// forget anything: if it still is then, the news comes afterwards.
    pub(super) fn began<'p>(
        &self,
        daemon_set: &Identity,
        uids: impl Iterator<Item = &'p str>,
        is_there: impl FnOnce() -> bool,
    ) {
        let mut all = self.lock();
        if is_there() {
            all.entry(daemon_set.clone()).or_default().extend(uids.map(str::to_owned));
        }
    }

    /// Whether the pod was made after the first replacement.
    pub(super) fn made(&self, daemon_set: &Identity, uid: &str) -> bool {
        self.lock().get(daemon_set).is_some_and(|known| !known.contains(uid))
    }

    /// There is nothing more to replace.
    pub(super) fn over(&self, daemon_set: &Identity) {
        self.lock().remove(daemon_set);
    }

    /// Forgets all others.
    pub(super) fn retain(&self, is_there: impl Fn(&Identity) -> bool) {
        self.lock().retain(|daemon_set, _| is_there(daemon_set));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Identity, HashSet<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(sized: i32, drifted: i32) -> Tally {
        Tally { sized, drifted, reason: (drifted > 0).then(|| "storage".to_owned()) }
    }

    fn asking(daemon_sets: &[&str]) -> BTreeSet<String> {
        daemon_sets.iter().map(|&daemon_set| daemon_set.to_owned()).collect()
    }

    #[test]
    fn a_template_is_told_only_of_what_changes_it() {
        let tallies = Tallies::default();
        assert_eq!(tallies.note("ns/a", Some(("t".to_owned(), tally(3, 0))), || true), ["t"]);
        assert!(tallies.note("ns/a", Some(("t".to_owned(), tally(3, 0))), || true).is_empty());
        assert_eq!(tallies.note("ns/b", Some(("t".to_owned(), tally(2, 1))), || true), ["t"]);
        let total = tallies.total("t", &asking(&["ns/a", "ns/b"])).unwrap();
        assert_eq!((total.daemon_sets, total.sized, total.drifted), (2, 5, 1));
        assert_eq!(total.reason.as_deref(), Some("ns/b: storage"));
        assert_eq!(tallies.note("ns/a", Some(("u".to_owned(), tally(3, 0))), || true), ["t", "u"]);
        assert_eq!(tallies.note("ns/a", None, || true), ["u"]);
        assert_eq!(tallies.known(), ["ns/b"]);
    }

    #[test]
    fn a_total_is_known_once_each_that_asks_has_been_looked_at_and_no_longer_after_another_has_led() {
        let tallies = Tallies::default();
        let total = |asking: &BTreeSet<String>| tallies.total("t", asking).map(|total| total.daemon_sets);
        assert_eq!(total(&asking(&[])), Some(0));
        assert_eq!(total(&asking(&["ns/a", "ns/b"])), None);
        tallies.note("ns/a", Some(("t".to_owned(), tally(3, 0))), || true);
        tallies.note("ns/b", Some(("u".to_owned(), tally(3, 0))), || true);
        assert_eq!(total(&asking(&["ns/a", "ns/b"])), None, "it was looked at for another template");
        tallies.note("ns/b", Some(("t".to_owned(), tally(3, 0))), || true);
        assert_eq!(total(&asking(&["ns/a", "ns/b"])), Some(2));
        assert_eq!(total(&asking(&["ns/a"])), Some(1), "what does not ask any more does not count");
        tallies.clear();
        assert_eq!(total(&asking(&["ns/a"])), None);
    }

    #[test]
    fn a_look_that_ends_after_its_daemon_set_does_not_bring_it_back() {
        let tallies = Tallies::default();
        tallies.note("ns/a", Some(("t".to_owned(), tally(1, 0))), || true);
        assert_eq!(tallies.note("ns/a", None, || false), ["t"]);
        assert!(tallies.note("ns/a", Some(("t".to_owned(), tally(1, 0))), || false).is_empty());
        assert!(tallies.known().is_empty());
    }

    fn identity(uid: &str) -> Identity {
        ("ns/a".to_owned(), uid.to_owned())
    }

    #[test]
    fn a_pod_counts_as_made_by_a_replacement_only_if_it_was_not_there_before() {
        let (replacements, ours) = (Replacements::default(), identity("x"));
        assert!(!replacements.made(&ours, "1"));
        replacements.began(&ours, ["1", "2"].into_iter(), || true);
        assert!(!replacements.made(&ours, "2") && replacements.made(&ours, "3"));
        replacements.over(&ours);
        assert!(!replacements.made(&ours, "3"));
    }

    #[test]
    fn a_daemon_set_does_not_inherit_the_replacements_of_one_that_had_its_name() {
        let (replacements, former, new) = (Replacements::default(), identity("x"), identity("y"));
        replacements.began(&former, ["1"].into_iter(), || true);
        assert!(!replacements.made(&new, "2"));
        replacements.retain(|daemon_set| *daemon_set == new);
        // A look at the former ends late.
        replacements.began(&former, ["1"].into_iter(), || false);
        assert!(!replacements.made(&former, "2") && replacements.lock().is_empty());
    }
}
