//! What is remembered, within a bound of bytes.
//!
//! Three things: what a digest holds, for ever; what a name meant to one class of callers, with its age; and, shortly,
//! that there was no answer. The first is content and the same for everybody who may see it, so it is only looked at once
//! the registry has shown that it answers the caller for that digest.

use std::{sync::Arc, time::Instant};

use moka::{policy::EvictionPolicy, sync::Cache};
use podwright_core::image::{Digest, Platform, Platforms, PullPolicy, Reference};

use crate::{LookupError, Settings, credentials::Class};

/// What a map's slot, its links and counters take beside what stands in it.
const OVERHEAD: usize = 160;

pub(crate) struct Memory {
    entries: Cache<Key, Entry>,
    settings: Arc<Settings>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Content { name: String, digest: Digest },
    Answer { name: String, identifier: String, class: Class },
    Error { name: String, identifier: String, classes: Vec<Class> },
}

#[derive(Debug, Clone)]
enum Entry {
    Platforms { platforms: Arc<Platforms>, since: Instant },
    Error { error: Box<LookupError>, since: Instant },
}

impl Memory {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        let entries = Cache::builder()
            .max_capacity(settings.cache_bytes)
            .weigher(|key: &Key, entry: &Entry| {
                u32::try_from(key.bytes() + entry.bytes() + OVERHEAD).unwrap_or(u32::MAX)
            })
            .eviction_policy(EvictionPolicy::lru())
            .build();
        Self { entries, settings }
    }

    /// What holds without asking anybody.
    pub(crate) fn fresh(
        &self,
        reference: &Reference,
        policy: PullPolicy,
        classes: &[Class],
        now: Instant,
    ) -> Option<Arc<Platforms>> {
        let life = match policy {
            PullPolicy::IfNotPresent => Some(self.settings.if_not_present),
            PullPolicy::Always => self.settings.always,
        };
        self.answers(reference, classes)
            .find(|(_, since)| {
                reference.digest().is_some()
                    || life.is_some_and(|life| now.saturating_duration_since(*since) < life)
            })
            .map(|(platforms, _)| platforms)
    }

    /// What held once, for when nobody can be asked.
    pub(crate) fn stale(&self, reference: &Reference, classes: &[Class]) -> Option<Arc<Platforms>> {
        self.answers(reference, classes).max_by_key(|(_, since)| *since).map(|(platforms, _)| platforms)
    }

    fn answers(
        &self,
        reference: &Reference,
        classes: &[Class],
    ) -> impl Iterator<Item = (Arc<Platforms>, Instant)> {
        classes.iter().filter_map(|class| match self.entries.get(&answer(reference, *class))? {
            Entry::Platforms { platforms, since } => Some((platforms, since)),
            Entry::Error { .. } => None,
        })
    }

    /// Why there was no answer a moment ago.
    pub(crate) fn error(
        &self,
        reference: &Reference,
        classes: &[Class],
        now: Instant,
    ) -> Option<LookupError> {
        match self.entries.get(&error(reference, classes))? {
            Entry::Error { error, since } => {
                (now.saturating_duration_since(since) < self.settings.negative).then_some(*error)
            }
            Entry::Platforms { .. } => None,
        }
    }

    /// What a digest holds. Only for who has shown that the registry answers them for it.
    pub(crate) fn content(&self, reference: &Reference, digest: &Digest) -> Option<Arc<Platforms>> {
        match self.entries.get(&content(reference, digest))? {
            Entry::Platforms { platforms, .. } => Some(platforms),
            Entry::Error { .. } => None,
        }
    }

    pub(crate) fn keep_content(
        &self,
        reference: &Reference,
        digest: &Digest,
        platforms: &Arc<Platforms>,
        now: Instant,
    ) {
        let entry = Entry::Platforms { platforms: Arc::clone(platforms), since: now };
        self.entries.insert(content(reference, digest), entry);
    }

    pub(crate) fn keep_answer(
        &self,
        reference: &Reference,
        class: Class,
        platforms: &Arc<Platforms>,
        now: Instant,
    ) {
        let entry = Entry::Platforms { platforms: Arc::clone(platforms), since: now };
        self.entries.insert(answer(reference, class), entry);
    }

    /// Remembers that the registry said no. What these callers were told before does not hold any more.
    pub(crate) fn keep_error(
        &self,
        reference: &Reference,
        classes: &[Class],
        refused: &[Class],
        failed: &LookupError,
        now: Instant,
    ) {
        for class in refused {
            self.entries.invalidate(&answer(reference, *class));
        }
        let entry = Entry::Error { error: Box::new(failed.clone()), since: now };
        self.entries.insert(error(reference, classes), entry);
    }

    /// What all that is remembered takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.run_pending_tasks();
        self.entries.weighted_size()
    }
}

fn name(reference: &Reference) -> String {
    format!("{}/{}", reference.registry(), reference.repository())
}

fn content(reference: &Reference, digest: &Digest) -> Key {
    Key::Content { name: name(reference), digest: digest.clone() }
}

fn answer(reference: &Reference, class: Class) -> Key {
    Key::Answer { name: name(reference), identifier: reference.identifier().to_owned(), class }
}

fn error(reference: &Reference, classes: &[Class]) -> Key {
    Key::Error {
        name: name(reference),
        identifier: reference.identifier().to_owned(),
        classes: classes.to_vec(),
    }
}

impl Key {
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Content { name, digest } => name.len() + digest.as_str().len(),
                Self::Answer { name, identifier, .. } => name.len() + identifier.len(),
                Self::Error { name, identifier, classes } => {
                    name.len() + identifier.len() + classes.len() * size_of::<Class>()
                }
            }
    }
}

impl Entry {
    /// Platforms that several entries share are counted for each: rather too much than too little.
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Platforms { platforms, .. } => platforms.iter().map(weight).sum(),
                Self::Error { error, .. } => size_of::<LookupError>() + error.to_string().len(),
            }
    }
}

fn weight(platform: &Platform) -> usize {
    let optional = |text: Option<&str>| text.map_or(0, str::len);
    size_of::<Platform>()
        + platform.os().len()
        + platform.architecture().len()
        + optional(platform.variant())
        + optional(platform.version())
}
