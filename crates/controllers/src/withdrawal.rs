//! Empties our MutatingWebhookConfiguration if no feature has a webhook any more: what an earlier configuration of ours registered
//! would have the API server call somebody who does not answer.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use podwright_api::config::Config;
use podwright_core::registration;
use podwright_runtime::lease::{Leadership, Onlooker};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// How long to wait after a failed request.
const RETRY: Duration = Duration::from_secs(5);

/// What the controller works with.
pub struct Withdrawal {
    /// The API server.
    pub client: Client,
    /// What was registered, and by whom.
    pub config: Arc<Config>,
    /// Whether this replica may write.
    pub leadership: Leadership,
    /// The election of those who register, unless it is our own. A replica of the former configuration may still be alive, or one
    /// of another Deployment: it serves, and would only put the registration right again.
    pub registrars: Option<Onlooker>,
}

/// What a look comes to.
enum Outcome {
    /// There is nothing to do any more.
    Done,
    /// It is not time yet.
    Later,
}

impl Withdrawal {
    /// Runs until cancelled, and does nothing more once nothing is registered that calls us.
    pub async fn run(mut self, cancel: CancellationToken) {
        self.withdraw(&cancel).await;
        cancel.cancelled().await;
    }

    async fn withdraw(&mut self, cancel: &CancellationToken) {
        let name = self.config.webhook.configuration.clone();
        loop {
            let pause = match self.look(&name).await {
                Ok(Outcome::Done) => return,
                Ok(Outcome::Later) => self.config.leader_election.retry_period.get(),
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    // Whoever only rolls out may be given less.
                    tracing::info!(%name, error = status.message, "may not look whether webhooks are still registered");
                    return;
                }
                Err(error) => {
                    tracing::warn!(%name, %error, "failed to withdraw the registration");
                    RETRY
                }
            };
            if cancel.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    async fn look(&mut self, name: &str) -> Result<Outcome, kube::Error> {
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let Some(found) = api.get_opt(name).await? else { return Ok(Outcome::Done) };
        if found.webhooks.iter().flatten().next().is_none() {
            return Ok(Outcome::Done);
        }
        let webhooks = serde_json::to_value(&found.webhooks).map_err(kube::Error::SerdeError)?;
        if !registration::calls_us(&self.config, &webhooks) {
            tracing::warn!(%name, "webhooks are registered that call somebody else; they are left alone");
            return Ok(Outcome::Done);
        }
        let abandoned = match &mut self.registrars {
            Some(registrars) => registrars.is_abandoned().await?,
            None => true,
        };
        if !abandoned || !self.leadership.is_current() {
            return Ok(Outcome::Later);
        }
        // All of it, whoever else has written a field of it. Only what was looked at: another version is a conflict.
        let version = found.metadata.resource_version;
        let empty = json!({"metadata": {"resourceVersion": version}, "webhooks": []});
        api.patch(name, &PatchParams::default(), &Patch::Merge(empty)).await?;
        tracing::info!(%name, "no feature has a webhook: what was registered is withdrawn");
        Ok(Outcome::Done)
    }
}
