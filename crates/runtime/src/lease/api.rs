//! The election against the API server.

use std::future::Future;
use std::time::Duration;

use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::election::{Candidate, Record, Step};
use super::{Claim, LeaseParams};

/// Why a round of the election did not come to its end. It is tried again, so this is only logged.
#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error("the API server did not answer in time")]
    Timeout,
    #[error("{0}; the service account needs get, create and update on leases")]
    Forbidden(String),
    #[error("{0}")]
    Api(#[source] Box<kube::Error>),
}

/// One candidate at work.
pub(super) struct Elector {
    leases: Api<Lease>,
    params: LeaseParams,
    candidate: Candidate,
    /// The object as we read or wrote it last, so that a write keeps what others put there. None if it must be read.
    lease: Option<Lease>,
    claims: watch::Sender<Option<Claim>>,
    /// What was told last: whether we lead, and who holds the lease.
    led: bool,
    holder: Option<String>,
}

impl Elector {
    pub(super) fn new(client: Client, params: LeaseParams, claims: watch::Sender<Option<Claim>>) -> Self {
        let leases = Api::namespaced(client, &params.namespace);
        Self {
            leases,
            candidate: Candidate::new(&params),
            params,
            lease: None,
            claims,
            led: false,
            holder: None,
        }
    }

    pub(super) async fn run(mut self, cancel: CancellationToken) {
        cancel.run_until_cancelled(self.campaign()).await;
        self.candidate.resign();
        self.publish();
        let mut released = self.release().await;
        if let Err(RoundError::Api(_)) = released {
            // A renewal of ours may have been under way and come between.
            released = self.release().await;
        }
        if let Err(error) = released {
            warn!(lease = self.params.name, %error, "the lease was not released; it expires by itself");
        }
    }

    async fn campaign(&mut self) {
        let mut failed = false;
        loop {
            let started = Instant::now();
            match self.round().await {
                Ok(()) => failed = false,
                // Said once when it begins to fail; the loss of the leadership is told on its own.
                Err(error) if failed => {
                    debug!(lease = self.params.name, %error, "still no luck with the lease");
                }
                Err(error) => {
                    warn!(lease = self.params.name, %error, "cannot read or renew the lease; trying on");
                    failed = true;
                }
            }
            self.publish();
            tokio::time::sleep_until(self.next_look(started)).await;
        }
    }

    /// When to look again: at the steady pace, or as soon as somebody else's lease may have expired.
    fn next_look(&self, started: Instant) -> Instant {
        let pace = started + self.params.retry;
        match self.candidate.step(Instant::now()) {
            Step::Wait { until } => until.min(pace),
            Step::Create | Step::Acquire | Step::Renew => pace,
        }
    }

    async fn round(&mut self) -> Result<(), RoundError> {
        // Whoever holds the lease knows it as it wrote it; if that is wrong, the write is refused and it reads again.
        if self.lease.is_none() || !self.candidate.is_holder() {
            self.read().await?;
        }
        let step = self.candidate.step(Instant::now());
        if matches!(step, Step::Wait { .. }) {
            return Ok(());
        }
        let lease = claimed(self.lease.take(), &self.params, Timestamp::now());
        let sent = Instant::now();
        let written = match step {
            Step::Create => self.bounded(self.leases.create(&PostParams::default(), &lease)).await,
            _ => self.bounded(self.leases.replace(&self.params.name, &PostParams::default(), &lease)).await,
        };
        match written {
            Ok(lease) => {
                self.candidate.wrote(version(&lease), sent);
                self.lease = Some(lease);
                Ok(())
            }
            Err(RoundError::Api(error)) if is_lost_race(&step, &error) => {
                debug!(lease = self.params.name, %error, "somebody else was faster");
                self.read().await
            }
            Err(error) => Err(error),
        }
    }

    async fn read(&mut self) -> Result<(), RoundError> {
        let lease = self.bounded(self.leases.get_opt(&self.params.name)).await?;
        self.candidate.observe(lease.as_ref().map(record), Instant::now());
        self.lease = lease;
        Ok(())
    }

