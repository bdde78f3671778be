//! A strategy, read field by field.

use std::time::Duration;

use super::{EffectiveAutoFail, EffectiveAutoPause, EffectiveCanary, EffectiveStrategy, Problem};
use crate::{
    NodeSelector,
    config::ValidationMode,
    eds::{
        Amount, AutoFail, AutoPause, Canary, ExtendedDaemonSetSpec, IntOrText, LabelSelector, RollingUpdate,
        span,
    },
};

/// What the Go controller writes into `duration` by itself. In manual mode it means nothing.
const WRITTEN_DURATION: &str = "10m0s";
/// Likewise, `noRestartsDuration`.
const WRITTEN_NO_RESTARTS: &str = "5m0s";

/// Reads fields and collects what is wrong with them.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) problems: Vec<Problem>,
}

impl Reading {
    pub(super) fn strategy(
        &mut self,
        spec: &ExtendedDaemonSetSpec,
        default_mode: ValidationMode,
    ) -> EffectiveStrategy {
        let RollingUpdate {
            max_unavailable,
            max_pod_scheduler_failure,
            max_parallel_pod_creation,
            slow_start_interval_duration,
            slow_start_additive_increase,
        } = &spec.strategy.rolling_update;
        let interval = self.span(
            "spec.strategy.rollingUpdate.slowStartIntervalDuration",
            slow_start_interval_duration.as_deref(),
        );
        EffectiveStrategy {
            max_unavailable: self.amount(
                "spec.strategy.rollingUpdate.maxUnavailable",
                max_unavailable.as_ref(),
                Amount::Count(1),
            ),
            max_pod_scheduler_failure: self.amount(
                "spec.strategy.rollingUpdate.maxPodSchedulerFailure",
                max_pod_scheduler_failure.as_ref(),
                Amount::Count(0),
            ),
            max_parallel_pod_creation: self.parallel(*max_parallel_pod_creation),
            slow_start_interval: self.not_zero(interval),
            slow_start_increase: self.increase(slow_start_additive_increase.as_ref()),
            reconcile_frequency: self
                .span("spec.strategy.reconcileFrequency", spec.strategy.reconcile_frequency.as_deref())
                .unwrap_or(Duration::from_secs(10)),
            min_ready: self.min_ready(spec.min_ready_seconds),
            canary: spec.strategy.canary.as_ref().map(|canary| self.canary(canary, default_mode)),
        }
    }

    pub(super) fn canary(&mut self, canary: &Canary, default_mode: ValidationMode) -> EffectiveCanary {
        let mode = self.mode(canary.validation_mode.as_deref(), default_mode);
        let effective = EffectiveCanary {
            replicas: self.amount(
                "spec.strategy.canary.replicas",
                canary.replicas.as_ref(),
                Amount::Count(1),
            ),
            mode,
            duration: self.when_auto(
                mode,
                "spec.strategy.canary.duration",
                canary.duration.as_deref(),
                (WRITTEN_DURATION, Duration::from_mins(10)),
            ),
            no_restarts: self.when_auto(
                mode,
                "spec.strategy.canary.noRestartsDuration",
                canary.no_restarts_duration.as_deref(),
                (WRITTEN_NO_RESTARTS, Duration::from_mins(5)),
            ),
            node_selector: self.selector(canary.node_selector.as_ref()),
            anti_affinity_keys: canary.node_anti_affinity_keys.clone(),
            auto_pause: self.auto_pause(canary.auto_pause.as_ref()),
            auto_fail: self.auto_fail(canary.auto_fail.as_ref()),
            require_ready: canary.require_ready.unwrap_or(false),
            pause_stops_clock: canary.pause_stops_clock.unwrap_or(false),
            spread_by: canary.spread_by.clone(),
            hold_on_failure: self.hold(canary.on_failure.as_deref()),
        };
        self.contradictions(&effective);
        effective
    }

    fn auto_pause(&mut self, written: Option<&AutoPause>) -> Option<EffectiveAutoPause> {
        let restarts = written.and_then(|pause| pause.max_restarts);
        let slow = written.and_then(|pause| pause.max_slow_start_duration.as_deref());
        let effective = EffectiveAutoPause {
            max_restarts: self.restarts("spec.strategy.canary.autoPause.maxRestarts", restarts, 2),
            max_slow_start: self.span("spec.strategy.canary.autoPause.maxSlowStartDuration", slow),
        };
        written.and_then(|pause| pause.enabled).unwrap_or(true).then_some(effective)
    }

    fn auto_fail(&mut self, written: Option<&AutoFail>) -> Option<EffectiveAutoFail> {
        let restarts = written.and_then(|fail| fail.max_restarts);
        let restarting = written.and_then(|fail| fail.max_restarts_duration.as_deref());
        let timeout = written.and_then(|fail| fail.canary_timeout.as_deref());
        let effective = EffectiveAutoFail {
            max_restarts: self.restarts("spec.strategy.canary.autoFail.maxRestarts", restarts, 5),
            max_restarts_duration: self.span("spec.strategy.canary.autoFail.maxRestartsDuration", restarting),
            timeout: self.span("spec.strategy.canary.autoFail.canaryTimeout", timeout),
        };
        written.and_then(|fail| fail.enabled).unwrap_or(true).then_some(effective)
    }

