//! Architecture after admission: pods that were held back are finished, and those that cannot run are told why.
//!
//! ```text
//! pods with our state label ─▶ gates: look the images up again ─▶ affinity and tolerations, gate off; or a reason, as an event
//! events that say BackOff ─▶ crashes: was it the architecture? ─▶ an event that names image, node and platforms
//! workloads ─▶ warm-up: their images are looked up before their pods come
//! ```
//!
//! What images are built for is asked through [`Images`]: registries are not known here.

mod crashes;
mod drain;
mod gates;
mod kinds;
mod secrets;
mod told;
mod warm_up;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, Resource,
    api::{GetParams, Request},
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use podwright_api::config::Config;
use podwright_core::mutate::{self, ImageFact, ImageLookup};
use podwright_runtime::lease::Leadership;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use self::{
    drain::{Drained, drain},
    kinds::Kinds,
    secrets::{Found, PullSecrets},
};
use crate::lookups::Lookups;

/// Who knows what images are built for.
pub trait Images: Send + Sync + 'static {
    /// What it is built for, or why that cannot be said within this time.
    fn find<'a>(
        &'a self,
        lookup: &'a ImageLookup,
        patience: Duration,
    ) -> Pin<Box<dyn Future<Output = ImageFact> + Send + 'a>>;
}

/// Somebody who has never heard of any image, for managers that place none.
#[derive(Clone, Copy, Debug)]
pub struct NoImages;

impl Images for NoImages {
    fn find<'a>(
        &'a self,
        _: &'a ImageLookup,
        _: Duration,
    ) -> Pin<Box<dyn Future<Output = ImageFact> + Send + 'a>> {
        let unknown = ImageFact::Unknown("the feature architecture is switched off".to_owned());
        Box::pin(std::future::ready(unknown))
    }
}

/// How long images may take where nobody waits for an answer.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// What the controllers work with.
pub struct Architecture {
    /// The API server.
    pub client: Client,
    /// What becomes of pods.
    pub config: Arc<Config>,
    /// Whether this replica may write.
    pub leadership: Leadership,
    /// What is known, with time to find it out.
    pub lookups: Lookups,
    /// What is counted.
    pub metrics: ArchitectureMetrics,
}

/// What the controllers count.
#[derive(Clone, Debug, Default)]
pub struct ArchitectureMetrics {
    gates: Family<DeedLabels, Counter>,
    mismatches: Counter,
    warmed: Counter,
    failures: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeedLabels {
    deed: &'static str,
}

impl ArchitectureMetrics {
    /// Registers what the controllers count.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("architecture");
        registry.register("gates", "Pods that were held back and came free", metrics.gates.clone());
        registry.register(
            "mismatches",
            "Containers that failed because their image is not built for their node",
            metrics.mismatches.clone(),
        );
        registry.register("warmed", "Images of workloads that were looked up ahead", metrics.warmed.clone());
        registry.register("failures", "Failed attempts to finish a pod", metrics.failures.clone());
        metrics
    }
}

/// What the controllers share.
struct Context {
    architecture: Architecture,
    mutator: mutate::Architecture,
    recorder: Recorder,
}

impl Architecture {
    /// Runs until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let reporter = Reporter { controller: "podwright".to_owned(), instance: None };
        let context = Arc::new(Context {
            mutator: mutate::Architecture::new(&self.config),
            recorder: Recorder::new(self.client.clone(), reporter),
            architecture: self,
        });
        tokio::join!(
            gates::run(context.clone(), cancel.clone()),
            crashes::run(context.clone(), cancel.clone()),
            warm_up::run(context, cancel),
        );
    }
}

impl Context {
    /// The pod as raw JSON, so that what we do not know of is not lost on the way; none if it is gone.
    async fn read(&self, namespace: &str, name: &str) -> Result<Option<Value>, kube::Error> {
        let path = Request::new(Pod::url_path(&(), Some(namespace)));
        let request = path.get(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
        match self.architecture.client.request(request).await {
            Ok(pod) => Ok(Some(pod)),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An event is worth having, but not worth failing for. Gives whether it was published.
    async fn tell<K: Resource<DynamicType = ()>>(
        &self,
        pod: &K,
        kind: EventType,
        reason: &str,
        text: &str,
    ) -> bool {
        if !self.architecture.leadership.is_current() {
            return false;
        }
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(shortened(text)),
            action: "PlaceByArchitecture".to_owned(),
            secondary: None,
        };
        let published = self.recorder.publish(&event, &pod.object_ref(&())).await;
        if let Err(error) = &published {
            tracing::warn!(%error, reason, "failed to publish an event");
        }
        published.is_ok()
    }
}

/// The API server takes notes of up to a kilobyte.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 1000;
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let mut end = LONGEST;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}
