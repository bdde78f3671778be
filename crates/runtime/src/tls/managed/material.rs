//! What is in the Secret, read so that nothing in it can stop us.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use rcgen::{KeyPair, PublicKeyData as _};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls_pki_types::{ServerName, UnixTime};

use crate::tls::certificate::Certificate;
use crate::tls::store;

const CA_CERTIFICATES: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const NEXT_CERTIFICATE: &str = "ca-next.crt";
const NEXT_KEY: &str = "ca-next.key";
const SERVING_CERTIFICATE: &str = "tls.crt";
const SERVING_KEY: &str = "tls.key";

const NEXT_PUBLISHED_AT: &str = "podwright.io/ca-next-published-at";
const PROMOTED_AT: &str = "podwright.io/ca-promoted-at";

/// A certificate and the key that belongs to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    certificate: Certificate,
    key: String,
}

impl Pair {
    /// Only for halves that belong together.
    pub(super) fn new(certificate: Certificate, key: String) -> Self {
        Self { certificate, key }
    }

    /// The certificate.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The private key, PEM.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Whether the certificate is valid at `now`.
    pub(super) fn is_valid(&self, now: Timestamp) -> bool {
        is_valid(&self.certificate, now)
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("certificate", &self.certificate.fingerprint()).finish_non_exhaustive()
    }
}

/// Everything that the Secret tells; what could not be used is left out and told in `faults`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Material {
    /// Every CA that clients should trust.
    pub trusted: Vec<Certificate>,
    /// The CA that signs now.
    pub authority: Option<Pair>,
    /// The CA that is to sign next; trusted already.
    pub next: Option<Pair>,
    /// What is served.
    pub serving: Option<Pair>,
    /// When the next CA was first seen in the published bundle.
    pub next_published_at: Option<Timestamp>,
    /// When the CA that signs now took over.
    pub promoted_at: Option<Timestamp>,
    /// What could not be used, and why.
    pub faults: Vec<String>,
}

impl Material {
    /// Reads a Secret; one that is missing or empty gives material without anything in it.
    #[must_use]
    pub fn read(secret: Option<&Secret>) -> Self {
        let Some(secret) = secret else {
            return Self::default();
        };
        let fields = Fields { data: secret.data.as_ref() };
        let annotations = secret.metadata.annotations.as_ref();
        let mut faults = Vec::new();
        let mut noted = |result: Result<Option<Pair>, String>| {
            result.unwrap_or_else(|fault| {
                faults.push(fault);
                None
            })
        };
        let trusted = fields.certificates(CA_CERTIFICATES);
        let authority = noted(match &trusted {
            Ok(trusted) => fields.authority(trusted, CA_KEY),
            Err(fault) => Err(fault.clone()),
        });
        let next = noted(fields.next());
        let serving = noted(fields.serving());
        let time = |name: &str| annotations.and_then(|all| all.get(name)?.parse().ok());
        Self {
            trusted: trusted.unwrap_or_default(),
            authority,
            next,
            serving,
            next_published_at: time(NEXT_PUBLISHED_AT),
            promoted_at: time(PROMOTED_AT),
            faults,
        }
    }

    /// Puts this into a Secret, and leaves alone what else is in it.
    pub fn write(&self, secret: &mut Secret) {
        let data = secret.data.get_or_insert_default();
        let bundle = (!self.trusted.is_empty()).then(|| self.bundle());
        let certificate = |pair: &Option<Pair>| pair.as_ref().map(|pair| pair.certificate.pem());
        let key = |pair: &Option<Pair>| pair.as_ref().map(|pair| pair.key.clone());
        for (name, value) in [
            (CA_CERTIFICATES, bundle),
            (CA_KEY, key(&self.authority)),
            (NEXT_CERTIFICATE, certificate(&self.next)),
            (NEXT_KEY, key(&self.next)),
            (SERVING_CERTIFICATE, certificate(&self.serving)),
            (SERVING_KEY, key(&self.serving)),
        ] {
            put(data, name, value.map(|text| ByteString(text.into_bytes())));
        }
        let annotations = secret.metadata.annotations.get_or_insert_default();
        put(annotations, NEXT_PUBLISHED_AT, self.next_published_at.map(|time| time.to_string()));
        put(annotations, PROMOTED_AT, self.promoted_at.map(|time| time.to_string()));
    }

