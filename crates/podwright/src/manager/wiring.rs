//! Puts the parts together: bind, connect, elect, serve; on the way down the other way round.

use std::{pin::pin, sync::Arc};

use anyhow::Context;
use axum::Router;
use podwright_admission::{AdmissionMetrics, AdmissionOptions};
use podwright_api::{
    Feature,
    config::{Config, LogFormat},
};
use podwright_core::mutate::{Distribution, Mutator, PeerPods, Pipeline, Sizing};
use podwright_runtime::{
    http::{self, ServeOptions},
    lease::Leadership,
    metrics::{BuildInfo, Metrics},
    probes::Readiness,
    shutdown::Shutdown,
    telemetry,
    tls::{policy::TlsPolicy, store::CertStore},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    arguments::Settings,
    certificate::Certificates,
    cluster,
    control::{self, Control, ControlMetrics},
    tasks::Tasks,
};
use crate::REVISION;

pub(super) async fn run(settings: Settings) -> anyhow::Result<()> {
    let config = Arc::new(settings.config);
    telemetry::init(log_format(&config), &config.logging.level)?;
    for remark in &settings.remarks {
        tracing::warn!("{remark}");
    }
    let tls = TlsPolicy::parse(&config.tls.min_version, &config.tls.cipher_suites)?;
    let pipeline = pipeline(&config)?;

    // Bound before anything says that we are ready.
    let metrics_listener = http::bind(&settings.metrics_address).await?;
    let probe_listener = http::bind(&settings.probe_address).await?;
    let address = address(&config.webhook.host, config.webhook.port);
    let listener = http::bind(&address).await?.context("the webhook cannot be switched off")?;

    let shutdown = Shutdown::on_signals(config.webhook.shutdown_grace.get())?;
    let (tasks, mut fault) = Tasks::new(&shutdown);
    let readiness = Readiness::new(shutdown.draining());
    // Gates exist before the probes answer, so that nobody sees us ready too early.
    let (loaded, wired) = (readiness.gate("certificate"), readiness.gate("start"));
    serve_plain(&tasks, "probes", probe_listener, readiness.router(), &shutdown);

    let client = if cluster::is_needed(&config) {
        Some(cluster::connect(settings.kubeconfig.as_deref()).await?)
    } else {
        None
    };
    let released = CancellationToken::new();
    let leadership = cluster::elect(&config, client.as_ref(), settings.identity, released.clone(), &tasks)?;
    let certificates =
        Certificates::start(&config, client.as_ref(), leadership.clone(), loaded, &tasks).await?;

    let mut metrics = Metrics::new(&BuildInfo { version: env!("CARGO_PKG_VERSION"), revision: REVISION });
    observe(&mut metrics, leadership.clone(), certificates.store.clone());
    let admission_metrics = AdmissionMetrics::register(metrics.registry_mut());
    let control_metrics = ControlMetrics::register(metrics.registry_mut());
    serve_plain(&tasks, "metrics", metrics_listener, metrics.into_router(), &shutdown);

    let server_config = tls.server_config(certificates.store.clone())?;
    let facts = if let Some(client) = client {
        let control = Control { tasks: &tasks, config: &config, client, leadership, readiness };
        let facts = control.start(control_metrics)?;
        control.register(certificates);
        facts
    } else {
        tracing::warn!("not connected to a cluster: reviews are answered, nothing is controlled");
        control::no_facts()
    };
    wired.open();

    let options = AdmissionOptions {
        timeout: config.webhook.timeout.get(),
        max_in_flight: config.webhook.max_in_flight,
    };
    let router = podwright_admission::router(pipeline, facts, options, admission_metrics);
    tracing::info!(%address, features = ?config.features, "serving");
    let mut serving =
        pin!(http::serve_tls(listener, router, server_config, ServeOptions::default(), &shutdown));
    let outcome = tokio::select! {
        () = &mut serving => Ok(()),
        Some(fault) = fault.recv() => {
            tracing::error!("{fault:#}; shutting down");
            shutdown.trigger();
            serving.await;
            Err(fault)
        }
    };
    tasks.end(&released).await;
    tracing::info!("stopped");
    outcome
}

fn log_format(config: &Config) -> telemetry::LogFormat {
    match config.logging.format {
        LogFormat::Text => telemetry::LogFormat::Text,
        LogFormat::Json => telemetry::LogFormat::Json,
    }
}

fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The mutators of the features that are switched on.
fn pipeline(config: &Config) -> anyhow::Result<Pipeline> {
    let mut mutators: Vec<Box<dyn Mutator>> = Vec::new();
    for feature in &config.features {
        mutators.push(match feature {
            Feature::Distribution => Box::new(Distribution::new(&config.distribution)),
            Feature::Sizing => Box::new(Sizing::new(&config.sizing)),
            Feature::PeerPods => Box::new(PeerPods::new(&config.peer_pods).context("configuration")?),
        });
    }
    Ok(Pipeline::new(mutators))
}

fn observe(metrics: &mut Metrics, leadership: Leadership, store: Arc<CertStore>) {
    let leads = move || Some(f64::from(u8::from(leadership.is_current())));
    metrics.observe("leader", "Whether this replica controls", leads);
    metrics.registry_mut().register_collector(Box::new(store));
}

fn serve_plain(
    tasks: &Tasks,
    name: &'static str,
    listener: Option<TcpListener>,
    router: Router,
    shutdown: &Shutdown,
) {
    if let Some(listener) = listener {
        let shutdown = shutdown.clone();
        tasks.spawn(name, |_| async move {
            http::serve_plain(listener, router, &shutdown).await;
            Ok(())
        });
    }
}
