//! The rules of the election, as functions of what was seen and when.

use std::time::Duration;

use tokio::time::Instant;

use super::{Claim, LeaseParams};

/// What a Lease says, as far as the election goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Who holds it; none after a release.
    pub(super) holder: Option<String>,
    /// How long its holder asks others to wait.
    pub(super) duration: Option<Duration>,
    /// Its resourceVersion. Every renewal gives a new one.
    pub(super) version: String,
}

/// A Lease as one candidate has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// Who holds it; none after a release.
    pub holder: Option<String>,
    /// How long it must be seen unchanged before it is free.
    pub duration: Duration,
    /// Its resourceVersion.
    pub version: String,
    /// Since when, by our own clock, we have seen this version and no other.
    pub unchanged_since: Instant,
}

/// What a candidate should do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is no Lease: make one that we hold.
    Create,
    /// The Lease is free or has expired: take it.
    Acquire,
    /// We hold it: say so again.
    Renew,
    /// Somebody else holds it, and until then there is nothing to do but look.
    Wait {
        /// When it expires if nothing is heard.
        until: Instant,
    },
}

/// Decides what `me` should do at `now` about a lease that was seen like this, or not found.
#[must_use]
pub fn step(observed: Option<&LeaseView>, me: &str, now: Instant) -> Step {
    let Some(lease) = observed else {
        return Step::Create;
    };
    match &lease.holder {
        None => Step::Acquire,
        Some(holder) if holder == me => Step::Renew,
        Some(_) => match lease.unchanged_since + lease.duration {
            until if now < until => Step::Wait { until },
            _ => Step::Acquire,
        },
    }
}

/// What one candidate knows: the lease as it saw it last, and who may lead by that.
#[derive(Debug)]
pub(super) struct Candidate {
    me: String,
    duration: Duration,
    renew_deadline: Duration,
    view: Option<LeaseView>,
    /// The lease of `view` was removed since.
    is_gone: bool,
    claim: Option<Claim>,
}

impl Candidate {
    pub(super) fn new(params: &LeaseParams) -> Self {
        let LeaseParams { identity, duration, renew_deadline, .. } = params;
        Self {
            me: identity.clone(),
            duration: *duration,
            renew_deadline: *renew_deadline,
            view: None,
            is_gone: false,
            claim: None,
        }
    }

    pub(super) fn step(&self, now: Instant) -> Step {
        match step(self.view.as_ref(), &self.me, now) {
            // Whoever held it may not have noticed yet, so the wait is the same.
            Step::Acquire | Step::Renew if self.is_gone => Step::Create,
            step => step,
        }
    }

    pub(super) fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// Whether the lease as we saw it last is ours.
    pub(super) fn is_holder(&self) -> bool {
        !self.is_gone && self.view.as_ref().is_some_and(|view| view.holder.as_deref() == Some(&*self.me))
    }

    /// The lease was read; the answer came at `now`, later than the state it shows, so nothing is counted too early.
    pub(super) fn observe(&mut self, record: Option<Record>, now: Instant) {
        self.is_gone = record.is_none();
        let Some(Record { holder, duration, version }) = record else {
            self.claim = self.claim.take().filter(|claim| claim.holder != self.me);
            return;
        };
        let former = self.view.take().filter(|view| view.version == version);
        let unchanged_since = former.map_or(now, |view| view.unchanged_since);
        let duration = duration.unwrap_or(self.duration);
        self.claim = match &holder {
            // That the lease is ours does not tell since when: only our own writes renew the claim.
            Some(holder) if *holder == self.me => self.claim.take().filter(|claim| claim.holder == self.me),
            Some(holder) => Some(Claim { holder: holder.clone(), expires_at: unchanged_since + duration }),
            None => None,
        };
        self.view = Some(LeaseView { holder, duration, version, unchanged_since });
    }

    /// A write that makes the lease ours succeeded. It was sent at `sent`: others may count from then on.
    pub(super) fn wrote(&mut self, version: String, sent: Instant) {
        self.claim = Some(Claim { holder: self.me.clone(), expires_at: sent + self.renew_deadline });
        let (holder, duration) = (Some(self.me.clone()), self.duration);
        self.view = Some(LeaseView { holder, duration, version, unchanged_since: sent });
        self.is_gone = false;
    }

    /// We lead no more, whatever the lease says.
    pub(super) fn resign(&mut self) {
        self.claim = None;
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
