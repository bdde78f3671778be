//! Certificates for the tests of this crate.

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, SignatureAlgorithm};

/// A pair as it would lie in files.
pub(crate) struct PemPair {
    pub(crate) chain: String,
    pub(crate) key: String,
}

/// A self-signed pair with an ECDSA P-256 key.
pub(crate) fn self_signed(names: &[&str]) -> PemPair {
    self_signed_with(names, &PKCS_ECDSA_P256_SHA256)
}

/// A self-signed pair with a key of the given kind.
pub(crate) fn self_signed_with(names: &[&str], kind: &'static SignatureAlgorithm) -> PemPair {
    let key = KeyPair::generate_for(kind).unwrap();
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    PemPair { chain: certificate.pem(), key: key.serialize_pem() }
}
