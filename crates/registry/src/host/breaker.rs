use std::time::{Duration, Instant};

/// Leaves a host alone that fails again and again, then lets one request find out whether it is back.
#[derive(Debug)]
pub(super) struct Breaker {
    limit: u32,
    pause: Duration,
    failures: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Instant },
    Probing,
}

/// Whether a request may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// Yes, as usual.
    Pass,
    /// Yes, to find out whether the host is back.
    Probe,
    /// No, not for so long.
    Wait(Duration),
}

impl Breaker {
    pub(super) fn new(limit: u32, pause: Duration) -> Self {
        Self { limit, pause, failures: 0, state: State::Closed }
    }

    pub(super) fn ask(&mut self, now: Instant) -> Gate {
        match self.state {
            State::Closed => Gate::Pass,
            State::Open { until } if until <= now => {
                self.state = State::Probing;
                Gate::Probe
            }
            State::Open { until } => Gate::Wait(until - now),
            State::Probing => Gate::Wait(self.pause),
        }
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.state = State::Closed;
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= self.limit {
            self.state = State::Open { until: now + self.pause };
        }
    }

    /// The probe was given up before it could tell: the next request is the probe.
    pub(super) fn abandoned(&mut self, now: Instant) {
        if self.state == State::Probing {
            self.state = State::Open { until: now };
        }
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    #[test]
    fn it_opens_after_faults_in_a_row_and_one_success_starts_the_count_again() {
        let now = Instant::now();
        let mut breaker = Breaker::new(3, PAUSE);
        for _ in 0..2 {
            breaker.failed(now);
        }
        breaker.succeeded();
        for _ in 0..2 {
            breaker.failed(now);
            assert_eq!(breaker.ask(now), Gate::Pass);
        }
        breaker.failed(now);
        assert_eq!(breaker.ask(now), Gate::Wait(PAUSE));
    }

    #[test]
    fn after_the_pause_one_request_finds_out_for_all() {
        let now = Instant::now();
        let mut breaker = Breaker::new(1, PAUSE);
        breaker.failed(now);
        assert_eq!(breaker.ask(now + PAUSE), Gate::Probe);
        assert_eq!(breaker.ask(now + PAUSE), Gate::Wait(PAUSE));
        breaker.failed(now + PAUSE);
        assert_eq!(breaker.ask(now + PAUSE), Gate::Wait(PAUSE));
        assert_eq!(breaker.ask(now + 2 * PAUSE), Gate::Probe);
        breaker.succeeded();
        assert_eq!(breaker.ask(now + 2 * PAUSE), Gate::Pass);
    }

    #[test]
    fn a_probe_that_is_given_up_does_not_block_the_next() {
        let now = Instant::now();
        let mut breaker = Breaker::new(1, PAUSE);
        breaker.failed(now);
        assert_eq!(breaker.ask(now + PAUSE), Gate::Probe);
        breaker.abandoned(now + PAUSE);
        assert_eq!(breaker.ask(now + PAUSE), Gate::Probe);
    }
}
