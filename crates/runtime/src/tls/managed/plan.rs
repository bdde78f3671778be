//! What to do about the certificates, decided from what is there and what the time is.

use std::time::Duration;

use jiff::Timestamp;

use super::material::is_accepted;
use super::{Material, Pair, Params, later};
use crate::tls::certificate::Certificate;

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// All is well.
    Wait {
        /// When to look again, if nothing changes before.
        until: Timestamp,
    },
    /// The Secret has to change.
    Change(Change),
}

/// A change of the Secret. Each is one write, so that every replica sees all of it or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Begin anew: a CA and a serving pair. Clients accept it once the bundle is published.
    Found {
        /// What is wrong with what was there; none if there was nothing.
        fault: Option<String>,
    },
    /// Issue a serving pair by the CA that signs now.
    Issue {
        /// Why.
        reason: String,
    },
    /// Make the next CA, and let clients trust it beside the one that signs now.
    Prepare {
        /// Why.
        reason: String,
    },
    /// Note that the published bundle has the next CA in it.
    Confirm,
    /// Let the next CA sign: everybody trusts it now.
    Promote,
    /// Note that the CA that signs now has taken over; the note was lost.
    Date,
    /// Take the CAs that sign no more out of the bundle.
    Retire,
}

/// Decides what to do at `now`. `published` is the bundle that is confirmed to be where clients look for it.
#[must_use]
pub fn plan(observed: &Material, now: Timestamp, params: &Params, published: Option<&str>) -> Step {
    let outlook = Outlook { observed, now, params };
    let change = outlook
        .serving()
        .or_else(|| outlook.retirement())
        .or_else(|| outlook.succession(published.is_some_and(|bundle| outlook.knows_next(bundle))));
    match change {
        Some(change) => Step::Change(change),
        None => Step::Wait { until: outlook.next_date() },
    }
}

struct Outlook<'a> {
    observed: &'a Material,
    now: Timestamp,
    params: &'a Params,
}

impl Outlook<'_> {
    /// What the serving pair needs: it must be accepted, for the wanted names, and have life left.
    fn serving(&self) -> Option<Change> {
        let Material { trusted, serving, next, .. } = self.observed;
        let Some(authority) = self.authority() else {
            // Nobody can sign. As long as what is served is accepted, a successor is brought in without a gap.
            let accepted =
                serving.as_ref().is_some_and(|pair| is_accepted(pair.certificate(), trusted, self.now));
            return match next.as_ref().filter(|next| next.is_valid(self.now)) {
                _ if accepted => None,
                Some(_) => Some(Change::Promote),
                None => Some(Change::Found { fault: self.fault() }),
            };
        };
        let issue = |reason: &str| Some(Change::Issue { reason: reason.to_owned() });
        let Some(serving) = serving else {
            return issue("there is no usable serving certificate");
        };
        let certificate = serving.certificate();
        if !is_accepted(certificate, std::slice::from_ref(authority.certificate()), self.now) {
            return issue("the serving certificate has expired or was not issued by the CA");
        }
        if *certificate.names() != self.params.names() {
            return issue("the serving certificate is for other names");
        }
        if self.is_due(certificate) && certificate.not_after() < authority.certificate().not_after() {
            return issue("two thirds of the serving certificate's life are over");
        }
        None
    }

    /// What the CAs that sign no more need: to leave, once nobody can still be serving with them.
    fn retirement(&self) -> Option<Change> {
        if self.authority().is_none() || !self.has_retired() {
            return None;
        }
        match self.past(self.observed.promoted_at) {
            None => Some(Change::Date),
            Some(at) if later(at, self.params.propagation) <= self.now => Some(Change::Retire),
            Some(_) => None,
        }
    }

    /// What the change to the next CA needs.
    fn succession(&self, next_is_published: bool) -> Option<Change> {
        let Some(next) = self.observed.next.as_ref().filter(|next| !self.is_due(next.certificate())) else {
            return self.preparation();
        };
        if !self.observed.trusted.contains(next.certificate()) {
            return Some(Change::Prepare { reason: "the next CA is not in the bundle".to_owned() });
        }
        if !next_is_published {
            return None;
        }
        match self.past(self.observed.next_published_at) {
            None => Some(Change::Confirm),
            Some(at) if later(at, self.params.propagation) <= self.now => Some(Change::Promote),
            Some(_) => None,
        }
    }

    fn preparation(&self) -> Option<Change> {
        let reason = match self.authority() {
            None => self.fault().unwrap_or_else(|| "no CA can sign".to_owned()),
            // One change at a time: the bundle never has more than two CAs in it.
            Some(_) if self.has_retired() => return None,
            Some(authority) if self.is_due(authority.certificate()) => {
                "two thirds of the CA's life are over".to_owned()
            }
            Some(_) => return None,
        };
        Some(Change::Prepare { reason })
    }

    /// The CA that signs, if it still can.
    fn authority(&self) -> Option<&Pair> {
        self.observed.authority.as_ref().filter(|authority| authority.is_valid(self.now))
    }

    /// Whether the bundle has a CA in it that neither signs nor is to sign.
    fn has_retired(&self) -> bool {
        !self.observed.trusted.iter().all(|trusted| self.observed.has_key_of(trusted))
    }

    fn knows_next(&self, bundle: &str) -> bool {
        let Some(next) = &self.observed.next else {
            return false;
        };
        Certificate::parse_all(bundle.as_bytes()).is_ok_and(|bundle| bundle.contains(next.certificate()))
    }

    fn fault(&self) -> Option<String> {
        let faults = &self.observed.faults;
        match faults.as_slice() {
            _ if self.observed.is_empty() => None,
            [] => Some("the CA has expired, or is missing".to_owned()),
            faults => Some(faults.join("; ")),
        }
    }

    fn is_due(&self, certificate: &Certificate) -> bool {
        due(certificate) <= self.now
    }

    /// A noted time; one that is still to come was written by a clock that disagrees with ours, and cannot be counted
    /// from.
    fn past(&self, noted: Option<Timestamp>) -> Option<Timestamp> {
        noted.filter(|&time| time <= self.now)
    }

    /// The next moment at which time alone makes a difference.
    fn next_date(&self) -> Timestamp {
        let Material { authority, next, serving, next_published_at, promoted_at, .. } = self.observed;
        let lives = [authority, next, serving].into_iter().flatten().map(Pair::certificate);
        let notes = [next_published_at, promoted_at].into_iter().flatten();
        lives
            .flat_map(|certificate| [due(certificate), certificate.not_after()])
            .chain(notes.map(|&time| later(time, self.params.propagation)))
            .filter(|&time| time > self.now)
            .min()
            .unwrap_or(Timestamp::MAX)
    }
}

/// When two thirds of a certificate's life are over.
fn due(certificate: &Certificate) -> Timestamp {
    let life = certificate.not_after().duration_since(certificate.not_before());
    later(certificate.not_before(), Duration::try_from(life).unwrap_or_default() * 2 / 3)
}
