//! Objects by the ExtendedDaemonSet that they belong to, always within its namespace.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::Arc,
};

use kube::{Resource, ResourceExt};

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

impl Key {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub(super) fn of<K: Resource>(object: &K) -> Self {
        Self::new(object.meta().namespace.as_deref().unwrap_or_default(), &object.name_any())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One object as it was last seen.
#[derive(Debug)]
struct Entry<T> {
    owner: Key,
    uid: String,
    version: u64,
    value: Arc<T>,
}

/// Objects of one kind. Whatever is written through is never undone by an older event of the watch.
#[derive(Debug)]
pub(super) struct Shelf<T> {
    entries: HashMap<Key, Entry<T>>,
    owned: HashMap<Key, BTreeMap<Arc<str>, Arc<T>>>,
    /// The newest that a watch has told of each namespace, which may have a watch of its own: what one is ahead of says nothing of
    /// another. An object is told of in its namespace only.
    seen: HashMap<Arc<str>, u64>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { entries: HashMap::new(), owned: HashMap::new(), seen: HashMap::new() }
    }
}

/// Which object it is, and of which version.
pub(super) struct Stamp {
    pub(super) key: Key,
    pub(super) uid: String,
    pub(super) version: u64,
}

impl Stamp {
    pub(super) fn of<K: Resource>(object: &K) -> Self {
        // Versions are numbers that grow, by Kubernetes' own word since 1.35 and by what it did before.
        let version = object.resource_version().and_then(|version| version.parse().ok());
        Self { key: Key::of(object), uid: object.uid().unwrap_or_default(), version: version.unwrap_or(0) }
    }
}

impl<T> Shelf<T> {
    /// All of an owner, by name.
    pub(super) fn of<'s>(&'s self, owner: &Key) -> impl Iterator<Item = &'s Arc<T>> + use<'s, T> {
        self.owned.get(owner).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.entries.values().map(|entry| &entry.value)
    }

    /// Notes what a watch tells; gives who should know.
    pub(super) fn tell(&mut self, stamp: Stamp, owner: Key, value: Arc<T>) -> Vec<Key> {
        self.saw(&stamp);
        self.put(stamp, owner, value)
    }

    /// Notes what a write was answered with, unless the watch is ahead of it: then it has told of all that came of it, its
    /// removal included.
    pub(super) fn answered(&mut self, stamp: Stamp, owner: Key, value: Arc<T>) {
        let known = self.entries.get(&stamp.key).is_some_and(|entry| entry.uid == stamp.uid);
        let seen = self.seen.get(&stamp.key.namespace).copied().unwrap_or(0);
        if known || stamp.version > seen {
            self.put(stamp, owner, value);
        }
    }

    fn saw(&mut self, stamp: &Stamp) {
        match self.seen.get_mut(&stamp.key.namespace) {
            Some(seen) => *seen = stamp.version.max(*seen),
            None => {
                self.seen.insert(stamp.key.namespace.clone(), stamp.version);
            }
        }
    }

    fn put(&mut self, stamp: Stamp, owner: Key, value: Arc<T>) -> Vec<Key> {
        let Stamp { key, uid, version } = stamp;
        let mut told = vec![owner.clone()];
        if let Some(entry) = self.entries.get(&key) {
            if version < entry.version {
                return Vec::new();
            }
            if entry.owner != owner {
                let former = entry.owner.clone();
                self.disown(&former, &key.name);
                told.push(former);
            }
        }
        self.owned.entry(owner.clone()).or_default().insert(key.name.clone(), value.clone());
        self.entries.insert(key, Entry { owner, uid, version, value });
        told
    }

    /// The object is gone, unless another has taken its name meanwhile; gives who should know.
    pub(super) fn remove(&mut self, stamp: &Stamp) -> Option<Key> {
        self.saw(stamp);
        self.entries.get(&stamp.key).filter(|entry| entry.uid == stamp.uid)?;
        self.drop(&stamp.key)
    }

    fn drop(&mut self, key: &Key) -> Option<Key> {
        let entry = self.entries.remove(key)?;
        self.disown(&entry.owner, &key.name);
        Some(entry.owner)
    }

    fn disown(&mut self, owner: &Key, name: &str) {
        if let Some(owned) = self.owned.get_mut(owner) {
            owned.remove(name);
            if owned.is_empty() {
                self.owned.remove(owner);
            }
        }
    }

