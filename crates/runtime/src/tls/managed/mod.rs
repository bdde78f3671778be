//! A CA of our own in a Secret that the replicas share, and a serving pair issued by it, both renewed in time.
//!
//! ```text
//! Secret ─watch─▶ Material ─┬▶ store (serving pair), bundle (what clients should trust)      every replica
//!                           └▶ plan(material, now, published) ─▶ mint ─▶ replace, by resourceVersion     the leader
//! ```
//!
//! The life of a CA, where each step waits for the one before to have reached everybody:
//!
//! ```text
//! founded ─2/3 of its life─▶ next CA joins the bundle ─published + propagation─▶ next CA takes over, serving pair
//! re-issued by it ─propagation─▶ the old CA leaves the bundle
//! ```
//!
//! So at every moment a client that trusts the published bundle, or the one before, can verify every replica.

mod material;
mod mint;
mod plan;
mod task;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use rustls_pki_types::DnsName;

pub use material::{Material, Pair};
pub use mint::{Generated, MintError, generate, mint};
pub use plan::{Change, Step, plan};
pub use task::{Managed, ManagedError};

/// What is wanted of the certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// The DNS names that the serving certificate must be for.
    pub dns_names: Vec<String>,
    /// The IP addresses that the serving certificate must be for.
    pub ips: Vec<IpAddr>,
    /// How long a CA lives.
    pub ca_lifetime: Duration,
    /// How long a serving certificate lives.
    pub serving_lifetime: Duration,
    /// How long a change takes at most to reach everybody: replicas that serve, and clients that verify.
    pub propagation: Duration,
}

impl Params {
    /// With a CA of a year, serving certificates of 30 days, and two minutes for a change to get around.
    #[must_use]
    pub fn new(dns_names: Vec<String>, ips: Vec<IpAddr>) -> Self {
        const DAY: Duration = Duration::from_hours(24);
        Self {
            dns_names,
            ips,
            ca_lifetime: 365 * DAY,
            serving_lifetime: 30 * DAY,
            propagation: Duration::from_mins(2),
        }
    }

    /// Refuses what cannot work: a rotation must fit into the last third of a life.
    pub fn check(&self) -> Result<(), ParamsError> {
        if self.dns_names.is_empty() && self.ips.is_empty() {
            return Err(ParamsError::NoNames);
        }
        if let Some(name) = self.dns_names.iter().find(|name| DnsName::try_from(name.as_str()).is_err()) {
            return Err(ParamsError::BadName(name.clone()));
        }
        if self.serving_lifetime > self.ca_lifetime {
            return Err(ParamsError::OutlivesCa);
        }
        if self.serving_lifetime < 3 * self.propagation.max(Duration::from_secs(1)) {
            return Err(ParamsError::TooShort { what: "serving certificate", factor: 3 });
        }
        if self.ca_lifetime < 9 * self.propagation.max(Duration::from_secs(1)) {
            return Err(ParamsError::TooShort { what: "CA", factor: 9 });
        }
        Ok(())
    }

    /// The wanted names in the form in which a certificate tells its own.
    fn names(&self) -> BTreeSet<String> {
        self.dns_names.iter().cloned().chain(self.ips.iter().map(IpAddr::to_string)).collect()
    }
}

/// Parameters that cannot work.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// Nothing to make a certificate for.
    #[error("a serving certificate needs at least one DNS name or IP address")]
    NoNames,
    /// Not a DNS name.
    #[error("{0:?} is not a DNS name that a certificate can be made for")]
    BadName(String),
    /// No client would accept that.
    #[error("the lifetime of the serving certificate is longer than that of its CA; shorten it")]
    OutlivesCa,
    /// The rotation would not be done before the expiry.
    #[error(
        "the lifetime of the {what} is too short to renew it in time: make it at least {factor} seconds, and {factor} \
         times the propagation time"
    )]
    TooShort {
        /// Which lifetime.
        what: &'static str,
        /// How often the propagation time must fit in.
        factor: u32,
    },
}

/// A time some duration later; far out of range, the end of time.
fn later(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
