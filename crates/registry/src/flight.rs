//! One lookup for all who want the same at the same time.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};

type Landing<T> = Shared<BoxFuture<'static, Option<T>>>;

/// Who is on the way. A flight goes on when nobody waits for it any more.
pub(crate) struct Flights<K, T> {
    airborne: Arc<Mutex<HashMap<K, Landing<T>>>>,
    most: usize,
}

/// Takes a flight off the board, also when it crashes.
struct Strip<K: Eq + Hash, T> {
    key: K,
    airborne: Arc<Mutex<HashMap<K, Landing<T>>>>,
}

impl<K, T> Flights<K, T>
where
    K: Eq + Hash + Clone + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    pub(crate) fn new(most: usize) -> Self {
        Self { airborne: Arc::default(), most }
    }

    /// Joins the flight of this key, or starts it. `None` when too many are under way; a flight that crashed lands with
    /// `None`.
    pub(crate) fn join<F>(&self, key: &K, start: impl FnOnce() -> F) -> Option<Landing<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut airborne = lock(&self.airborne);
        if let Some(landing) = airborne.get(key) {
            return Some(landing.clone());
        }
        if airborne.len() >= self.most {
            return None;
        }
        let strip = Strip { key: key.clone(), airborne: Arc::clone(&self.airborne) };
        let flight = start();
        let task = tokio::spawn(async move {
            let _strip = strip;
            flight.await
        });
        let landing = task.map(Result::ok).boxed().shared();
        airborne.insert(key.clone(), landing.clone());
        Some(landing)
    }
}

impl<K: Eq + Hash, T> Drop for Strip<K, T> {
    fn drop(&mut self) {
        lock(&self.airborne).remove(&self.key);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn all_get_the_answer_of_one_flight_and_the_next_starts_anew() {
        let flights = Flights::new(10);
        let (land, landed) = oneshot::channel();
        let first = flights.join(&"a", || async move { landed.await.unwrap_or(0) }).unwrap();
        let second = flights.join(&"a", || async { 2 }).unwrap();
        land.send(1).unwrap();
        assert_eq!((first.await, second.await), (Some(1), Some(1)));
        assert_eq!(flights.join(&"a", || async { 3 }).unwrap().await, Some(3));
    }

    #[tokio::test]
    async fn a_flight_goes_on_without_passengers() {
        let flights = Flights::new(10);
        let (sent, arrived) = oneshot::channel();
        drop(flights.join(&"a", || async move { sent.send(()).is_ok() }));
        arrived.await.unwrap();
    }

    #[tokio::test]
    async fn a_crash_is_no_answer_and_blocks_nobody() {
        let flights: Flights<_, u8> = Flights::new(1);
        assert_eq!(flights.join(&"a", || async { panic!("as the test wants") }).unwrap().await, None);
        assert_eq!(flights.join(&"a", || async { 1 }).unwrap().await, Some(1));
    }

    #[tokio::test]
    async fn no_more_than_so_many_are_under_way() {
        let flights: Flights<_, u8> = Flights::new(1);
        let _first = flights.join(&"a", std::future::pending).unwrap();
        assert!(flights.join(&"a", std::future::pending).is_some());
        assert!(flights.join(&"b", std::future::pending).is_none());
    }
}
