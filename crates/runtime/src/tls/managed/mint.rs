//! Making keys and certificates: the only place with randomness in it.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};

use super::{Change, Material, Pair, Params, later};
use crate::tls::certificate::{Certificate, CertificateError};

/// By how much a certificate is valid before it is made, for clients whose clock is behind.
const BACKDATED: Duration = Duration::from_mins(5);

/// Names longer than this do not fit into a common name; the alternative names hold them in any case.
const COMMON_NAME_MAX: usize = 64;

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// Key or certificate generation failed.
    #[error("cannot make a certificate: {0}")]
    Generation(#[from] rcgen::Error),
    /// What was made cannot be read back.
    #[error("a certificate that was just made cannot be read: {0}")]
    Unreadable(#[from] CertificateError),
    /// A change that does not fit what is there, which the plan never asks for.
    #[error("the certificates cannot be changed: there is no {0} to do it with")]
    Missing(&'static str),
}

/// Makes what a [`Change`] asks for: the material as it should be afterwards.
pub fn mint(
    change: &Change,
    observed: &Material,
    now: Timestamp,
    params: &Params,
) -> Result<Material, MintError> {
    let mut material = Material { faults: Vec::new(), ..observed.clone() };
    match change {
        Change::Found { .. } => {
            // Replicas may serve what was there a little longer.
            material.trusted.retain(|former| now < former.not_after());
            let authority = authority(now, params.ca_lifetime)?;
            take_over(&mut material, authority, now, params)?;
        }
        Change::Issue { .. } => {
            let authority = observed.authority.as_ref().ok_or(MintError::Missing("CA"))?;
            material.serving = Some(serving(authority, now, params)?);
        }
        Change::Prepare { .. } => {
            let next = authority(now, params.ca_lifetime)?;
            let replaced = observed.next.as_ref().map(Pair::certificate);
            material.trusted.retain(|trusted| Some(trusted) != replaced);
            material.trusted.push(next.certificate().clone());
            material.next = Some(next);
            material.next_published_at = None;
        }
        Change::Confirm => material.next_published_at = Some(now),
        Change::Promote => {
            let next = material.next.take().ok_or(MintError::Missing("next CA"))?;
            take_over(&mut material, next, now, params)?;
        }
        Change::Date => material.promoted_at = Some(now),
        Change::Retire => {
            material.trusted.retain(|trusted| observed.has_key_of(trusted));
            material.promoted_at = None;
        }
    }
    Ok(material)
}

/// Lets a CA sign from now on, beginning with the serving pair. Those before it stay trusted for the time being.
fn take_over(
    material: &mut Material,
    authority: Pair,
    now: Timestamp,
    params: &Params,
) -> Result<(), MintError> {
    material.serving = Some(serving(&authority, now, params)?);
    material.trusted.retain(|trusted| trusted != authority.certificate());
    material.promoted_at = (!material.trusted.is_empty()).then_some(now);
    material.trusted.insert(0, authority.certificate().clone());
    material.authority = Some(authority);
    material.next = None;
    material.next_published_at = None;
    Ok(())
}

/// A CA and a serving pair as PEM texts.
#[derive(Clone)]
pub struct Generated {
    /// The CA's certificate.
    pub ca_crt: String,
    /// The CA's key.
    pub ca_key: String,
    /// The serving certificate.
    pub tls_crt: String,
    /// The serving key.
    pub tls_key: String,
}

/// Makes a CA and a serving pair that are valid for a year, for whoever keeps the files.
pub fn generate(dns_names: Vec<String>, ips: Vec<IpAddr>, now: Timestamp) -> Result<Generated, MintError> {
    let mut params = Params::new(dns_names, ips);
    params.serving_lifetime = params.ca_lifetime;
    let authority = authority(now, params.ca_lifetime)?;
    let serving = serving(&authority, now, &params)?;
    Ok(Generated {
        ca_crt: authority.certificate().pem(),
        ca_key: authority.key().to_owned(),
        tls_crt: serving.certificate().pem(),
        tls_key: serving.key().to_owned(),
    })
}

fn authority(now: Timestamp, lifetime: Duration) -> Result<Pair, MintError> {
    let key = KeyPair::generate()?;
    let mut params = dated(backdated(now, lifetime), later(now, lifetime));
    // Each has a name of its own, so that the CAs of a bundle can be told apart.
    params.distinguished_name.push(DnType::CommonName, format!("Podwright CA {now:.3}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    paired(&params.self_signed(&key)?, &key)
}

fn serving(authority: &Pair, now: Timestamp, wanted: &Params) -> Result<Pair, MintError> {
    let key = KeyPair::generate()?;
    // No client accepts more than the CA's own life.
    let (issuer, lifetime) = (authority.certificate(), wanted.serving_lifetime);
    let not_before = backdated(now, lifetime).max(issuer.not_before());
    let mut params = dated(not_before, later(now, lifetime).min(issuer.not_after()));
    let dns = wanted.dns_names.iter().map(|name| Ok(SanType::DnsName(Ia5String::try_from(name.as_str())?)));
    let ips = wanted.ips.iter().map(|ip| Ok(SanType::IpAddress(*ip)));
    params.subject_alt_names = dns.chain(ips).collect::<Result<_, rcgen::Error>>()?;
    if let Some(name) = wanted.dns_names.first().filter(|name| name.len() <= COMMON_NAME_MAX) {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let issuer = Issuer::from_ca_cert_der(issuer.der(), KeyPair::from_pem(authority.key())?)?;
    paired(&params.signed_by(&key, &issuer)?, &key)
}

/// A little before now; for the shortest lives only a tenth of them.
fn backdated(now: Timestamp, lifetime: Duration) -> Timestamp {
    now.checked_sub(BACKDATED.min(lifetime / 10)).unwrap_or(now)
}

fn dated(not_before: Timestamp, not_after: Timestamp) -> CertificateParams {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since = |time: Timestamp| Duration::from_secs(u64::try_from(time.as_second()).unwrap_or(0));
    let mut params = CertificateParams::default();
    params.not_before = epoch + since(not_before);
    params.not_after = epoch + since(not_after);
    params.distinguished_name = DistinguishedName::new();
    params
}

fn paired(certificate: &rcgen::Certificate, key: &KeyPair) -> Result<Pair, MintError> {
    let certificate = Certificate::parse_all(certificate.pem().as_bytes())?.swap_remove(0);
    Ok(Pair::new(certificate, key.serialize_pem()))
}
