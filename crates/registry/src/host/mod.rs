//! What is known of one host: how it wants to be asked, how many requests it gets at a time, and when to leave it alone.

mod breaker;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::breaker::{Breaker, Gate};
use crate::{Clock, Settings, auth::Challenge, failure::Failure};

/// One host, shared by all who ask it.
pub(crate) struct Host {
    slots: Arc<Semaphore>,
    state: Mutex<State>,
    clock: Clock,
    /// How long a host is left alone that limits us and does not say for how long.
    default_pause: Duration,
}

struct State {
    breaker: Breaker,
    /// What went wrong the last time.
    fault: String,
    limited_until: Option<Instant>,
    challenge: Option<Arc<Challenge>>,
}

/// Leave for one request. Whoever holds it says how the request went; if dropped, nothing was learnt.
pub(crate) struct Permit<'a> {
    host: &'a Host,
    _slot: OwnedSemaphorePermit,
    settled: bool,
}

impl Host {
    pub(crate) fn new(settings: &Settings, clock: Clock) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(settings.requests_per_host.max(1))),
            state: Mutex::new(State {
                breaker: Breaker::new(settings.breaker_failures.max(1), settings.breaker_pause),
                fault: String::new(),
                limited_until: None,
                challenge: None,
            }),
            clock,
            default_pause: settings.breaker_pause,
        }
    }

    /// Waits for a free slot.
    pub(crate) async fn enter(&self) -> Result<Permit<'_>, Failure> {
        let slot =
            Arc::clone(&self.slots).acquire_owned().await.map_err(|_| Failure::fault("it is shut down"))?;
        let now = (self.clock)();
        let mut state = self.state();
        if let Some(until) = state.limited_until.filter(|until| *until > now) {
            return Err(Failure::Limited(Some(until - now)));
        }
        if let Gate::Wait(wait) = state.breaker.ask(now) {
            let (failures, last, wait) = (state.breaker.failures(), &state.fault, wait.as_secs().max(1));
            let reason =
                format!("{failures} faults in a row, the last: {last}; it is asked again in {wait} s");
            return Err(Failure::Closed { reason });
        }
        drop(state);
        Ok(Permit { host: self, _slot: slot, settled: false })
    }

    /// How the host wants to be authenticated to, if it has said so.
    pub(crate) fn challenge(&self) -> Option<Arc<Challenge>> {
        self.state().challenge.clone()
    }

    pub(crate) fn learn(&self, challenge: Challenge) {
        self.state().challenge = Some(Arc::new(challenge));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// The host is well, whatever it said.
    pub(crate) fn succeeded(mut self) {
        self.settled = true;
        self.host.state().breaker.succeeded();
    }

    /// The host is not well.
    pub(crate) fn failed(mut self, fault: &str) {
        self.settled = true;
        let now = (self.host.clock)();
        let mut state = self.host.state();
        fault.clone_into(&mut state.fault);
        state.breaker.failed(now);
    }

    /// The host is well but wants to be left alone.
    pub(crate) fn limited(mut self, retry_after: Option<Duration>) {
        self.settled = true;
        let until = (self.host.clock)() + retry_after.unwrap_or(self.host.default_pause);
        let mut state = self.host.state();
        state.breaker.succeeded();
        state.limited_until = state.limited_until.max(Some(until));
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if !self.settled {
            let now = (self.host.clock)();
            self.host.state().breaker.abandoned(now);
        }
    }
}
