//! The Secret kept as planned, and what is in it put into use.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::{Change, Material, MintError, Params, ParamsError, Step, mint, plan};
use crate::lease::Leadership;
use crate::tls::store::CertStore;

/// How long at most until the next look: a wall clock may be set, which no timer notices.
const LOOK: Duration = Duration::from_secs(30);

/// How long to wait after a write that failed, or one whose effect has not come back to us.
const RETRY: Duration = Duration::from_secs(2);

/// How long a write may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Certificates that manage themselves, and everything that takes part in it.
#[derive(Clone)]
pub struct Managed {
    /// Access to the Secret: get, list, watch and update of this one name, and create where it may be missing.
    pub client: Client,
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub secret: String,
    /// What is wanted of the certificates.
    pub params: Params,
    /// Only the leader writes.
    pub leadership: Leadership,
    /// The bundle that is confirmed to be where clients look for it.
    pub published: watch::Receiver<Option<String>>,
    /// Where the serving pair goes.
    pub store: Arc<CertStore>,
    /// Where the bundle goes that clients should trust.
    pub bundle: watch::Sender<Option<String>>,
}

/// Why the certificates are not managed any more.
#[derive(Debug, thiserror::Error)]
pub enum ManagedError {
    /// The parameters cannot work.
    #[error("the certificates cannot be managed: {0}")]
    Params(#[from] ParamsError),
    /// The watch is over, which it never should be.
    #[error("the watch of Secret {0} ended by itself")]
    WatchEnded(String),
}

/// Why a change was not made. It is tried again, so this is only logged.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Mint(#[from] MintError),
    #[error(
        "{message}: it does not exist, and we may not create it; apply the manifests, which bring it along empty"
    )]
    MayNotCreate { message: String },
    #[error("{0}")]
    Api(#[source] Box<kube::Error>),
    #[error("the API server did not answer in time")]
    Timeout,
}

/// The Secret as the watch told it last.
enum Seen {
    Unknown,
    Missing,
    There(Box<Secret>),
}

impl Seen {
    fn secret(&self) -> Option<&Secret> {
        match self {
            Self::There(secret) => Some(secret),
            Self::Unknown | Self::Missing => None,
        }
    }

    /// What tells this state from the one after a write; empty while there is no Secret.
    fn version(&self) -> String {
        let version = self.secret().and_then(|secret| secret.metadata.resource_version.clone());
        version.unwrap_or_default()
    }
}

impl Managed {
    /// Follows the Secret, and while we lead keeps it up to date, until cancelled.
    pub async fn run(self, cancel: CancellationToken) -> Result<(), ManagedError> {
        self.params.check()?;
        let secrets = Api::namespaced(self.client.clone(), &self.namespace);
        let seen = watcher::watch_object(secrets.clone(), &self.secret).default_backoff();
        let keeper = Keeper { managed: self, secrets, seen: Seen::Unknown, wrote_over: None, failure: None };
        let keeping = Box::pin(keeper.run(seen));
        cancel.run_until_cancelled(keeping).await.unwrap_or(Ok(()))
    }
}

struct Keeper {
    managed: Managed,
    secrets: Api<Secret>,
    seen: Seen,
    /// The version that our last write replaced: until another is seen, what we see is old.
    wrote_over: Option<String>,
    /// A write that failed: what was said about it, and until when it is not tried again.
    failure: Option<(String, Instant)>,
}

impl Keeper {
    async fn run(
        mut self,
        seen: impl Stream<Item = watcher::Result<Option<Secret>>>,
    ) -> Result<(), ManagedError> {
        let mut seen = pin!(seen);
        let mut leadership = self.managed.leadership.clone();
        let mut published = self.managed.published.clone();
        let mut look = Instant::now() + LOOK;
        let mut is_failing = false;
        loop {
            tokio::select! {
                event = seen.next() => match event {
                    Some(Ok(secret)) => {
                        is_failing = false;
                        self.seen = secret.map_or(Seen::Missing, |secret| Seen::There(Box::new(secret)));
                        self.adopt();
                    }
                    Some(Err(error)) => {
                        self.report(&error, is_failing);
                        is_failing = true;
                    }
                    None => return Err(ManagedError::WatchEnded(self.name())),
                },
                _ = leadership.changed() => {}
                () = news(&mut published) => {}
                () = tokio::time::sleep_until(look) => self.wrote_over = None,
            }
            look = Instant::now() + self.keep().await.min(LOOK);
        }
    }

    /// Puts into use what is in the Secret.
    fn adopt(&self) {
        let material = Material::read(self.seen.secret());
        for fault in &material.faults {
            warn!(
                secret = self.name(),
                fault, "the certificates are damaged; they will be made anew by the leader"
            );
        }
        adopt(&material, &self.managed.store, &self.managed.bundle, &self.name());
    }

