use std::{
    any::Any,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    body::{Body, HttpBody as _},
    extract::{Request, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures::future::join_all;
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use http_body_util::BodyExt as _;
use podwright_api::{Feature, LongDuration};
use podwright_core::mutate::{Facts, Lookup, Pipeline, RawPod, Review};
use tokio::sync::Semaphore;
use tower_http::catch_panic::CatchPanicLayer;

use crate::{facts::FactSource, fault::Fault, metrics::AdmissionMetrics, review::Question};

/// The largest review that is read. An API server stores objects of 1.5 MiB and an UPDATE carries two of them.
pub const MAX_BODY: usize = 7 * 1024 * 1024;

/// How much of a review that is too large is read before the connection is given up.
const PATIENCE: usize = 4 * MAX_BODY;

/// Where FlexDaemonsets and the peer-pods webhook are registered, so that their configurations go on working.
const LEGACY_PATH: &str = "/mutate-v1-pod";

/// Where Versprei is registered.
const VERSPREI_PATH: &str = "/mutate";
/// What Versprei's users ask whether it lives.
const HEALTH_PATH: &str = "/health";

/// What bounds a review.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionOptions {
    /// How long the API server waits. We answer a little earlier, with a reason.
    pub timeout: Duration,
    /// How many reviews are worked on at once.
    pub max_in_flight: usize,
}

/// How often a decision may ask for more facts: the workload, its owner, then template and node.
const ROUNDS: usize = 5;

struct Admission {
    pipeline: Pipeline,
    source: Arc<dyn FactSource>,
    timeout: Duration,
    turns: Semaphore,
    metrics: AdmissionMetrics,
}

/// The routes of the admission server: one for each feature of the pipeline, and the replaced projects' own.
pub fn router(
    pipeline: Pipeline,
    source: Arc<dyn FactSource>,
    options: AdmissionOptions,
    metrics: AdmissionMetrics,
) -> Router {
    let features: Vec<Feature> = pipeline.features().collect();
    let admission = Arc::new(Admission {
        pipeline,
        source,
        timeout: options.timeout,
        turns: Semaphore::new(options.max_in_flight),
        metrics: metrics.clone(),
    });
    let route = |features: Vec<Feature>| {
        let features: Arc<[Feature]> = features.into();
        post(move |State(admission): State<Arc<Admission>>, request: Request| async move {
            admission.respond(&features, request).await
        })
    };
    let mut router = Router::new();
    for feature in &features {
        router = router.route(&feature.path(), route(vec![*feature]));
    }
    let legacy: Vec<Feature> = features
        .iter()
        .copied()
        .filter(|feature| matches!(feature, Feature::Sizing | Feature::PeerPods))
        .collect();
    if !legacy.is_empty() {
        router = router.route(LEGACY_PATH, route(legacy));
    }
    if features.contains(&Feature::Distribution) {
        router = router
            .route(VERSPREI_PATH, route(vec![Feature::Distribution]))
            .route(HEALTH_PATH, get(|| async { Json("OK") }));
    }
    let served: Vec<String> = features.into_iter().map(Feature::path).collect();
    let lost = format!("nothing is served here; the webhooks are at {}\n", served.join(", "));
    router
        .fallback(move || async move { (StatusCode::NOT_FOUND, lost) })
        .layer(CatchPanicLayer::custom(move |panic: Box<dyn Any + Send>| panicked(&panic, &metrics)))
        .with_state(admission)
}

impl Admission {
    async fn respond(&self, features: &[Feature], request: Request) -> Response {
        let started = Instant::now();
        let _in_flight = self.metrics.in_flight();
        let timeout = deadline(self.timeout, request.uri().query());
        let lenient = request.uri().path() == VERSPREI_PATH;
        let answer = tokio::time::timeout(timeout, self.review(features, lenient, request.into_body())).await;
        let answer = answer.unwrap_or_else(|_| {
            Err(Fault::new(
                StatusCode::GATEWAY_TIMEOUT,
                format!("no answer within {} ms", timeout.as_millis()),
            ))
        });
        self.metrics.duration.observe(started.elapsed().as_secs_f64());
        let response = match answer {
            Ok(body) => {
                let json = HeaderValue::from_static("application/json");
                ([(CONTENT_TYPE, json)], Body::from(body)).into_response()
            }
            Err(fault) => {
                tracing::warn!(status = fault.status.as_u16(), %fault, "a review could not be answered");
                fault.into_response()
            }
        };
        self.metrics.answer(response.status().as_u16());
        response
    }

    async fn review(&self, features: &[Feature], lenient: bool, body: Body) -> Result<Vec<u8>, Fault> {
        // The turn comes first, so that what is held in memory is bounded too.
        let _turn = self.turns.acquire().await.map_err(Fault::ours)?;
        let body = content(body).await?;
        let question = match Question::read(&body) {
            Ok(question) => question,
            // Versprei lets through whatever it was registered for by mistake.
            Err(unanswerable) if lenient => return unanswerable.let_through(),
            Err(unanswerable) => return Err(unanswerable.fault()),
        };
        let observe = |feature, verdict| self.metrics.verdict(feature, verdict);
        let pod = RawPod::read(question.pod)?;
        let mut facts = Facts::default();
        for _ in 0..ROUNDS {
            match self.pipeline.run(features, &question.request(), &pod, &facts, observe)? {
                Review::Done(outcome) => return question.answer(&outcome),
                Review::Needs(lookups) => self.look_up(&mut facts, lookups).await?,
            }
        }
        Err(Fault::ours("a decision asks for facts without end; this is a bug in Podwright"))
    }

    async fn look_up(&self, facts: &mut Facts, lookups: Vec<Lookup>) -> Result<(), Fault> {
        // All at once: those that take long wait for the same time, not one after the other.
        let found = join_all(lookups.iter().map(|lookup| self.source.find(lookup))).await;
        for (lookup, found) in lookups.into_iter().zip(found) {
            let found = found.map_err(|error| {
                Fault::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    format!("{lookup} could not be looked up: {error}"),
                )
            })?;
            facts.insert(lookup, found);
        }
        Ok(())
    }
}

