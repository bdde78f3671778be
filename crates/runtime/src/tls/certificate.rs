//! X.509 certificates as far as we look into them.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Why text is not a certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// No PEM block of a certificate in it.
    #[error("no \"BEGIN CERTIFICATE\" block found")]
    Missing,
    /// The PEM around it is damaged.
    #[error("certificate {position} is not valid PEM: {reason}")]
    Pem {
        /// Which block, counted from one.
        position: usize,
        /// What the parser says.
        reason: String,
    },
    /// The block does not hold a certificate.
    #[error("certificate {position} is not a valid X.509 certificate: {reason}")]
    X509 {
        /// Which block, counted from one.
        position: usize,
        /// What the parser says.
        reason: String,
    },
}

/// A certificate and what was read from it. Equal when the encoded bytes are.
#[derive(Clone)]
pub struct Certificate {
    der: CertificateDer<'static>,
    not_before: Timestamp,
    not_after: Timestamp,
    names: BTreeSet<String>,
    public_key: Vec<u8>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("fingerprint", &self.fingerprint())
            .field("names", &self.names)
            .field("not_before", &self.not_before)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl Eq for Certificate {}

impl Certificate {
    /// Every certificate in PEM text, in order; at least one.
    pub fn parse_all(pem: &[u8]) -> Result<Vec<Self>, CertificateError> {
        let mut found = Vec::new();
        for block in CertificateDer::pem_slice_iter(pem) {
            let position = found.len() + 1;
            let der = block.map_err(|error| CertificateError::Pem { position, reason: error.to_string() })?;
            found.push(Self::parse(der).map_err(|reason| CertificateError::X509 { position, reason })?);
        }
        if found.is_empty() { Err(CertificateError::Missing) } else { Ok(found) }
    }

    fn parse(der: CertificateDer<'static>) -> Result<Self, String> {
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| error.to_string())?;
        let time = |seconds| Timestamp::from_second(seconds).map_err(|error| error.to_string());
        let not_before = time(parsed.validity().not_before.timestamp())?;
        let not_after = time(parsed.validity().not_after.timestamp())?;
        let names = match parsed.subject_alternative_name().map_err(|error| error.to_string())? {
            Some(extension) => extension.value.general_names.iter().filter_map(name).collect(),
            None => BTreeSet::new(),
        };
        let public_key = parsed.public_key().raw.to_vec();
        Ok(Self { der, not_before, not_after, names, public_key })
    }

    /// The encoded certificate.
    #[must_use]
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// When it starts to be valid.
    #[must_use]
    pub fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// When it stops being valid.
    #[must_use]
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// The DNS names and IP addresses it is for.
    #[must_use]
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// SHA-256 of the encoded certificate, in hexadecimal: what `openssl x509 -fingerprint -sha256` shows, without colons.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        hex(&Sha256::digest(&self.der))
    }

    /// The certificate as PEM text.
    #[must_use]
    pub fn pem(&self) -> String {
        let encoded = STANDARD.encode(&self.der);
        let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
        let mut rest = encoded.as_str();
        while let Some((line, after)) = rest.split_at_checked(64) {
            pem.push_str(line);
            pem.push('\n');
            rest = after;
        }
        if !rest.is_empty() {
            pem.push_str(rest);
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }

    /// The `SubjectPublicKeyInfo`, which a private key can be compared with.
    pub(super) fn public_key(&self) -> &[u8] {
        &self.public_key
    }
}

/// Bytes in hexadecimal, lower case.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(dns) => Some((*dns).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let ip = v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            ip.ok().map(|ip| ip.to_string())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::testing;

    #[test]
    fn a_certificate_tells_its_names_and_survives_a_round_trip_through_pem() {
        let pair = testing::self_signed(&["b.example", "a.example", "10.0.0.1", "::1"]);
        let read = Certificate::parse_all(pair.chain.as_bytes()).unwrap().remove(0);
        assert_eq!(read.names().iter().collect::<Vec<_>>(), ["10.0.0.1", "::1", "a.example", "b.example"]);
        assert_eq!(Certificate::parse_all(read.pem().as_bytes()).unwrap(), std::slice::from_ref(&read));
        assert_eq!(read.fingerprint().len(), 64);
    }

    #[test]
    fn a_bundle_is_read_in_order() {
        let (first, second) = (testing::self_signed(&["first"]), testing::self_signed(&["second"]));
        let bundle = format!("# a comment\n{}\n{}", first.chain, second.chain);
        let read = Certificate::parse_all(bundle.as_bytes()).unwrap();
        assert_eq!(read.len(), 2);
        assert!(read[0].names().contains("first") && read[1].names().contains("second"));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_position() {
        assert!(matches!(Certificate::parse_all(b""), Err(CertificateError::Missing)));
        let good = testing::self_signed(&["good"]).chain;
        let bad = format!("{good}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        let error = Certificate::parse_all(bad.as_bytes()).unwrap_err();
        assert!(matches!(error, CertificateError::X509 { position: 2, .. }), "{error}");
    }
}
