//! Leader election on a `coordination.k8s.io/v1` Lease, where leadership is a claim that expires.
//!
//! ```text
//! Lease (API server) ─▶ observe ─▶ election::step (pure) ─▶ create / replace with resourceVersion ─▶ Claim ─▶ Leadership
//! ```
//!
//! Two rules keep two replicas from leading at once, also when the API server is out of reach or clocks disagree:
//!
//! - our own claim counts from *before* the request that renewed it was sent, and lasts `renew_deadline`;
//! - somebody else's lease is free once *we* have seen it unchanged for its whole duration, by our own clock.
//!
//! As `renew_deadline` is shorter than the duration, the old claim is over before the new one can begin; what lies
//! between covers writes that are under way and clocks that run at different speeds.

mod api;
mod claim;
mod election;
mod onlooker;

use std::time::Duration;

use kube::Client;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use claim::{Claim, Leadership};
pub use election::{LeaseView, Step, step};
pub use onlooker::Onlooker;

/// Which lease, for whom, and its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseParams {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// Who we are. No two processes may ever share it: a pod's name and a random part will do.
    pub identity: String,
    /// How long others wait, after the last sign of life, before they take over. Whole seconds.
    pub duration: Duration,
    /// How long our claim lasts after a renewal was sent. Shorter than `duration`.
    pub renew_deadline: Duration,
    /// How often to renew, or to look whether the lease has become free. Shorter than `renew_deadline`.
    pub retry: Duration,
}

impl LeaseParams {
    /// With the times that Kubernetes components use: 15 s, 10 s and 2 s.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }

    fn check(&self) -> Result<(), LeaseError> {
        let refuse = |reason| Err(LeaseError { reason });
        if self.identity.is_empty() {
            return refuse("the identity is empty");
        }
        if self.duration.is_zero()
            || self.duration.subsec_nanos() != 0
            || i32::try_from(self.duration.as_secs()).is_err()
        {
            return refuse("the duration must be whole seconds, at least one");
        }
        if self.renew_deadline >= self.duration {
            return refuse("the renew deadline must be shorter than the duration");
        }
        if self.retry.is_zero() || self.retry >= self.renew_deadline {
            return refuse("the retry period must be shorter than the renew deadline, and more than nothing");
        }
        Ok(())
    }

    /// How long one request may take: a second one must fit in before the claim expires.
    fn request_timeout(&self) -> Duration {
        self.renew_deadline / 2
    }
}

/// The parameters make no sense together.
#[derive(Debug, thiserror::Error)]
#[error("cannot take part in the leader election: {reason}; change the times of the lease")]
pub struct LeaseError {
    reason: &'static str,
}

/// Takes part in the election, in a task of its own, until cancelled; then the lease is released if it is held.
///
/// Cancel only when nothing acts on the leadership any more: the next leader may begin at once. If the task ends
/// without that, something is wrong, and the process should end too. Must be called inside a tokio runtime.
pub fn run(
    client: Client,
    params: LeaseParams,
    cancel: CancellationToken,
) -> Result<(Leadership, JoinHandle<()>), LeaseError> {
    params.check()?;
    let (claims, leadership) = claim::channel(&params.identity);
    let task = tokio::spawn(api::Elector::new(client, params, claims).run(cancel));
    Ok((leadership, task))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> LeaseParams {
        LeaseParams::new("default", "lease", "me")
    }

    #[test]
    fn times_that_could_give_two_leaders_are_refused() {
        assert!(params().check().is_ok());
        for wrong in [
            LeaseParams { renew_deadline: Duration::from_secs(15), ..params() },
            LeaseParams { retry: Duration::from_secs(10), ..params() },
            LeaseParams { retry: Duration::ZERO, ..params() },
            LeaseParams { duration: Duration::from_millis(15_500), ..params() },
            LeaseParams { identity: String::new(), ..params() },
        ] {
            let message = wrong.check().unwrap_err().to_string();
            assert!(message.starts_with("cannot take part in the leader election"), "{message}");
        }
    }
}
