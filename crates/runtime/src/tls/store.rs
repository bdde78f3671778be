//! The certificate in use, which may be swapped at any time while the server runs.
//!
//! A handshake takes the pair that is installed at that moment; connections that are open keep theirs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, SignatureAlgorithm};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;

use super::certificate::{Certificate, CertificateError};

/// Why a pair was not installed; the one in use stays.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The certificate chain cannot be read.
    #[error("the certificate chain cannot be used: {0}")]
    Chain(#[from] CertificateError),
    /// The key cannot be read.
    #[error(
        "the private key cannot be read: it must be unencrypted PEM in PKCS#8, SEC1 (\"EC PRIVATE KEY\") or \
         PKCS#1 (\"RSA PRIVATE KEY\") form"
    )]
    KeyFormat,
    /// The key is of a kind that is not supported.
    #[error("the private key cannot be used: {0}; supported are RSA, ECDSA on P-256 and P-384, and Ed25519")]
    KeyKind(String),
    /// Key and certificate do not belong together.
    #[error(
        "the private key does not belong to the certificate (a pair that is only half written looks like this)"
    )]
    Mismatch,
}

/// What is known about an installed pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// When the certificate starts to be valid.
    pub not_before: Timestamp,
    /// When it expires.
    pub not_after: Timestamp,
    /// SHA-256 of the certificate, in hexadecimal.
    pub fingerprint: String,
    /// The DNS names and IP addresses it is for, sorted.
    pub names: Vec<String>,
    /// The kind of its key.
    pub algorithm: SignatureAlgorithm,
}

struct Loaded {
    key: Arc<CertifiedKey>,
    facts: Installed,
}

/// The pair that handshakes use. Empty until the first [`install`](Self::install); handshakes fail until then.
#[derive(Default)]
pub struct CertStore {
    current: ArcSwapOption<Loaded>,
    installs: AtomicU64,
}

impl CertStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a pair into use, after a check that its halves belong together. On an error the former pair stays.
    ///
    /// `chain` is the certificate and its intermediates, `key` the private key, both PEM.
    pub fn install(&self, chain: &[u8], key: &[u8]) -> Result<Installed, StoreError> {
        let (key, facts) = certified(chain, key)?;
        self.current.store(Some(Arc::new(Loaded { key: Arc::new(key), facts: facts.clone() })));
        self.installs.fetch_add(1, Ordering::Relaxed);
        Ok(facts)
    }

    /// Whether there is a pair to serve with.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.current.load().is_some()
    }

    /// When the pair in use expires.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.current.load().as_ref().map(|loaded| loaded.facts.not_after)
    }

    /// What is known about the pair in use.
    #[must_use]
    pub fn current(&self) -> Option<Installed> {
        self.current.load().as_ref().map(|loaded| loaded.facts.clone())
    }

    /// How many pairs were installed since the start.
    #[must_use]
    pub fn installs(&self) -> u64 {
        self.installs.load(Ordering::Relaxed)
    }
}

/// Reads a pair and checks that its halves belong together.
pub(super) fn certified(chain: &[u8], key: &[u8]) -> Result<(CertifiedKey, Installed), StoreError> {
    let chain = Certificate::parse_all(chain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| StoreError::KeyFormat)?;
    let ders = chain.iter().map(|certificate| certificate.der().clone()).collect();
    let key = CertifiedKey::from_der(ders, key, &ring::default_provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => StoreError::Mismatch,
        other => StoreError::KeyKind(other.to_string()),
    })?;
    let leaf = &chain[0];
    let facts = Installed {
        not_before: leaf.not_before(),
        not_after: leaf.not_after(),
        fingerprint: leaf.fingerprint(),
        names: leaf.names().iter().cloned().collect(),
        algorithm: key.key.algorithm(),
    };
    Ok((key, facts))
}

impl fmt::Debug for CertStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertStore").field("current", &self.current()).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for CertStore {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load().as_ref().map(|loaded| Arc::clone(&loaded.key))
    }
}

/// Shows when the pair in use expires, and how often it was replaced.
impl Collector for CertStore {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        if let Some(expiry) = self.expires_at() {
            let gauge = ConstGauge::new(expiry.as_second());
            let help = "Expiry of the serving certificate, in seconds since the Unix epoch";
            gauge.encode(encoder.encode_descriptor(
                "tls_certificate_not_after_seconds",
                help,
                None,
                gauge.metric_type(),
            )?)?;
        }
        let installs = ConstCounter::new(self.installs());
        let help = "Serving certificates installed since the start";
        installs.encode(encoder.encode_descriptor(
            "tls_certificate_installs",
            help,
            None,
            installs.metric_type(),
        )?)
    }
}

#[cfg(test)]
mod tests;