    /// Whether there is nothing at all, not even something broken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.trusted.is_empty() && self.serving.is_none() && self.next.is_none() && self.faults.is_empty()
    }

    /// Whether this is the CA that signs now, or the one that is to sign next.
    pub(super) fn has_key_of(&self, authority: &Certificate) -> bool {
        let pairs = [&self.authority, &self.next];
        pairs.into_iter().flatten().any(|pair| pair.certificate() == authority)
    }

    /// Every CA that clients should trust, as PEM text.
    #[must_use]
    pub fn bundle(&self) -> String {
        self.trusted.iter().map(Certificate::pem).collect()
    }
}

fn put<T>(map: &mut BTreeMap<String, T>, name: &str, value: Option<T>) {
    match value {
        Some(value) => map.insert(name.to_owned(), value),
        None => map.remove(name),
    };
}

/// The data of a Secret. An empty value is as good as none: that is how an empty shell may look.
struct Fields<'a> {
    data: Option<&'a BTreeMap<String, ByteString>>,
}

impl Fields<'_> {
    fn get(&self, name: &str) -> Option<&[u8]> {
        self.data?.get(name).map(|bytes| bytes.0.as_slice()).filter(|bytes| !bytes.is_empty())
    }

    fn certificates(&self, name: &str) -> Result<Vec<Certificate>, String> {
        let Some(pem) = self.get(name) else {
            return Ok(Vec::new());
        };
        Certificate::parse_all(pem).map_err(|error| format!("{name}: {error}"))
    }

    /// The CA among `certificates` that the key belongs to.
    fn authority(&self, certificates: &[Certificate], key_name: &str) -> Result<Option<Pair>, String> {
        let pem = match (self.get(key_name), certificates.is_empty()) {
            (None, true) => return Ok(None),
            (None, false) => return Err(format!("{key_name} is missing")),
            (Some(pem), _) => pem,
        };
        let text = std::str::from_utf8(pem).ok();
        let key = text.and_then(|text| Some((text, KeyPair::from_pem(text).ok()?)));
        let (text, key) = key.ok_or_else(|| format!("{key_name}: not a PKCS#8 private key that can sign"))?;
        let public_key = key.subject_public_key_info();
        let owner = certificates.iter().find(|certificate| certificate.public_key() == public_key);
        let owner = owner.ok_or_else(|| format!("{key_name} belongs to no CA certificate there"))?;
        Ok(Some(Pair::new(owner.clone(), text.to_owned())))
    }

    fn next(&self) -> Result<Option<Pair>, String> {
        self.authority(&self.certificates(NEXT_CERTIFICATE)?, NEXT_KEY)
    }

    fn serving(&self) -> Result<Option<Pair>, String> {
        let (chain, key) = match (self.get(SERVING_CERTIFICATE), self.get(SERVING_KEY)) {
            (Some(chain), Some(key)) => (chain, key),
            (None, None) => return Ok(None),
            _ => {
                return Err(format!("only one of {SERVING_CERTIFICATE} and {SERVING_KEY} is there"));
            }
        };
        let fault = |error: &dyn fmt::Display| format!("{SERVING_CERTIFICATE}, {SERVING_KEY}: {error}");
        store::certified(chain, key).map_err(|error| fault(&error))?;
        let certificate = Certificate::parse_all(chain).map_err(|error| fault(&error))?.swap_remove(0);
        let key = String::from_utf8(key.to_vec()).map_err(|error| fault(&error))?;
        Ok(Some(Pair::new(certificate, key)))
    }
}

fn is_valid(certificate: &Certificate, now: Timestamp) -> bool {
    (certificate.not_before()..certificate.not_after()).contains(&now)
}

/// Whether a client that trusts these CAs accepts this server at `now`. CAs that are not valid then count for nothing.
pub(super) fn is_accepted(serving: &Certificate, trusted: &[Certificate], now: Timestamp) -> bool {
    check(serving, trusted, now).is_some()
}

fn check(serving: &Certificate, trusted: &[Certificate], now: Timestamp) -> Option<()> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(
        trusted.iter().filter(|authority| is_valid(authority, now)).map(|authority| authority.der().clone()),
    );
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
    let name = ServerName::try_from(serving.names().first()?.as_str()).ok()?;
    let time =
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(u64::try_from(now.as_second()).ok()?));
    verifier.verify_server_cert(serving.der(), &[], &name, &[], time).ok().map(|_| ())
}
