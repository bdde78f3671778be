//! What images are built for: registries, asked with the pull secrets of pods.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use podwright_api::config::{ArchitectureConfig, Config};
use podwright_controllers::architecture::{Images, PullSecrets};
use podwright_core::mutate::{ImageFact, ImageLookup};
use podwright_registry::{
    DockerConfig, HostSettings, Keychain, LookupResult, Observer as _, Registry, Settings,
};

use super::registry_metrics::RegistryMetrics;

/// Registries as admission and the controllers ask them.
pub(super) struct RegistryImages {
    registry: Registry,
    secrets: PullSecrets<DockerConfig>,
    use_pull_secrets: bool,
    /// Namespace and name of the Secret with our own docker config.
    own: Option<(String, String)>,
    metrics: Arc<RegistryMetrics>,
}

impl RegistryImages {
    pub(super) fn new(config: &Config, client: Client, metrics: RegistryMetrics) -> anyhow::Result<Self> {
        let ours = &config.architecture;
        let metrics = Arc::new(metrics);
        let name = Some(&ours.docker_config_secret_name).filter(|name| !name.is_empty());
        Ok(Self {
            registry: Registry::new(settings(ours)?, metrics.clone()).context("architecture.registries")?,
            secrets: PullSecrets::new(client, docker_config),
            use_pull_secrets: ours.use_pull_secrets,
            own: name.map(|name| (config.home().to_owned(), name.clone())),
            metrics,
        })
    }

    async fn look_up(&self, lookup: &ImageLookup, patience: Duration) -> ImageFact {
        let begun = Instant::now();
        let ImageLookup { reference, policy, .. } = lookup;
        let (base, mut complaints) = self.own().await;
        // What everybody may know needs no Secret of the pod.
        if let Some(known) = self.registry.peek(reference, *policy, &base) {
            self.metrics.lookup(LookupResult::Hit, begun.elapsed());
            return ImageFact::Offers(known);
        }
        let keychain = if self.use_pull_secrets {
            let found = self.secrets.of(lookup).await;
            complaints.extend(found.complaints);
            Keychain::new(found.secrets).or(&base)
        } else {
            base
        };
        match self.registry.platforms(reference, *policy, &keychain, begun + patience).await {
            Ok(platforms) => ImageFact::Offers(platforms),
            Err(error) => {
                let all: Vec<String> = std::iter::once(error.to_string()).chain(complaints).collect();
                ImageFact::Unknown(all.join("; "))
            }
        }
    }

    /// Our own credentials, which count for every pod.
    async fn own(&self) -> (Keychain, Vec<String>) {
        let Some((namespace, name)) = &self.own else { return (Keychain::default(), Vec::new()) };
        match self.secrets.secret(namespace, name).await {
            Ok(Some(config)) => (Keychain::new([config]), Vec::new()),
            Ok(None) => {
                let missing =
                    format!("there is no Secret {namespace}/{name} (architecture.dockerConfigSecretName)");
                (Keychain::default(), vec![missing])
            }
            Err(complaint) => (Keychain::default(), vec![complaint]),
        }
    }
}

impl Images for RegistryImages {
    fn find<'a>(
        &'a self,
        lookup: &'a ImageLookup,
        patience: Duration,
    ) -> Pin<Box<dyn Future<Output = ImageFact> + Send + 'a>> {
        Box::pin(async move {
            let late = || {
                ImageFact::Unknown(format!(
                    "{}: no answer within {} ms",
                    lookup.reference,
                    patience.as_millis()
                ))
            };
            // The registry keeps to the time itself; this is for the API server, which is asked for Secrets.
            let allowed = patience + Duration::from_millis(50);
            tokio::time::timeout(allowed, self.look_up(lookup, patience)).await.unwrap_or_else(|_| late())
        })
    }
}

fn settings(config: &ArchitectureConfig) -> anyhow::Result<Settings> {
    let mut settings = Settings {
        if_not_present: config.if_not_present_cache_time.get(),
        always: config.pull_always_cache_time.map(podwright_api::LongDuration::get),
        ..Settings::default()
    };
    for (host, registry) in &config.registries {
        let mirrors = registry.mirrors.iter().map(|mirror| mirror.parse()).collect::<Result<_, _>>();
        let ca = registry.ca.as_ref().map(|ca| ca.clone().into_bytes());
        let mirrors = mirrors.with_context(|| format!("architecture.registries.{host}.mirrors"))?;
        settings.hosts.insert(host.clone(), HostSettings { mirrors, insecure: registry.insecure, ca });
    }
    Ok(settings)
}

/// Both kinds of Secret that hold a docker config.
fn docker_config(secret: &Secret) -> Result<DockerConfig, String> {
    let data = |key: &str| secret.data.as_ref().and_then(|data| data.get(key));
    let read = if let Some(config) = data(".dockerconfigjson") {
        DockerConfig::from_dockerconfigjson(&config.0)
    } else if let Some(config) = data(".dockercfg") {
        DockerConfig::from_dockercfg(&config.0)
    } else {
        return Err("it has neither .dockerconfigjson nor .dockercfg".to_owned());
    };
    read.map_err(|error| error.to_string())
}
