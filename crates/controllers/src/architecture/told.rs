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

    /// Tells it, unless that has been done. What could not be told is not remembered, so that it is tried again.
    pub(super) async fn once(&self, key: &str, tell: impl Future<Output = bool>) {
        if !self.knows(key) && tell.await {
            self.note(key);
        }
    }

    fn knows(&self, key: &str) -> bool {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(key).is_some_and(|since| since.elapsed() < self.lasts)
    }

    fn note(&self, key: &str) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= REMEMBERED {
            keys.clear();
        }
        keys.insert(key.to_owned(), Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How often one of the keys was tried to be told.
    async fn tries(told: &Told, keys: &[&str], succeeds: bool) -> usize {
        let tries = Cell::new(0);
        for key in keys {
            let tell = async {
                tries.set(tries.get() + 1);
                succeeds
            };
            told.once(key, tell).await;
        }
        tries.get()
    }

    #[tokio::test]
    async fn a_key_is_told_once_and_again_when_it_is_forgotten() {
        assert_eq!(tries(&Told::new(Duration::from_hours(1)), &["a", "b", "a"], true).await, 2);
        assert_eq!(tries(&Told::new(Duration::ZERO), &["a", "a"], true).await, 2);
    }

    #[tokio::test]
    async fn what_could_not_be_told_is_tried_again() {
        let told = Told::new(Duration::from_hours(1));
        assert_eq!(tries(&told, &["a", "a"], false).await, 2);
        assert_eq!(tries(&told, &["a", "a"], true).await, 1);
    }
}
