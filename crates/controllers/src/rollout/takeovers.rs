//! DaemonSets that are taken over from: what is known of each, and whose word counts.
//!
//! A watch that was ended may still be about to tell something. So each has a number, and only the numbers in force are listened
//! to; who asks for that holds the world's lock.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    facts::KnownPod,
    shelf::{Key, Shelf},
};

/// The DaemonSet that is taken over from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OldDaemonSet {
    /// There is none.
    None,
    /// Its uid. All its pods are known.
    Known(String),
    /// Nobody knows yet: its pods may be anywhere.
    Unseen,
    /// We cannot look, and why.
    Hidden(String),
}

/// The number of a watch. No two are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Teller(u64);

/// All that are under way, by ExtendedDaemonSet.
#[derive(Debug, Default)]
pub(super) struct Takeovers {
    under_way: HashMap<Key, Takeover>,
    pods: Shelf<KnownPod>,
    numbers: u64,
}

#[derive(Debug)]
struct Takeover {
    daemon_set: OldDaemonSet,
    /// Tells of the DaemonSet.
    watch: Teller,
    /// Tells of its pods.
    pods: Option<Teller>,
}

impl Takeovers {
    /// What is known of the DaemonSet.
    pub(super) fn daemon_set(&self, key: &Key) -> OldDaemonSet {
        self.under_way.get(key).map_or(OldDaemonSet::None, |takeover| takeover.daemon_set.clone())
    }

    /// Its pods, as far as they are known.
    pub(super) fn pods_for(&self, key: &Key) -> impl Iterator<Item = &Arc<KnownPod>> {
        self.pods.of(key)
    }

    /// A takeover begins, in the place of any other: nothing is known, and nobody else's word counts.
    pub(super) fn begin(&mut self, key: &Key) -> Teller {
        self.forget_pods(key);
        let watch = self.number();
        let takeover = Takeover { daemon_set: OldDaemonSet::Unseen, watch, pods: None };
        self.under_way.insert(key.clone(), takeover);
        watch
    }

    /// It is over, unless another has begun; whether it was under way.
    pub(super) fn end(&mut self, key: &Key, watch: Teller) -> bool {
        let ends = self.under_way.get(key).is_some_and(|takeover| takeover.watch == watch);
        if ends {
            self.under_way.remove(key);
            self.forget_pods(key);
        }
        ends
    }

    /// The DaemonSet is there, and its pods will be told of: until then they may be anywhere.
    pub(super) fn expect_pods(&mut self, key: &Key, watch: Teller) -> Teller {
        let pods = self.number();
        if let Some(takeover) = self.under_way.get_mut(key).filter(|takeover| takeover.watch == watch) {
            takeover.daemon_set = OldDaemonSet::Unseen;
            takeover.pods = Some(pods);
            self.forget_pods(key);
        }
        pods
    }

    /// Notes what is known of the DaemonSet now; whether who tells it is listened to.
    pub(super) fn note(&mut self, key: &Key, teller: Teller, now: OldDaemonSet) -> bool {
        let Some(takeover) = self.under_way.get_mut(key).filter(|takeover| takeover.hears(teller)) else {
            return false;
        };
        let none = now == OldDaemonSet::None;
        takeover.daemon_set = now;
        if none {
            takeover.pods = None;
            self.forget_pods(key);
        }
        true
    }

    /// Where to note pods; none if who tells of them is not listened to.
    pub(super) fn pods_by(&mut self, key: &Key, teller: Teller) -> Option<&mut Shelf<KnownPod>> {
        self.under_way.get(key).filter(|takeover| takeover.pods == Some(teller))?;
        Some(&mut self.pods)
    }

    fn forget_pods(&mut self, key: &Key) {
        self.pods.only(&HashSet::new(), |_, owner| owner == key);
    }

    fn number(&mut self) -> Teller {
        self.numbers += 1;
        Teller(self.numbers)
    }
}

impl Takeover {
    fn hears(&self, teller: Teller) -> bool {
        self.watch == teller || self.pods == Some(teller)
    }
}

