//! What has been told already, so that nothing is told at every look.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How much is remembered. More would only mean that something is told twice.
const REMEMBERED: usize = 10_000;

/// Remembers keys for a while.
pub(super) struct Told {
    lasts: Duration,
    keys: Mutex<HashMap<String, Instant>>,
}

impl Told {
    pub(super) fn new(lasts: Duration) -> Self {
        Self { lasts, keys: Mutex::default() }
    }

    /// Whether this is the first time in a while, and remembers it.
    pub(super) fn first(&self, key: &str) -> bool {
        let first = !self.knows(key);
        if first {
            self.note(key);
        }
        first
    }

    /// Whether it is remembered.
    pub(super) fn knows(&self, key: &str) -> bool {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(key).is_some_and(|since| since.elapsed() < self.lasts)
    }

    /// Remembers it.
    pub(super) fn note(&self, key: &str) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= REMEMBERED {
            keys.clear();
        }
        keys.insert(key.to_owned(), Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_new_once_and_again_when_it_is_forgotten() {
        let told = Told::new(Duration::from_hours(1));
        assert!(told.first("a") && told.first("b") && !told.first("a"));
        let brief = Told::new(Duration::ZERO);
        assert!(brief.first("a") && brief.first("a"));
    }
}