    /// Drops what `within` says, by object and owner, that the watch would have seen and has not; gives who should know.
    pub(super) fn only(&mut self, seen: &HashSet<Key>, within: impl Fn(&Key, &Key) -> bool) -> Vec<Key> {
        let missing = |(key, entry): &(&Key, &Entry<T>)| within(key, &entry.owner) && !seen.contains(*key);
        let gone: Vec<Key> = self.entries.iter().filter(missing).map(|(key, _)| key.clone()).collect();
        gone.iter().filter_map(|key| self.drop(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(name: &str, uid: &str, version: u64) -> Stamp {
        Stamp { key: Key::new("ns", name), uid: uid.to_owned(), version }
    }

    fn of(shelf: &Shelf<&'static str>, owner: &str) -> Vec<&'static str> {
        shelf.of(&Key::new("ns", owner)).map(|value| **value).collect()
    }

    #[test]
    fn an_older_event_does_not_undo_what_a_write_was_answered_with() {
        let mut shelf = Shelf::default();
        let owner = Key::new("ns", "foo");
        shelf.tell(stamp("a", "1", 5), owner.clone(), Arc::new("old"));
        shelf.answered(stamp("a", "2", 9), owner.clone(), Arc::new("new"));
        assert!(shelf.remove(&stamp("a", "1", 8)).is_none(), "the former of that name is gone, not this one");
        assert!(shelf.tell(stamp("a", "1", 7), owner.clone(), Arc::new("old")).is_empty());
        assert_eq!(of(&shelf, "foo"), ["new"]);
        assert_eq!(shelf.remove(&stamp("a", "2", 12)), Some(owner));
        assert!(of(&shelf, "foo").is_empty());
    }

    #[test]
    fn an_answer_that_comes_after_its_object_is_gone_makes_no_ghost() {
        let mut shelf = Shelf::default();
        let owner = Key::new("ns", "foo");
        shelf.tell(stamp("a", "1", 5), owner.clone(), Arc::new("made"));
        shelf.remove(&stamp("a", "1", 6));
        shelf.answered(stamp("a", "1", 5), owner.clone(), Arc::new("made"));
        assert!(of(&shelf, "foo").is_empty());
        shelf.answered(stamp("b", "2", 7), owner, Arc::new("ahead of the watch"));
        assert_eq!(of(&shelf, "foo"), ["ahead of the watch"]);
    }

    #[test]
    fn a_watch_of_another_namespace_that_is_ahead_keeps_no_answer_from_being_known() {
        let mut shelf = Shelf::default();
        let elsewhere = Stamp { key: Key::new("other", "b"), uid: "2".to_owned(), version: 9 };
        shelf.tell(elsewhere, Key::new("other", "foo"), Arc::new("there"));
        shelf.answered(stamp("a", "1", 8), Key::new("ns", "foo"), Arc::new("made"));
        assert_eq!(of(&shelf, "foo"), ["made"], "its own watch is behind");
    }

    #[test]
    fn one_name_in_two_namespaces_is_two_owners_and_what_changes_hands_is_told_to_both() {
        let mut shelf = Shelf::default();
        shelf.tell(stamp("a", "1", 1), Key::new("ns", "foo"), Arc::new("here"));
        let there = Stamp { key: Key::new("other", "a"), uid: "2".to_owned(), version: 2 };
        shelf.tell(there, Key::new("other", "foo"), Arc::new("there"));
        assert_eq!(of(&shelf, "foo"), ["here"]);
        let told = shelf.tell(stamp("a", "1", 3), Key::new("ns", "bar"), Arc::new("moved"));
        assert_eq!(told, [Key::new("ns", "bar"), Key::new("ns", "foo")]);
        assert_eq!((of(&shelf, "foo").len(), of(&shelf, "bar").len()), (0, 1));
    }

    #[test]
    fn what_a_new_list_does_not_have_is_gone_within_its_namespaces() {
        let mut shelf = Shelf::default();
        for (namespace, name) in [("ns", "a"), ("ns", "b"), ("other", "a")] {
            let stamp = Stamp { key: Key::new(namespace, name), uid: name.to_owned(), version: 1 };
            shelf.tell(stamp, Key::new(namespace, "foo"), Arc::new("x"));
        }
        let seen = HashSet::from([Key::new("ns", "b")]);
        assert_eq!(shelf.only(&seen, |key, _| &*key.namespace == "ns"), [Key::new("ns", "foo")]);
        assert_eq!(shelf.iter().count(), 2);
    }
}