#[cfg(test)]
mod tests {
    use podwright_core::rollout::{overrides::PodRecord, plan::PodFacts};

    use super::*;
    use crate::rollout::shelf::Stamp;

    fn key() -> Key {
        Key::new("ns", "foo")
    }

    fn tell(takeovers: &mut Takeovers, teller: Teller, name: &str) {
        let facts = Arc::new(PodFacts { name: name.to_owned(), ..PodFacts::default() });
        let stamp = Stamp { key: Key::new("ns", name), uid: name.to_owned(), version: 1 };
        if let Some(pods) = takeovers.pods_by(&key(), teller) {
            pods.tell(stamp, key(), Arc::new(KnownPod { facts, record: PodRecord::Plain }));
        }
    }

    fn pods(takeovers: &Takeovers) -> Vec<String> {
        takeovers.pods_for(&key()).map(|pod| pod.facts.name.clone()).collect()
    }

    #[test]
    fn what_the_former_takeover_still_tells_changes_nothing_of_the_next() {
        let mut takeovers = Takeovers::default();
        let former = takeovers.begin(&key());
        let former_pods = takeovers.expect_pods(&key(), former);
        tell(&mut takeovers, former_pods, "a");
        assert!(takeovers.note(&key(), former_pods, OldDaemonSet::Known("A".to_owned())));
        assert_eq!(pods(&takeovers), ["a"]);

        let next = takeovers.begin(&key());
        assert_eq!(takeovers.daemon_set(&key()), OldDaemonSet::Unseen);
        assert!(pods(&takeovers).is_empty(), "they are not the next one's");
        for late in [former, former_pods] {
            assert!(!takeovers.note(&key(), late, OldDaemonSet::None));
            assert!(!takeovers.note(&key(), late, OldDaemonSet::Known("A".to_owned())));
            tell(&mut takeovers, late, "a");
        }
        assert!(!takeovers.end(&key(), former));
        let ignored = takeovers.expect_pods(&key(), former);
        tell(&mut takeovers, ignored, "a");
        assert_eq!((takeovers.daemon_set(&key()), pods(&takeovers).len()), (OldDaemonSet::Unseen, 0));

        let next_pods = takeovers.expect_pods(&key(), next);
        tell(&mut takeovers, next_pods, "b");
        assert!(takeovers.note(&key(), next_pods, OldDaemonSet::Known("B".to_owned())));
        assert!(!takeovers.end(&key(), former), "and what comes first is not lost");
        assert_eq!(takeovers.daemon_set(&key()), OldDaemonSet::Known("B".to_owned()));
        assert_eq!(pods(&takeovers), ["b"]);
    }

    #[test]
    fn a_daemon_set_that_is_gone_leaves_no_pods_and_one_that_comes_back_is_not_seen_yet() {
        let mut takeovers = Takeovers::default();
        let watch = takeovers.begin(&key());
        let gone = takeovers.expect_pods(&key(), watch);
        tell(&mut takeovers, gone, "a");
        takeovers.note(&key(), gone, OldDaemonSet::Known("1".to_owned()));
        assert!(takeovers.note(&key(), watch, OldDaemonSet::None));
        tell(&mut takeovers, gone, "a");
        assert!(!takeovers.note(&key(), gone, OldDaemonSet::Known("1".to_owned())));
        assert_eq!((takeovers.daemon_set(&key()), pods(&takeovers).len()), (OldDaemonSet::None, 0));

        let back = takeovers.expect_pods(&key(), watch);
        assert_eq!(takeovers.daemon_set(&key()), OldDaemonSet::Unseen);
        tell(&mut takeovers, back, "b");
        assert!(takeovers.note(&key(), back, OldDaemonSet::Known("2".to_owned())));
        assert_eq!(pods(&takeovers), ["b"]);
        assert!(takeovers.end(&key(), watch) && !takeovers.end(&key(), watch));
        assert_eq!((takeovers.daemon_set(&key()), pods(&takeovers).len()), (OldDaemonSet::None, 0));
    }
}
