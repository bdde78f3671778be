//! What is counted of registries. Labels are from fixed sets, but for a few names of registries.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use podwright_registry::{LookupResult, Observer, RequestKind, RequestResult};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

/// From an answer out of the cache to the longest that a lookup goes on.
const BUCKETS: [f64; 11] = [0.00001, 0.0001, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// How many registries get a name in the metrics.
const NAMED: usize = 20;

/// What is counted of registries.
#[derive(Debug)]
pub(super) struct RegistryMetrics {
    lookups: Family<ResultLabels, Counter>,
    lookup_duration: Histogram,
    requests: Family<RequestLabels, Counter>,
    request_duration: Histogram,
    remaining: Family<RegistryLabels, Gauge<u64, AtomicU64>>,
    named: Mutex<BTreeSet<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    kind: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RegistryLabels {
    registry: String,
}

impl RegistryMetrics {
    /// Registers what is counted.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            lookups: Family::default(),
            lookup_duration: Histogram::new(BUCKETS),
            requests: Family::default(),
            request_duration: Histogram::new(BUCKETS),
            remaining: Family::default(),
            named: Mutex::default(),
        };
        let registry = registry.sub_registry_with_prefix("registry");
        registry.register(
            "lookups",
            "Lookups of images by how they ended; hit, revalidated and stale come from the cache",
            metrics.lookups.clone(),
        );
        registry.register_with_unit(
            "lookup_duration",
            "Time from asking what an image is built for to the answer",
            Unit::Seconds,
            metrics.lookup_duration.clone(),
        );
        registry.register("requests", "Requests to registries and token servers", metrics.requests.clone());
        registry.register_with_unit(
            "request_duration",
            "Time that a registry or token server took",
            Unit::Seconds,
            metrics.request_duration.clone(),
        );
        registry.register(
            "rate_limit_remaining",
            "Requests that a registry still grants, where it says so",
            metrics.remaining.clone(),
        );
        metrics
    }
}

impl Observer for RegistryMetrics {
    fn lookup(&self, result: LookupResult, took: Duration) {
        self.lookups.get_or_create(&ResultLabels { result: result.label() }).inc();
        self.lookup_duration.observe(took.as_secs_f64());
    }

    fn request(&self, kind: RequestKind, result: RequestResult, took: Duration) {
        self.requests.get_or_create(&RequestLabels { kind: kind.label(), result: result.label() }).inc();
        self.request_duration.observe(took.as_secs_f64());
    }

    fn rate_limit_remaining(&self, registry: &str, remaining: u64) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.contains(registry) || named.len() < NAMED {
            named.insert(registry.to_owned());
            self.remaining.get_or_create(&RegistryLabels { registry: registry.to_owned() }).set(remaining);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_registries_there_are_only_some_get_a_name() {
        let mut registry = Registry::default();
        let metrics = RegistryMetrics::register(&mut registry);
        for index in 0..100 {
            metrics.rate_limit_remaining(&format!("r{index}.test"), index);
            metrics.lookup(LookupResult::Fetched, Duration::from_millis(1));
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert_eq!(text.matches("registry_rate_limit_remaining{").count(), NAMED);
        assert!(text.contains("registry_lookups_total{result=\"fetched\"} 100"), "{text}");
    }
}
