//! Fills in our MutatingWebhookConfiguration, once we serve, and keeps it right.
//!
//! The object itself comes with the manifests, as a shell without webhooks: installing us registers nothing, removing the
//! manifests removes the registration, and we need no right to create or delete webhook configurations.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use podwright_api::config::{Config, TlsMode};
use podwright_core::registration;
use podwright_runtime::{lease::Leadership, probes::Readiness};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The field manager of what we write into the configuration.
const FIELD_MANAGER: &str = "podwright";
/// How often to ask whether we are ready to serve, while we are not.
const READINESS_POLL: Duration = Duration::from_millis(100);
/// How long to wait after a failed write.
const RETRY: Duration = Duration::from_secs(2);

/// What the controller works with.
pub struct Registration {
    /// The API server.
    pub client: Client,
    /// What to register.
    pub config: Arc<Config>,
    /// Whether this replica may write.
    pub leadership: Leadership,
    /// Whether this replica serves.
    pub readiness: Readiness,
    /// The CAs to trust, as PEM. Self-managed certificates: none until the first is made.
    pub ca: watch::Receiver<Option<String>>,
    /// Told the bundle that is in force, so that no certificate is served before its CA is known.
    pub published: watch::Sender<Option<String>>,
}

impl Registration {
    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let name = self.config.webhook.configuration.clone();
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let only_ours = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = watcher(api.clone(), only_ours).default_backoff().boxed();
        let mut observed: Option<MutatingWebhookConfiguration> = None;
        let mut leadership = self.leadership.clone();
        let mut retry_after = None;
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                event = events.try_next() => match event {
                    Ok(Some(watcher::Event::Apply(object) | watcher::Event::InitApply(object))) => {
                        self.published.send_replace(bundle_of(&object));
                        observed = Some(object);
                    }
                    Ok(Some(watcher::Event::Delete(_))) => {
                        tracing::warn!(%name, "the MutatingWebhookConfiguration is gone; apply the manifests to bring it back");
                        self.published.send_replace(None);
                        observed = None;
                    }
                    // What was deleted while the watch was down is not told: all that is there comes again.
                    Ok(Some(watcher::Event::Init)) => observed = None,
                    Ok(Some(watcher::Event::InitDone)) if observed.is_none() => {
                        self.published.send_replace(None);
                        tracing::error!(%name, "there is no such MutatingWebhookConfiguration, so nothing is registered: apply deploy/base/webhook.yaml");
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => return,
                    Err(error) => tracing::warn!(%name, %error, "failed to watch the MutatingWebhookConfiguration"),
                },
                changed = self.ca.changed() => if changed.is_err() { return },
                _ = leadership.changed() => {}
                () = tokio::time::sleep(READINESS_POLL), if !self.serves() => {}
                () = tokio::time::sleep(retry_after.unwrap_or(RETRY)), if retry_after.is_some() => {}
            }
            retry_after = match self.reconcile(&api, observed.as_ref()).await {
                Ok(()) => None,
                Err(error) => {
                    tracing::warn!(%name, %error, "failed to write the MutatingWebhookConfiguration");
                    Some(RETRY)
                }
            };
        }
    }

    fn serves(&self) -> bool {
        self.readiness.unmet().is_empty()
    }

    async fn reconcile(
        &self,
        api: &Api<MutatingWebhookConfiguration>,
        observed: Option<&MutatingWebhookConfiguration>,
    ) -> Result<(), kube::Error> {
        let Some(observed) = observed else { return Ok(()) };
        let ca = self.ca.borrow().clone();
        let ca_is_due = self.config.tls.mode == TlsMode::SelfManaged && ca.is_none();
        if ca_is_due || !self.serves() || !self.leadership.is_current() {
            return Ok(());
        }
        let desired = registration::desired(&self.config, ca.as_deref());
        let actual = serde_json::to_value(observed).map_err(kube::Error::SerdeError)?;
        let is_right = |part: &str| registration::covers(&actual[part], &desired[part]);
        if is_right("metadata") && is_right("webhooks") {
            return Ok(());
        }
        let name = &self.config.webhook.configuration;
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = api.patch(name, &params, &Patch::Apply(&desired)).await?;
        tracing::info!(%name, webhooks = written.webhooks.map_or(0, |all| all.len()), "registered");
        Ok(())
    }
}

/// The bundle of the first webhook: we write the same one into each.
fn bundle_of(object: &MutatingWebhookConfiguration) -> Option<String> {
    let first = object.webhooks.iter().flatten().next()?;
    String::from_utf8(first.client_config.ca_bundle.clone()?.0).ok()
}