/// Reads the body. One that is too large is read on for a while and thrown away, because a client that is still writing may
/// never see an answer that comes before it is done.
async fn content(mut body: Body) -> Result<Vec<u8>, Fault> {
    let expected = usize::try_from(body.size_hint().lower()).unwrap_or(MAX_BODY);
    let (mut content, mut size) = (Vec::with_capacity(expected.min(MAX_BODY)), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Fault::bad(format!("the body could not be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        size = size.saturating_add(data.len());
        if size <= MAX_BODY {
            content.extend_from_slice(&data);
        } else {
            content = Vec::new();
        }
        if size > PATIENCE {
            break;
        }
    }
    if size > MAX_BODY {
        let message = format!("the review is larger than {} MiB", MAX_BODY >> 20);
        return Err(Fault::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    Ok(content)
}

/// The API server says in the query how long it waits (`timeout=5s`); nine tenths of the shorter of that and our own
/// setting are ours.
fn deadline(configured: Duration, query: Option<&str>) -> Duration {
    let stated = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .find_map(|pair| pair.strip_prefix("timeout="))
        .and_then(|text| text.parse::<LongDuration>().ok())
        .map(LongDuration::get)
        .filter(|stated| !stated.is_zero());
    stated.map_or(configured, |stated| stated.min(configured)).mul_f64(0.9)
}

fn panicked(panic: &(dyn Any + Send), metrics: &AdmissionMetrics) -> Response {
    let message =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(
        panic = message.unwrap_or("of unknown kind"),
        "a review panicked; this is a bug in Podwright"
    );
    metrics.answer(StatusCode::INTERNAL_SERVER_ERROR.as_u16());
    Fault::ours("internal error; see Podwright's log").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_is_a_little_before_the_api_server_gives_up() {
        let five = Duration::from_secs(5);
        for (query, millis) in [
            (None, 4500),
            (Some("timeout=2s"), 1800),
            (Some("timeout=10s"), 4500),
            (Some("a=b&timeout=1s"), 900),
            (Some("timeout=0s"), 4500),
            (Some("timeout=soon"), 4500),
        ] {
            assert_eq!(deadline(five, query), Duration::from_millis(millis), "{query:?}");
        }
    }
}
