//! Puts the parts together: bind, connect, elect, serve; on the way down the other way round.

use std::{pin::pin, sync::Arc, time::Duration};

use anyhow::Context;
use axum::Router;
use podwright_admission::{AdmissionMetrics, AdmissionOptions};
use podwright_api::{
    Feature,
    config::{Config, LogFormat},
};
use podwright_core::mutate::{Architecture, Distribution, Mutator, PeerPods, Pipeline, Sizing};
use podwright_runtime::{
    http::{self, ServeOptions},
    lease::Leadership,
    metrics::{BuildInfo, Metrics},
    probes::Readiness,
    shutdown::Shutdown,
    telemetry,
    tls::policy::TlsPolicy,
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
    let webhook = Webhook::bind(&config).await?;

    // Who serves no webhook need not wait until nobody calls it any more.
    let grace = webhook.as_ref().map_or(Duration::ZERO, |_| config.webhook.shutdown_grace.get());
    let shutdown = Shutdown::on_signals(grace)?;
    let (tasks, mut fault) = Tasks::new(&shutdown);
    let readiness = Readiness::new(shutdown.draining());
    // Gates exist before the probes answer, so that nobody sees us ready too early.
    let wired = readiness.gate("start");
    let loaded = webhook.as_ref().map(|_| readiness.gate("certificate"));
    serve_plain(&tasks, "probes", probe_listener, readiness.router(), &shutdown);

    let client = if cluster::is_needed(&config) {
        Some(cluster::connect(settings.kubeconfig.as_deref()).await?)
    } else {
        None
    };
    let released = CancellationToken::new();
    let leaderships = cluster::elect_all(&config, client.as_ref(), &settings.identity, &released, &tasks)?;
    let certificates = match loaded {
        Some(loaded) => {
            let leadership = leaderships.general.clone();
            Some(Certificates::start(&config, client.as_ref(), leadership, loaded, &tasks).await?)
        }
        None => None,
    };

    let mut metrics = Metrics::new(&BuildInfo { version: env!("CARGO_PKG_VERSION"), revision: REVISION });
    observe(&mut metrics, leaderships.general.clone(), certificates.as_ref());
    let admission_metrics = AdmissionMetrics::register(metrics.registry_mut());
    let control_metrics = ControlMetrics::register(&config, &mut metrics, leaderships.rollout.clone());
    let pages = metrics.into_router().merge(control_metrics.pages());
    serve_plain(&tasks, "metrics", metrics_listener, pages, &shutdown);

    let store = certificates.as_ref().map(|certificates| certificates.store.clone());
    let facts = if let Some(client) = client {
        let control = Control { tasks: &tasks, config: &config, client, leaderships, readiness };
        let facts = control.start(control_metrics)?;
        match certificates {
            Some(certificates) => control.register(certificates),
            None => control.withdraw(),
        }
        facts
    } else {
        tracing::warn!("not connected to a cluster: reviews are answered, nothing is controlled");
        control::no_facts()
    };
    wired.open();

    let serving = async {
        if let (Some(webhook), Some(store)) = (webhook, store) {
            let router = podwright_admission::router(pipeline, facts, options(&config), admission_metrics);
            let server_config = tls.server_config(store)?;
            tracing::info!(address = %webhook.address, features = ?config.features, "serving");
            http::serve_tls(webhook.listener, router, server_config, ServeOptions::default(), &shutdown)
                .await;
        } else {
            tracing::info!(features = ?config.features, "controlling");
            shutdown.stopping().cancelled().await;
        }
        anyhow::Ok(())
    };
    let mut serving = pin!(serving);
    let outcome = tokio::select! {
        served = &mut serving => served,
        Some(fault) = fault.recv() => {
            tracing::error!("{fault:#}; shutting down");
            shutdown.trigger();
            serving.await.and(Err(fault))
        }
    };
    tasks.end(&released).await;
    tracing::info!("stopped");
    outcome
}

/// Where pods are sent to.
struct Webhook {
    address: String,
    listener: TcpListener,
}

impl Webhook {
    /// None if no feature has pods sent to it.
    async fn bind(config: &Config) -> anyhow::Result<Option<Self>> {
        if !config.admits() {
            return Ok(None);
        }
        let address = address(&config.webhook.host, config.webhook.port);
        let listener = http::bind(&address).await?.context("the webhook cannot be switched off")?;
        Ok(Some(Self { address, listener }))
    }
}

fn options(config: &Config) -> AdmissionOptions {
    AdmissionOptions { timeout: config.webhook.timeout.get(), max_in_flight: config.webhook.max_in_flight }
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
            Feature::Architecture => Box::new(Architecture::new(config)),
            Feature::Distribution => Box::new(Distribution::new(&config.distribution)),
            Feature::Sizing => Box::new(Sizing::new(&config.sizing)),
            Feature::PeerPods => Box::new(PeerPods::new(&config.peer_pods).context("configuration")?),
            Feature::Rollout => continue,
        });
    }
    Ok(Pipeline::new(mutators))
}

fn observe(metrics: &mut Metrics, leadership: Leadership, certificates: Option<&Certificates>) {
    let leads = move || Some(f64::from(u8::from(leadership.is_current())));
    metrics.observe("leader", "Whether this replica controls", leads);
    if let Some(certificates) = certificates {
        metrics.registry_mut().register_collector(Box::new(certificates.store.clone()));
    }
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
