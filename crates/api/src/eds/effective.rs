mod reading;

use std::{fmt, time::Duration};

use reading::Reading;

use super::{Amount, Canary, ExtendedDaemonSetSpec};
use crate::{NodeSelector, config::ValidationMode};

/// Something in the spec that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, such as `spec.strategy.canary.duration`.
    pub field: &'static str,
    /// What, and what to do about it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// A strategy with its defaults, in types that can be computed with.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveStrategy {
    /// How many nodes may be without an available pod at a time.
    pub max_unavailable: Amount,
    /// How many nodes whose pod can't be scheduled or doesn't go away are left out of that count.
    pub max_pod_scheduler_failure: Amount,
    /// How many pods may be starting at a time, at most.
    pub max_parallel_pod_creation: u32,
    /// After each such interval more pods may be starting at a time. Never zero.
    pub slow_start_interval: Duration,
    /// How many pods may be starting at a time in the first interval, and how many more in each that follows.
    pub slow_start_increase: Amount,
    /// How long a pod that is not ready counts as starting.
    pub reconcile_frequency: Duration,
    /// How long a pod must have been ready before it counts as available.
    pub min_ready: Duration,
    /// The canary, if there is one.
    pub canary: Option<EffectiveCanary>,
}

/// A canary with its defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveCanary {
    /// On how many nodes.
    pub replicas: Amount,
    /// Who ends it.
    pub mode: ValidationMode,
    /// How long, if it ends by itself.
    pub duration: Option<Duration>,
    /// How long no pod may have restarted before it ends, if it ends by itself.
    pub no_restarts: Option<Duration>,
    /// On which nodes.
    pub node_selector: NodeSelector,
    /// Labels over whose values the nodes are spread.
    pub anti_affinity_keys: Vec<String>,
    /// When it is paused without a person, if ever.
    pub auto_pause: Option<EffectiveAutoPause>,
    /// When it fails without a person, if ever.
    pub auto_fail: Option<EffectiveAutoFail>,
    /// Whether it only ends well once every canary pod is there and available.
    pub require_ready: bool,
    /// Whether the time during which it is paused does not count for its duration.
    pub pause_stops_clock: bool,
    /// Labels whose values its nodes represent in proportion.
    pub spread_by: Vec<String>,
    /// Whether the spec stays as it is when it fails.
    pub hold_on_failure: bool,
}

/// When a canary is paused without a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveAutoPause {
    /// When a container has restarted more often than this.
    pub max_restarts: u32,
    /// When a pod needs longer than this to start.
    pub max_slow_start: Option<Duration>,
}

/// When a canary fails without a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveAutoFail {
    /// When a container has restarted more often than this.
    pub max_restarts: u32,
    /// When containers have gone on restarting for longer than this.
    pub max_restarts_duration: Option<Duration>,
    /// When the canary takes longer than this.
    pub timeout: Option<Duration>,
}

/// What an empty strategy comes to.
impl Default for EffectiveStrategy {
    fn default() -> Self {
        Reading::default().strategy(&ExtendedDaemonSetSpec::default(), ValidationMode::Auto)
    }
}

/// What an empty canary comes to.
impl Default for EffectiveCanary {
    fn default() -> Self {
        Reading::default().canary(&Canary::default(), ValidationMode::Auto)
    }
}

impl ExtendedDaemonSetSpec {
    /// The strategy with its defaults, and what is wrong with it. A field that cannot be meant has its default, so that
    /// pods that run are looked after; `default_mode` is the controller's own for canaries that name none.
    #[must_use]
    pub fn effective(&self, default_mode: ValidationMode) -> (EffectiveStrategy, Vec<Problem>) {
        let mut reading = Reading::default();
        let effective = reading.strategy(self, default_mode);
        (effective, reading.problems)
    }
}