    /// Does what is due, if we lead; tells when to look again.
    async fn keep(&mut self) -> Duration {
        if matches!(self.seen, Seen::Unknown) || !self.managed.leadership.is_current() {
            return LOOK;
        }
        if self.wrote_over.as_ref().is_some_and(|version| *version == self.seen.version()) {
            return RETRY;
        }
        if let Some((_, until)) = self.failure.as_ref().filter(|(_, until)| *until > Instant::now()) {
            return until.duration_since(Instant::now());
        }
        let (observed, now) = (Material::read(self.seen.secret()), Timestamp::now());
        let published = self.managed.published.borrow().clone();
        let change = match plan(&observed, now, &self.managed.params, published.as_deref()) {
            Step::Wait { until } => return Duration::try_from(until.duration_since(now)).unwrap_or(LOOK),
            Step::Change(change) => change,
        };
        match self.write(&change, &observed, now).await {
            Ok(()) => {
                self.announce(&change);
                self.failure = None;
                self.wrote_over = Some(self.seen.version());
            }
            Err(WriteError::Api(error)) if matches!(&*error, kube::Error::Api(status) if status.code == 409) =>
            {
                debug!(secret = self.name(), %error, "the Secret changed meanwhile; looking again");
            }
            Err(error) => self.fail(&change, error.to_string()),
        }
        RETRY
    }

    /// Says what went wrong, once for as long as it goes wrong in the same way, and leaves some time to the next try.
    fn fail(&mut self, change: &Change, error: String) {
        let is_known = self.failure.as_ref().is_some_and(|(known, _)| *known == error);
        if is_known {
            debug!(secret = self.name(), ?change, error, "the certificates still cannot be written");
        } else {
            error!(secret = self.name(), ?change, error, "the certificates cannot be written; trying on");
        }
        self.failure = Some((error, Instant::now() + RETRY));
    }

    async fn write(&self, change: &Change, observed: &Material, now: Timestamp) -> Result<(), WriteError> {
        let material = mint(change, observed, now, &self.managed.params)?;
        let write = async {
            let (name, post) = (&self.managed.secret, PostParams::default());
            if let Some(secret) = self.seen.secret() {
                let mut secret = secret.clone();
                material.write(&mut secret);
                return self.secrets.replace(name, &post, &secret).await;
            }
            let metadata = ObjectMeta { name: Some(name.clone()), ..Default::default() };
            let mut secret = Secret { metadata, type_: Some("Opaque".to_owned()), ..Default::default() };
            material.write(&mut secret);
            self.secrets.create(&post, &secret).await
        };
        let written = tokio::time::timeout(WRITE_TIMEOUT, write).await.map_err(|_| WriteError::Timeout)?;
        match written {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 403 && self.seen.secret().is_none() => {
                Err(WriteError::MayNotCreate { message: status.message.clone() })
            }
            Err(error) => Err(WriteError::Api(Box::new(error))),
        }
    }

    fn announce(&self, change: &Change) {
        let secret = self.name();
        match change {
            Change::Found { fault: None } => info!(secret, "made a CA and a serving certificate"),
            Change::Found { fault: Some(fault) } => {
                warn!(secret, fault, "made a new CA and serving certificate");
            }
            Change::Issue { reason } => info!(secret, reason, "issued a serving certificate"),
            Change::Prepare { reason } => info!(secret, reason, "made the next CA"),
            Change::Confirm => info!(secret, "the next CA is published"),
            Change::Promote => info!(secret, "the next CA has taken over"),
            Change::Date => info!(secret, "noted when the CA took over"),
            Change::Retire => info!(secret, "the former CA has left the bundle"),
        }
    }

    fn report(&self, error: &watcher::Error, is_failing: bool) {
        if is_failing {
            debug!(secret = self.name(), %error, "still cannot watch the Secret");
        } else {
            warn!(
                secret = self.name(),
                %error,
                "cannot watch the Secret; trying on (the service account needs get, list and watch on it)"
            );
        }
    }

    fn name(&self) -> String {
        format!("{}/{}", self.managed.namespace, self.managed.secret)
    }
}

/// Installs the serving pair and then tells the bundle; what cannot be used leaves the former in use. While there is no pair at all
/// nobody is told whom to trust either: whoever hears of a bundle may call us at once.
pub(super) fn adopt(
    material: &Material,
    store: &CertStore,
    bundle: &watch::Sender<Option<String>>,
    secret: &str,
) {
    if let Some(serving) = &material.serving {
        let fingerprint = serving.certificate().fingerprint();
        if store.current().is_none_or(|current| current.fingerprint != fingerprint) {
            match store.install(serving.certificate().pem().as_bytes(), serving.key().as_bytes()) {
                Ok(pair) => {
                    info!(secret, not_after = %pair.not_after, fingerprint, "certificate installed");
                }
                Err(error) => error!(secret, %error, "certificate not installed"),
            }
        }
    }
    if store.is_loaded() && !material.trusted.is_empty() {
        let text = material.bundle();
        bundle.send_if_modified(|bundle| {
            let is_new = bundle.as_deref() != Some(&*text);
            *bundle = Some(text);
            is_new
        });
    }
}

/// Waits for something newly published; for ever if nobody can publish any more.
async fn news(published: &mut watch::Receiver<Option<String>>) {
    if published.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
