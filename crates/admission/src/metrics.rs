use podwright_core::mutate::Verdict;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

/// What admission counts. Labels take few values: features, verdicts and status codes of ours, never a name.
#[derive(Clone, Debug)]
pub struct AdmissionMetrics {
    verdicts: Family<VerdictLabels, Counter>,
    answers: Family<AnswerLabels, Counter>,
    pub(crate) duration: Histogram,
    in_flight: Gauge,
}

/// A review that is being worked on. However it ends, also when the caller hangs up or the work panics, it is counted off.
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    feature: &'static str,
    verdict: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    code: u16,
}

/// From a twentieth of a millisecond to the longest that an API server waits.
const BUCKETS: [f64; 12] =
    [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0];

impl AdmissionMetrics {
    /// Registers what admission counts.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("admission");
        let metrics = Self {
            verdicts: Family::default(),
            answers: Family::default(),
            duration: Histogram::new(BUCKETS),
            in_flight: Gauge::default(),
        };
        registry.register("mutations", "What each feature decided about pods", metrics.verdicts.clone());
        registry.register("answers", "Answers by HTTP status code", metrics.answers.clone());
        registry.register_with_unit(
            "review_duration",
            "Time from the first byte of a review to its answer",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register("in_flight", "Reviews being worked on", metrics.in_flight.clone());
        metrics
    }

    pub(crate) fn verdict(&self, feature: podwright_api::Feature, verdict: Verdict) {
        let labels = VerdictLabels { feature: feature.name(), verdict: verdict.name() };
        self.verdicts.get_or_create(&labels).inc();
    }

    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    pub(crate) fn answer(&self, code: u16) {
        self.answers.get_or_create(&AnswerLabels { code }).inc();
    }
}
