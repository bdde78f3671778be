use super::*;
use crate::tls::store::CertStore;
use rustls::{CipherSuite, ProtocolVersion};

const ECDSA_128: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
const RSA_256: &str = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384";

fn versions(policy: &TlsPolicy) -> Vec<ProtocolVersion> {
    policy.versions.iter().map(|version| version.version).collect()
}

/// The suites of TLS 1.2 that a server under this policy would offer.
fn suites(policy: &TlsPolicy) -> Vec<CipherSuite> {
    let config = policy.server_config(Arc::new(CertStore::new())).unwrap();
    let suites = config.crypto_provider().cipher_suites.iter();
    suites.filter(|suite| suite.tls13().is_none()).map(SupportedCipherSuite::suite).collect()
}

fn refusal(min: &str, suites: &str) -> String {
    TlsPolicy::parse(min, suites).unwrap_err().to_string()
}

#[test]
fn empty_settings_are_the_default_of_tls_1_2_and_up() {
    let policy = TlsPolicy::parse("", "").unwrap();
    assert_eq!(versions(&policy), [ProtocolVersion::TLSv1_3, ProtocolVersion::TLSv1_2]);
    assert!(policy.suites.is_none());
}

#[test]
fn tls_1_2_as_minimum_keeps_tls_1_3() {
    let policy = TlsPolicy::parse("VersionTLS12", "").unwrap();
    assert_eq!(versions(&policy), [ProtocolVersion::TLSv1_3, ProtocolVersion::TLSv1_2]);
}

#[test]
fn tls_1_3_as_minimum_leaves_only_tls_1_3() {
    let policy = TlsPolicy::parse("VersionTLS13", "").unwrap();
    assert_eq!(versions(&policy), [ProtocolVersion::TLSv1_3]);
}

#[test]
fn tls_1_0_is_rejected_with_a_reason() {
    assert!(
        refusal("VersionTLS10", "").contains("VersionTLS10 is not allowed: TLS 1.0 and 1.1 are insecure")
    );
}

#[test]
fn tls_1_1_is_rejected_with_a_reason() {
    assert!(refusal("VersionTLS11", "").contains("VersionTLS11 is not allowed"));
}

#[test]
fn an_unknown_version_is_an_error_that_names_the_known_ones() {
    let message = refusal("TLS1.2", "");
    assert!(message.contains("\"TLS1.2\"") && message.contains("VersionTLS12 or VersionTLS13"), "{message}");
}

#[test]
fn valid_suites_are_the_only_ones_offered_in_tls_1_2() {
    let policy = TlsPolicy::parse("VersionTLS12", &format!("{ECDSA_128},{RSA_256}")).unwrap();
    assert_eq!(
        suites(&policy),
        [
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
        ]
    );
    assert_eq!(versions(&policy), [ProtocolVersion::TLSv1_3, ProtocolVersion::TLSv1_2]);
}

#[test]
fn an_unknown_suite_is_an_error_that_lists_the_supported_ones() {
    let message = refusal("", "TLS_FANCY");
    assert!(
        message.contains("\"TLS_FANCY\"") && message.contains(ECDSA_128) && message.contains(RSA_256),
        "{message}"
    );
}

#[test]
fn suites_with_tls_1_3_are_an_error() {
    assert!(refusal("VersionTLS13", ECDSA_128).contains("cannot be combined"));
}

#[test]
fn suites_with_an_empty_version_mean_tls_1_2_and_up() {
    let policy = TlsPolicy::parse("", ECDSA_128).unwrap();
    assert_eq!(versions(&policy), [ProtocolVersion::TLSv1_3, ProtocolVersion::TLSv1_2]);
    assert_eq!(suites(&policy), [CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]);
}

#[test]
fn names_of_suites_are_trimmed() {
    assert_eq!(suites(&TlsPolicy::parse("", &format!("  {ECDSA_128} , {RSA_256}\n")).unwrap()).len(), 2);
}

#[test]
fn empty_entries_are_dropped() {
    assert_eq!(suites(&TlsPolicy::parse("", &format!(",{ECDSA_128},, ,")).unwrap()).len(), 1);
    assert!(TlsPolicy::parse("VersionTLS13", " , ").is_ok(), "a list of blanks is no list");
}

#[test]
fn the_version_is_trimmed() {
    assert_eq!(versions(&TlsPolicy::parse("  VersionTLS13\n", "").unwrap()), [ProtocolVersion::TLSv1_3]);
}

#[test]
fn cbc_and_static_rsa_suites_are_explained() {
    for name in ["TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_AES_128_GCM_SHA256"] {
        let message = refusal("VersionTLS12", name);
        assert!(
            message.contains(name) && message.contains("AEAD suites with forward secrecy only"),
            "{message}"
        );
    }
}

#[test]
fn suites_of_tls_1_3_need_a_suite_of_tls_1_2_beside_them() {
    let mixed = TlsPolicy::parse("VersionTLS12", &format!("TLS_AES_128_GCM_SHA256,{ECDSA_128}")).unwrap();
    assert_eq!(suites(&mixed).len(), 1);
    assert!(refusal("VersionTLS12", "TLS_AES_128_GCM_SHA256").contains("not configurable"));
}

#[test]
fn the_short_names_of_the_chacha_suites_are_known() {
    let policy = TlsPolicy::parse("", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305").unwrap();
    assert_eq!(suites(&policy), [CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256]);
}

#[test]
fn http_2_is_preferred_over_http_1_1() {
    let config = TlsPolicy::default().server_config(Arc::new(CertStore::new())).unwrap();
    assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
}
