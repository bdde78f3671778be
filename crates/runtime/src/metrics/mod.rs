//! One metrics registry for the process, and `/metrics` over it.
//!
//! Parts of the program register their own metrics through [`Metrics::registry_mut`] before serving starts; every name
//! there gets the prefix `podwright_`. The process's own figures carry the names that all Prometheus clients use.

mod process;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

/// The prefix of every metric that is ours.
const PREFIX: &str = "podwright";

/// What the encoder writes; Prometheus picks its parser by this.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What was built, as the labels of `podwright_build_info`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct BuildInfo {
    /// The version of the package.
    pub version: &'static str,
    /// The commit it was built from, or `unknown`.
    pub revision: &'static str,
}

/// The metrics of this process, while they are being put together.
#[derive(Debug)]
pub struct Metrics {
    ours: Registry,
    process: Registry,
}

impl Metrics {
    /// A registry with `podwright_build_info` and the figures of this process in it.
    #[must_use]
    pub fn new(build: &BuildInfo) -> Self {
        let mut ours = Registry::with_prefix(PREFIX);
        let info = Family::<BuildInfo, Gauge>::default();
        info.get_or_create(build).set(1);
        ours.register("build_info", "What was built, in the labels; the value is always 1", info);

        let mut process = Registry::default();
        process.register_collector(Box::new(process::Process));
        Self { ours, process }
    }

    /// Where parts of the program register theirs, named without the prefix.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.ours
    }

    /// The same, and beside it where metrics of replaced projects are registered, under the names that their users' dashboards
    /// know.
    pub fn registries_mut(&mut self) -> (&mut Registry, &mut Registry) {
        (&mut self.ours, &mut self.process)
    }

    /// Adds a gauge that is read at each scrape; where there is nothing to read it is left out.
    pub fn observe(
        &mut self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) {
        self.ours.register_collector(Box::new(Observed { name, help, read: Box::new(read) }));
    }

    /// `/metrics`. No metric can be registered any more.
    pub fn into_router(self) -> Router {
        Router::new().route("/metrics", get(scrape)).with_state(Arc::new(self))
    }

    fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut page = String::new();
        text::encode_registry(&mut page, &self.process)?;
        text::encode_registry(&mut page, &self.ours)?;
        text::encode_eof(&mut page)?;
        Ok(page)
    }
}

/// A gauge that is read at each scrape.
struct Observed {
    name: &'static str,
    help: &'static str,
    read: Box<dyn Fn() -> Option<f64> + Send + Sync>,
}

impl std::fmt::Debug for Observed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Observed").field(&self.name).finish()
    }
}

impl Collector for Observed {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let Some(value) = (self.read)() else { return Ok(()) };
        let gauge = ConstGauge::new(value);
        gauge.encode(encoder.encode_descriptor(self.name, self.help, None, gauge.metric_type())?)
    }
}

async fn scrape(State(metrics): State<Arc<Metrics>>) -> Response {
    match metrics.encode() {
        Ok(page) => ([(header::CONTENT_TYPE, OPENMETRICS)], page).into_response(),
        Err(error) => {
            tracing::error!(%error, "a metric could not be written");
            (StatusCode::INTERNAL_SERVER_ERROR, "a metric could not be written; see the log\n")
                .into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use prometheus_client::metrics::counter::Counter;
    use tower::ServiceExt as _;

    #[tokio::test]
    async fn a_scrape_shows_the_build_the_process_and_registered_metrics() {
        let mut metrics = Metrics::new(&BuildInfo { version: "1.2.3", revision: "abc" });
        let reviews: Counter = Counter::default();
        metrics.registry_mut().register("reviews", "Reviews answered", reviews.clone());
        reviews.inc();
        metrics.observe("leads", "Whether we lead", || Some(1.0));
        metrics.observe("absent", "Not there", || None);

        let request = Request::get("/metrics").body(Body::empty()).unwrap();
        let response = metrics.into_router().oneshot(request).await.unwrap();
        assert_eq!(response.headers()[header::CONTENT_TYPE], OPENMETRICS);
        let page = response.into_body().collect().await.unwrap().to_bytes();
        let page = String::from_utf8(page.to_vec()).unwrap();

        for line in [
            r#"podwright_build_info{version="1.2.3",revision="abc"} 1"#,
            "podwright_reviews_total 1",
            "podwright_leads 1.0",
            "# TYPE process_cpu_seconds counter",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is missing in\n{page}");
        }
        for name in [
            "process_resident_memory_bytes",
            "process_open_fds",
            "process_start_time_seconds",
            "process_cpu_seconds_total",
        ] {
            let value = page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
            assert!(value.is_some_and(|value| value >= 0.0), "{name} is missing in\n{page}");
        }
        assert!(page.ends_with("# EOF\n") && !page.contains("podwright_absent"));
    }
}