    /// Gives the lease back, so that the next leader need not wait. We lead no more when this is called.
    async fn release(&mut self) -> Result<(), RoundError> {
        self.read().await?;
        let Some(lease) = self.lease.take().filter(|_| self.candidate.is_holder()) else {
            return Ok(());
        };
        let lease = released(lease, Timestamp::now());
        self.bounded(self.leases.replace(&self.params.name, &PostParams::default(), &lease)).await?;
        info!(lease = self.params.name, "lease released");
        Ok(())
    }

    async fn bounded<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, RoundError> {
        match tokio::time::timeout(self.params.request_timeout(), request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                Err(RoundError::Forbidden(status.message.clone()))
            }
            Ok(Err(error)) => Err(RoundError::Api(Box::new(error))),
            Err(_) => Err(RoundError::Timeout),
        }
    }

    /// Tells the handles who leads, and the log when that changes. A claim that lapsed is logged here too, later than
    /// it ended, as the handles knew by themselves.
    fn publish(&mut self) {
        let claim = self.candidate.claim().cloned();
        let (lease, identity) = (&self.params.name, &self.params.identity);
        let leads = claim.as_ref().is_some_and(|claim| claim.is_held_by(identity, Instant::now()));
        let holder = claim.as_ref().map(|claim| claim.holder.clone());
        match (self.led, leads) {
            (false, true) => info!(lease, identity, "leading"),
            (true, false) => info!(lease, identity, holder, "leading no more"),
            (false, false) if holder.is_some() && holder != self.holder => {
                info!(lease, holder, "the leader is another");
            }
            _ => {}
        }
        (self.led, self.holder) = (leads, holder);
        self.claims.send_replace(claim);
    }
}

/// Somebody else created, changed or removed the lease between our look and our write.
fn is_lost_race(step: &Step, error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    // Nothing to create a lease in is not a race but a namespace that is missing.
    status.code == 409 || (status.code == 404 && *step != Step::Create)
}

fn version(lease: &Lease) -> String {
    lease.metadata.resource_version.clone().unwrap_or_default()
}

pub(super) fn record(lease: &Lease) -> Record {
    let spec = lease.spec.as_ref();
    let seconds =
        spec.and_then(|spec| spec.lease_duration_seconds).and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        holder: spec.and_then(|spec| spec.holder_identity.clone()).filter(|holder| !holder.is_empty()),
        duration: seconds.map(Duration::from_secs),
        version: version(lease),
    }
}

/// The lease as ours from now on; the times in it are for people to read, and for nobody to reckon with.
fn claimed(lease: Option<Lease>, params: &LeaseParams, now: Timestamp) -> Lease {
    let mut lease = lease.unwrap_or_else(|| Lease {
        metadata: ObjectMeta { name: Some(params.name.clone()), ..Default::default() },
        spec: None,
    });
    let former = lease.spec.take().unwrap_or_default();
    let is_renewal = former.holder_identity.as_deref() == Some(&*params.identity);
    let renewed = after(former.renew_time.as_ref(), now);
    let moves = i32::from(!is_renewal);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(params.identity.clone()),
        lease_duration_seconds: i32::try_from(params.duration.as_secs()).ok(),
        acquire_time: former.acquire_time.filter(|_| is_renewal).or_else(|| Some(renewed.clone())),
        renew_time: Some(renewed),
        lease_transitions: Some(former.lease_transitions.map_or(0, |count| count.saturating_add(moves))),
        ..former
    });
    lease
}

fn released(mut lease: Lease, now: Timestamp) -> Lease {
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = None;
    spec.renew_time = Some(after(spec.renew_time.as_ref(), now));
    lease
}

/// Now, but never the same as before, whatever the clock does: a write that changes nothing gives no new version, and
/// others would take us for dead.
fn after(former: Option<&MicroTime>, now: Timestamp) -> MicroTime {
    let next = former.and_then(|former| former.0.checked_add(1.microsecond()).ok());
    MicroTime(next.map_or(now, |next| next.max(now)))
}
