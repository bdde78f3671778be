//! Which TLS versions and cipher suites the server offers, in the words of Kubernetes components.
//!
//! `TLS_MIN_VERSION` and `TLS_CIPHER_SUITES` are parsed here, once, at start. A list of suites narrows TLS 1.2; TLS 1.3
//! has suites of its own that are not configurable, so it is offered beside a list only where the minimum was given
//! explicitly, and a list under a minimum of TLS 1.3 is refused as it would have no effect.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::ResolvesServerCert;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

/// What is offered by ALPN, best first: API servers speak HTTP/2 to webhooks where they can.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

static TLS12_AND_UP: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
static TLS13_ONLY: [&SupportedProtocolVersion; 1] = [&TLS13];

/// The suites of TLS 1.2 by their IANA names.
const SUITES: [(&str, SupportedCipherSuite); 6] = [
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        ring::cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// Names that other Kubernetes components take for the suites with `ChaCha20`.
const ALIASES: [(&str, &str); 2] = [
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];

/// The suites of TLS 1.3, which are always offered with it.
const TLS13_SUITES: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/// Suites that servers in Go accept and that this one does not have, for the sake of a helpful message.
const WITHOUT_AEAD_OR_FORWARD_SECRECY: [&str; 15] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
];

/// Why a policy was refused.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A version that is known and broken.
    #[error(
        "TLS_MIN_VERSION {0} is not allowed: TLS 1.0 and 1.1 are insecure; use VersionTLS12 or VersionTLS13"
    )]
    InsecureVersion(String),
    /// Not a version.
    #[error("unknown TLS_MIN_VERSION {0:?}: use VersionTLS12 or VersionTLS13, or leave it empty")]
    UnknownVersion(String),
    /// A list that would have no effect.
    #[error(
        "TLS_CIPHER_SUITES cannot be combined with TLS_MIN_VERSION VersionTLS13: the suites of TLS 1.3 are not \
         configurable; remove one of the two"
    )]
    SuitesWithTls13,
    /// A suite that exists, but not here.
    #[error(
        "TLS_CIPHER_SUITES names {name}, which rustls does not have: it supports AEAD suites with forward secrecy only; \
         choose from {}",
        supported()
    )]
    UnsupportedSuite {
        /// The name as given.
        name: String,
    },
    /// Not a suite.
    #[error("unknown cipher suite {name:?} in TLS_CIPHER_SUITES: choose from {}", supported())]
    UnknownSuite {
        /// The name as given.
        name: String,
    },
    /// Only suites of TLS 1.3 were named, which leaves none for TLS 1.2.
    #[error(
        "TLS_CIPHER_SUITES names suites of TLS 1.3 only, which are not configurable: name a suite of TLS 1.2, or set \
         TLS_MIN_VERSION to VersionTLS13 and leave TLS_CIPHER_SUITES empty"
    )]
    NoTls12Suite,
    /// rustls does not accept the combination.
    #[error("the TLS settings do not make a usable server")]
    Unusable(#[source] rustls::Error),
}

fn supported() -> String {
    SUITES.map(|(name, _)| name).join(", ")
}

/// Which versions and suites are offered.
#[derive(Clone, Debug)]
pub struct TlsPolicy {
    versions: &'static [&'static SupportedProtocolVersion],
    /// The suites allowed in TLS 1.2; none means rustls's defaults.
    suites: Option<Vec<SupportedCipherSuite>>,
}

/// TLS 1.2 and up, with the suites that rustls deems safe.
impl Default for TlsPolicy {
    fn default() -> Self {
        Self { versions: &TLS12_AND_UP, suites: None }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MinVersion {
    Unset,
    Tls12,
    Tls13,
}

impl MinVersion {
    fn parse(value: &str) -> Result<Self, PolicyError> {
        match value.trim() {
            "" => Ok(Self::Unset),
            "VersionTLS12" => Ok(Self::Tls12),
            "VersionTLS13" => Ok(Self::Tls13),
            old @ ("VersionTLS10" | "VersionTLS11") => Err(PolicyError::InsecureVersion(old.to_owned())),
            other => Err(PolicyError::UnknownVersion(other.to_owned())),
        }
    }
}

impl TlsPolicy {
    /// Reads the values of `TLS_MIN_VERSION` and `TLS_CIPHER_SUITES`; both may be empty.
    ///
    /// ```
    /// use podwright_runtime::tls::policy::TlsPolicy;
    /// assert!(TlsPolicy::parse("VersionTLS12", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256").is_ok());
    /// assert!(TlsPolicy::parse("VersionTLS10", "").is_err());
    /// ```
    pub fn parse(min_version: &str, suites: &str) -> Result<Self, PolicyError> {
        let min = MinVersion::parse(min_version)?;
        let names: Vec<&str> = suites.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            return Ok(match min {
                MinVersion::Tls13 => Self { versions: &TLS13_ONLY, suites: None },
                MinVersion::Unset | MinVersion::Tls12 => Self::default(),
            });
        }
        let suites =
            names.into_iter().filter_map(|name| suite(name).transpose()).collect::<Result<Vec<_>, _>>()?;
        match min {
            MinVersion::Tls13 => Err(PolicyError::SuitesWithTls13),
            _ if suites.is_empty() => Err(PolicyError::NoTls12Suite),
            MinVersion::Unset | MinVersion::Tls12 => {
                Ok(Self { versions: &TLS12_AND_UP, suites: Some(suites) })
            }
        }
    }

    /// The configuration of a server under this policy, with ALPN for HTTP/2 and HTTP/1.1, and no client certificates.
    pub fn server_config(&self, resolver: Arc<dyn ResolvesServerCert>) -> Result<ServerConfig, PolicyError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(self.provider()))
            .with_protocol_versions(self.versions)
            .map_err(PolicyError::Unusable)?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
        Ok(config)
    }

    /// Given explicitly everywhere, so that nothing depends on which provider the process has installed.
    fn provider(&self) -> CryptoProvider {
        let mut provider = ring::default_provider();
        if let Some(suites) = &self.suites {
            provider.cipher_suites.retain(|suite| suite.tls13().is_some());
            provider.cipher_suites.extend(suites);
        }
        provider
    }
}

/// The suite of that name; none for one of TLS 1.3, which is valid but has nothing to configure.
fn suite(name: &str) -> Result<Option<SupportedCipherSuite>, PolicyError> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, iana)| iana);
    if let Some((_, suite)) = SUITES.iter().find(|(iana, _)| *iana == name) {
        return Ok(Some(*suite));
    }
    if TLS13_SUITES.contains(&name) {
        return Ok(None);
    }
    let name = name.to_owned();
    Err(if WITHOUT_AEAD_OR_FORWARD_SECRECY.contains(&name.as_str()) {
        PolicyError::UnsupportedSuite { name }
    } else {
        PolicyError::UnknownSuite { name }
    })
}

#[cfg(test)]
mod tests;
