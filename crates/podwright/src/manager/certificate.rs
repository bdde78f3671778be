//! Where the serving certificate comes from.

use std::{net::IpAddr, sync::Arc};

use anyhow::Context;
use kube::Client;
use podwright_api::config::{Config, TlsMode};
use podwright_runtime::{
    lease::Leadership,
    probes::Gate,
    tls::{
        directory::Directory,
        managed::{Managed, Params},
        store::CertStore,
    },
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::tasks::Tasks;
use crate::certs::service_names;

/// What the rest needs to know of the certificates.
pub(super) struct Certificates {
    pub(super) store: Arc<CertStore>,
    /// The CAs that clients should trust, as PEM.
    pub(super) ca: watch::Receiver<Option<String>>,
    /// To be told the bundle that is in force.
    pub(super) published: watch::Sender<Option<String>>,
}

impl Certificates {
    /// Starts whatever keeps the certificate fresh. `loaded` opens once there is one.
    pub(super) async fn start(
        config: &Config,
        client: Option<&Client>,
        leadership: Leadership,
        loaded: Gate,
        tasks: &Tasks,
    ) -> anyhow::Result<Self> {
        let store = Arc::new(CertStore::new());
        let (bundle, ca) = watch::channel(None);
        let (published, confirmed) = watch::channel(None);
        match config.tls.mode {
            TlsMode::Directory | TlsMode::CertManager => {
                let directory = Directory::open(&config.tls.directory, store.clone(), bundle).await?;
                loaded.open();
                tasks.spawn("certificate directory", |cancel| async move {
                    directory.watch(Directory::INTERVAL, cancel).await;
                    Ok(())
                });
            }
            TlsMode::SelfManaged => {
                let managed = Managed {
                    client: client.context("self-managed certificates need a cluster")?.clone(),
                    namespace: config.home().to_owned(),
                    secret: config.tls.secret.clone(),
                    params: params(config),
                    leadership,
                    published: confirmed,
                    store: store.clone(),
                    bundle,
                };
                managed.params.check().context("configuration, tls")?;
                tasks.spawn("certificates", |cancel| async move { Ok(managed.run(cancel).await?) });
                let mut first = ca.clone();
                tasks.spawn("certificate readiness", |cancel: CancellationToken| async move {
                    let made = async { first.wait_for(Option::is_some).await.is_ok() };
                    if cancel.run_until_cancelled(made).await == Some(true) {
                        loaded.open();
                        cancel.cancelled().await;
                    }
                    Ok(())
                });
            }
        }
        Ok(Self { store, ca, published })
    }
}

/// For every name by which the API server may call us.
fn params(config: &Config) -> Params {
    let mut names = service_names(&config.webhook.service, config.home());
    let mut ips: Vec<IpAddr> = Vec::new();
    if let Some(host) = config.webhook.url.as_deref().and_then(host) {
        match host.parse() {
            Ok(ip) => ips.push(ip),
            Err(_) => names.push(host.to_owned()),
        }
    }
    Params {
        dns_names: names,
        ips,
        ca_lifetime: config.tls.ca_lifetime.get(),
        serving_lifetime: config.tls.serving_lifetime.get(),
        propagation: config.tls.propagation.get(),
    }
}

/// The host of an `https://` address.
fn host(url: &str) -> Option<&str> {
    let authority = url.strip_prefix("https://")?.split('/').next()?;
    match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next(),
        None => authority.split(':').next(),
    }
    .filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_is_for_the_service_and_for_the_address() {
        let names = |yaml: &str| {
            let params = params(&Config::read(yaml).unwrap());
            (params.dns_names, params.ips)
        };
        let (dns, ips) = names("namespace: home");
        assert_eq!(
            dns,
            [
                "podwright-webhook.home",
                "podwright-webhook.home.svc",
                "podwright-webhook.home.svc.cluster.local"
            ]
        );
        assert!(ips.is_empty());
        assert_eq!(names("webhook: {url: 'https://127.0.0.1:9443/x'}").1, [IpAddr::from([127, 0, 0, 1])]);
        assert_eq!(names("webhook: {url: 'https://[::1]:9443'}").1, ["::1".parse::<IpAddr>().unwrap()]);
        assert_eq!(names("webhook: {url: 'https://hooks.example.com'}").0[3], "hooks.example.com");
    }
}