    fn contradictions(&mut self, canary: &EffectiveCanary) {
        let Some(fail) = &canary.auto_fail else {
            return;
        };
        if let Some(pause) = &canary.auto_pause
            && fail.max_restarts < pause.max_restarts
        {
            self.problem(
                "spec.strategy.canary.autoFail.maxRestarts",
                format!(
                    "{} is less than autoPause.maxRestarts, {}: the canary would fail before it could be paused",
                    fail.max_restarts, pause.max_restarts
                ),
            );
        }
        if let (Some(timeout), Some(duration)) = (fail.timeout, canary.duration)
            && timeout <= duration
        {
            self.problem(
                "spec.strategy.canary.autoFail.canaryTimeout",
                format!("{timeout:?} is not longer than the canary's duration, {duration:?}: every canary would fail before its end"),
            );
        }
    }

    fn restarts(&mut self, field: &'static str, written: Option<i32>, default: u32) -> u32 {
        written.map_or(default, |written| {
            u32::try_from(written).unwrap_or_else(|_| {
                self.problem(field, "must not be negative");
                default
            })
        })
    }

    /// A span that only counts when the canary ends by itself.
    fn when_auto(
        &mut self,
        mode: ValidationMode,
        field: &'static str,
        written: Option<&str>,
        (by_itself, default): (&str, Duration),
    ) -> Option<Duration> {
        if mode == ValidationMode::Auto {
            return Some(self.span(field, written).unwrap_or(default));
        }
        if written.is_some_and(|written| written != by_itself) {
            self.problem(
                field,
                "has no effect with validationMode manual, where a person ends the canary: remove one of the two",
            );
        }
        None
    }

    fn mode(&mut self, written: Option<&str>, default: ValidationMode) -> ValidationMode {
        match written {
            None | Some("") => default,
            Some("auto") => ValidationMode::Auto,
            Some("manual") => ValidationMode::Manual,
            Some(other) => {
                self.problem(
                    "spec.strategy.canary.validationMode",
                    format!("{other:?} is neither auto nor manual"),
                );
                // Nothing is promoted on a guess.
                ValidationMode::Manual
            }
        }
    }

    fn hold(&mut self, written: Option<&str>) -> bool {
        match written {
            None | Some("" | "Restore") => false,
            Some("HoldActive") => true,
            Some(other) => {
                self.problem(
                    "spec.strategy.canary.onFailure",
                    format!("{other:?} is neither Restore nor HoldActive"),
                );
                // Nobody's spec is changed on a guess.
                true
            }
        }
    }

    fn amount(&mut self, field: &'static str, written: Option<&IntOrText>, default: Amount) -> Amount {
        match written.map(Amount::try_from) {
            None => default,
            Some(Ok(amount)) => amount,
            Some(Err(error)) => {
                self.problem(field, error.to_string());
                default
            }
        }
    }

    fn increase(&mut self, written: Option<&IntOrText>) -> Amount {
        let field = "spec.strategy.rollingUpdate.slowStartAdditiveIncrease";
        let amount = self.amount(field, written, Amount::Count(1));
        if amount.is_zero() {
            self.problem(field, "must be more than nothing, or no pod would ever be created");
            return Amount::Count(1);
        }
        amount
    }

    fn parallel(&mut self, written: Option<i32>) -> u32 {
        match written.map(u32::try_from) {
            None => 250,
            Some(Ok(count @ 1..)) => count,
            Some(_) => {
                self.problem(
                    "spec.strategy.rollingUpdate.maxParallelPodCreation",
                    "must be 1 or more, or no pod would ever be created",
                );
                250
            }
        }
    }

    fn min_ready(&mut self, written: Option<i32>) -> Duration {
        u64::try_from(written.unwrap_or(0)).map_or_else(
            |_| {
                self.problem("spec.minReadySeconds", "must not be negative");
                Duration::ZERO
            },
            Duration::from_secs,
        )
    }

    fn span(&mut self, field: &'static str, written: Option<&str>) -> Option<Duration> {
        match span::read(written?) {
            Ok(span) => Some(span),
            Err(error) => {
                self.problem(field, error.to_string());
                None
            }
        }
    }

    fn not_zero(&mut self, interval: Option<Duration>) -> Duration {
        match interval {
            None => Duration::from_mins(1),
            Some(Duration::ZERO) => {
                self.problem(
                    "spec.strategy.rollingUpdate.slowStartIntervalDuration",
                    "must be longer than 0s: for no slow start, set slowStartAdditiveIncrease to \"100%\"",
                );
                Duration::from_mins(1)
            }
            Some(interval) => interval,
        }
    }

    fn selector(&mut self, written: Option<&LabelSelector>) -> NodeSelector {
        match written.map(LabelSelector::checked) {
            None => NodeSelector::default(),
            Some(Ok(selector)) => selector,
            Some(Err(error)) => {
                self.problem("spec.strategy.canary.nodeSelector", error.to_string());
                NodeSelector::default()
            }
        }
    }

    fn problem(&mut self, field: &'static str, message: impl Into<String>) {
        self.problems.push(Problem { field, message: message.into() });
    }
}
