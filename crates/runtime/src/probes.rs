//! What the kubelet asks: `/healthz` (is the process alive) and `/readyz` (may traffic come).
//!
//! Readiness is a set of named gates, each owned by the part of the program it speaks for; ready means every gate is
//! open. A shutdown that has begun counts as a gate that is not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio_util::sync::CancellationToken;

/// The name under which a shutdown that has begun is reported.
const DRAINING: &str = "draining";

/// The gates of this process; clones share them.
#[derive(Clone, Debug)]
pub struct Readiness {
    gates: Arc<Mutex<Vec<Gate>>>,
    draining: CancellationToken,
}

/// One thing that must hold before traffic may come. Starts closed; clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    name: &'static str,
    is_open: Arc<AtomicBool>,
}

impl Gate {
    /// From now on this does not keep us from being ready.
    pub fn open(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// From now on we are not ready.
    pub fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }
}

impl Readiness {
    /// Ready as soon as every gate made later is open, until `draining` is cancelled.
    #[must_use]
    pub fn new(draining: CancellationToken) -> Self {
        Self { gates: Arc::default(), draining }
    }

    /// Adds a closed gate. Make all gates before the probes are served, or we may be called ready too early.
    #[must_use]
    pub fn gate(&self, name: &'static str) -> Gate {
        let gate = Gate { name, is_open: Arc::default() };
        self.gates.lock().unwrap_or_else(PoisonError::into_inner).push(gate.clone());
        gate
    }

    /// The names of what still keeps us from being ready, in the order in which the gates were made; empty means ready.
    #[must_use]
    pub fn unmet(&self) -> Vec<&'static str> {
        let gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = gates.iter().filter(|gate| !gate.is_open()).map(|gate| gate.name);
        closed.chain(self.draining.is_cancelled().then_some(DRAINING)).collect()
    }

    /// `/healthz` and `/readyz`.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/healthz", get(|| async { "ok" }))
            // As replaced projects' manifests ask: with a slash behind it, or for one check by its name.
            .route("/healthz/", get(|| async { "ok" }))
            .route("/healthz/{check}", get(|| async { "ok" }))
            .route("/readyz", get(ready))
            .with_state(self.clone())
    }
}

async fn ready(State(readiness): State<Readiness>) -> impl IntoResponse {
    let unmet = readiness.unmet();
    if unmet.is_empty() {
        return (StatusCode::OK, "ok".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", unmet.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    async fn probe(readiness: &Readiness, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = readiness.router().oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn ready_means_that_every_gate_is_open() {
        let readiness = Readiness::new(CancellationToken::new());
        let (caches, certificate) = (readiness.gate("caches"), readiness.gate("certificate"));
        assert_eq!(
            probe(&readiness, "/readyz").await,
            (StatusCode::SERVICE_UNAVAILABLE, "not ready: caches, certificate\n".to_owned())
        );
        caches.open();
        assert_eq!(readiness.unmet(), ["certificate"]);
        certificate.open();
        assert_eq!(probe(&readiness, "/readyz").await, (StatusCode::OK, "ok".to_owned()));
        caches.close();
        assert_eq!(readiness.unmet(), ["caches"]);
    }

    #[tokio::test]
    async fn draining_is_alive_but_not_ready() {
        let draining = CancellationToken::new();
        let readiness = Readiness::new(draining.clone());
        readiness.gate("caches").open();
        draining.cancel();
        assert_eq!(readiness.unmet(), [DRAINING]);
        assert_eq!(probe(&readiness, "/readyz").await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(probe(&readiness, "/healthz").await, (StatusCode::OK, "ok".to_owned()));
    }
}
