//! How often an object is looked at: at once when there is cause, and then no more than once in a pause, however much happens to
//! it. A controller's own `debounce` waits until nothing has happened for a while, which in a busy cluster may never be.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// When each object was last looked at.
#[derive(Debug)]
pub(crate) struct Pace<K> {
    pause: Duration,
    looks: Mutex<HashMap<K, Instant>>,
}

impl<K: Eq + Hash + Clone> Pace<K> {
    pub(crate) fn new(pause: Duration) -> Self {
        Self { pause, looks: Mutex::default() }
    }

    /// Begins a look, unless one has begun within the pause: then it tells how much of it is left. Whoever comes again after that
    /// sees whatever has happened since.
    pub(crate) fn enter(&self, key: &K) -> Result<(), Duration> {
        self.enter_at(key, Instant::now())
    }

    fn enter_at(&self, key: &K, now: Instant) -> Result<(), Duration> {
        let left = |last: &Instant| self.pause.saturating_sub(now.saturating_duration_since(*last));
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        match looks.get(key).map(left) {
            Some(left) if !left.is_zero() => return Err(left),
            _ => {}
        }
        // Of what was looked at longer ago nothing need be known: before the map grows, it goes.
        if looks.len() == looks.capacity() {
            looks.retain(|_, last| !left(last).is_zero());
        }
        looks.insert(key.clone(), now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(1);

    #[test]
    fn however_often_it_is_asked_for_an_object_is_looked_at_at_once_and_then_once_in_a_pause() {
        let pace = Pace::new(PAUSE);
        let (start, mut looks) = (Instant::now(), Vec::new());
        for millis in (0..3_500).step_by(10).map(Duration::from_millis) {
            match pace.enter_at(&"a", start + millis) {
                Ok(()) => looks.push(millis.as_secs_f64()),
                Err(left) => assert_eq!((millis + left).subsec_nanos(), 0, "asking does not put it off"),
            }
        }
        assert_eq!(looks, [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn one_object_does_not_hold_up_another() {
        let (pace, now) = (Pace::new(PAUSE), Instant::now());
        assert_eq!((pace.enter_at(&"a", now), pace.enter_at(&"b", now)), (Ok(()), Ok(())));
        assert_eq!(pace.enter_at(&"a", now), Err(PAUSE));
    }

    #[test]
    fn objects_that_were_looked_at_long_ago_are_forgotten() {
        let (pace, start) = (Pace::new(PAUSE), Instant::now());
        for index in 0..10_000_u32 {
            assert_eq!(pace.enter_at(&index, start + PAUSE * index), Ok(()));
        }
        assert!(pace.looks.lock().unwrap().len() < 10);
    }
}
