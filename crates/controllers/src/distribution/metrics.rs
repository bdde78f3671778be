use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// What distribution counts.
#[derive(Clone, Debug, Default)]
pub struct DistributionMetrics {
    pub(super) ledger_writes: Counter,
    pub(super) ledger_conflicts: Counter,
    pub(super) unrecorded: Counter,
    pub(super) failures: Counter,
    corrections: Family<CorrectionLabels, Counter>,
    desired: Family<EntryLabels, Gauge>,
    actual: Family<EntryLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CorrectionLabels {
    correction: &'static str,
}

/// Which entry of which rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct EntryLabels {
    pub(super) namespace: String,
    pub(super) rule: String,
    pub(super) entry: String,
}

impl DistributionMetrics {
    /// Registers what distribution counts.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("distribution");
        registry.register(
            "ledger_writes",
            "Writes of reserved places, each for all pods that waited",
            metrics.ledger_writes.clone(),
        );
        registry.register(
            "ledger_conflicts",
            "Writes of reserved places that another replica was faster with",
            metrics.ledger_conflicts.clone(),
        );
        registry.register(
            "unrecorded_places",
            "Places that were given without being written down, because the API server did not answer in time",
            metrics.unrecorded.clone(),
        );
        registry.register("failures", "Failed attempts to look after a rule", metrics.failures.clone());
        registry.register(
            "corrections",
            "What was done to keep or restore ratios, in pods",
            metrics.corrections.clone(),
        );
        registry.register(
            "desired_pods",
            "Pods that an entry should have, as the leader sees it",
            metrics.desired.clone(),
        );
        registry.register(
            "actual_pods",
            "Pods that an entry has, as the leader sees it",
            metrics.actual.clone(),
        );
        metrics
    }

    pub(super) fn corrected(&self, correction: &'static str) {
        self.corrections.get_or_create(&CorrectionLabels { correction }).inc();
    }

    pub(super) fn show(&self, labels: &EntryLabels, desired: i32, actual: i32) {
        self.desired.get_or_create(labels).set(desired.into());
        self.actual.get_or_create(labels).set(actual.into());
    }

    pub(super) fn hide(&self, labels: &EntryLabels) {
        self.desired.remove(labels);
        self.actual.remove(labels);
    }
}
