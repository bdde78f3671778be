//! What is counted while rolling out.

use std::{fmt, time::Duration};

use podwright_core::rollout::plan::Why;
use podwright_runtime::lease::Leadership;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        MetricType,
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
    registry::Registry,
};

use super::shelf::Key;

/// What is counted while rolling out.
#[derive(Clone, Debug)]
pub struct RolloutMetrics {
    created: Counter,
    deleted: Family<WhyLabels, Counter>,
    pub(super) failures: Counter,
    durations: Histogram,
    plans: Histogram,
    stuck: Family<ReplicaSetLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WhyLabels {
    why: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReplicaSetLabels {
    name: String,
    namespace: String,
}

/// From a second to more than a day.
const ROLLOUTS: [f64; 14] =
    [1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0];
const PLANS: [f64; 8] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 1.0];

impl RolloutMetrics {
    /// Registers what is counted: `ours` puts its prefix before every name, `bare` holds names that dashboards of the replaced
    /// controller know.
    pub fn register(ours: &mut Registry, bare: &mut Registry, leadership: Leadership) -> Self {
        let metrics = Self {
            created: Counter::default(),
            deleted: Family::default(),
            failures: Counter::default(),
            durations: Histogram::new(ROLLOUTS),
            plans: Histogram::new(PLANS),
            stuck: Family::default(),
        };
        let ours = ours.sub_registry_with_prefix("rollout");
        ours.register(
            "pods_created",
            "Pods of ExtendedDaemonSets that were created",
            metrics.created.clone(),
        );
        ours.register(
            "pods_deleted",
            "Pods of ExtendedDaemonSets that were deleted",
            metrics.deleted.clone(),
        );
        ours.register(
            "failures",
            "Writes for ExtendedDaemonSets that were refused",
            metrics.failures.clone(),
        );
        ours.register(
            "duration_seconds",
            "How long it took until a new template was everywhere",
            metrics.durations.clone(),
        );
        ours.register(
            "plan_duration_seconds",
            "How long it took to decide what to do",
            metrics.plans.clone(),
        );
        bare.register(
            "ers_rolling_update_stuck",
            "1 if the number of unavailable pods is higher than maxUnavailable, 0 otherwise",
            metrics.stuck.clone(),
        );
        bare.register_collector(Box::new(Leads(leadership)));
        metrics
    }

    pub(super) fn created(&self) {
        self.created.inc();
    }

    pub(super) fn deleted(&self, why: Why) {
        self.deleted.get_or_create(&WhyLabels { why: why.word() }).inc();
    }

    pub(super) fn rolled_out(&self, took: Duration) {
        self.durations.observe(took.as_secs_f64());
    }

    pub(super) fn planned(&self, took: Duration) {
        self.plans.observe(took.as_secs_f64());
    }

    /// Shows in `place` whether a replica set is stuck, and no longer what was shown there of another.
    pub(super) fn show_stuck(&self, place: &mut Option<Shown>, replica_set: &Key, stuck: bool) {
        if place.as_ref().is_none_or(|shown| shown.replica_set != *replica_set) {
            *place = Some(Shown { family: self.stuck.clone(), replica_set: replica_set.clone() });
        }
        self.stuck.get_or_create(&labels(replica_set)).set(i64::from(stuck));
    }
}

/// What is shown of a replica set for as long as this is kept.
pub(super) struct Shown {
    family: Family<ReplicaSetLabels, Gauge>,
    replica_set: Key,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.family.remove(&labels(&self.replica_set));
    }
}

fn labels(replica_set: &Key) -> ReplicaSetLabels {
    ReplicaSetLabels { name: replica_set.name.to_string(), namespace: replica_set.namespace.to_string() }
}

/// `eds_controller_leader`, whose label says what others say by the value.
struct Leads(Leadership);

impl fmt::Debug for Leads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leads")
    }
}

impl Collector for Leads {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let mut family =
            encoder.encode_descriptor("eds_controller_leader", LEADER_HELP, None, MetricType::Gauge)?;
        let leads = if self.0.is_current() { "true" } else { "false" };
        ConstGauge::new(1_i64).encode(family.encode_family(&[("leader", leads)])?)
    }
}

pub(super) const LEADER_HELP: &str = "Whether this replica rolls out, in the label; the value is always 1";
