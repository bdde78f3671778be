use super::*;
use crate::tls::testing::{self, PemPair};
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

fn install(store: &CertStore, pair: &PemPair) -> Result<Installed, StoreError> {
    store.install(pair.chain.as_bytes(), pair.key.as_bytes())
}

#[test]
fn every_supported_kind_of_key_is_installed() {
    for (kind, algorithm) in [
        (&PKCS_ECDSA_P256_SHA256, SignatureAlgorithm::ECDSA),
        (&PKCS_ECDSA_P384_SHA384, SignatureAlgorithm::ECDSA),
        (&PKCS_ED25519, SignatureAlgorithm::ED25519),
    ] {
        let facts = install(&CertStore::new(), &testing::self_signed_with(&["x.example"], kind)).unwrap();
        assert_eq!((facts.names, facts.algorithm), (vec!["x.example".to_owned()], algorithm));
    }
}

#[test]
fn keys_are_read_in_pkcs8_pkcs1_and_sec1_form() {
    let rsa = include_bytes!("fixtures/rsa.crt");
    let ec = include_bytes!("fixtures/ec.crt");
    for (chain, key) in [
        (rsa.as_slice(), include_bytes!("fixtures/rsa-pkcs8.key").as_slice()),
        (rsa, include_bytes!("fixtures/rsa-pkcs1.key")),
        (ec, include_bytes!("fixtures/ec-sec1.key")),
    ] {
        CertStore::new().install(chain, key).unwrap();
    }
}

#[test]
fn a_store_starts_empty_and_then_tells_what_is_in_use() {
    let store = CertStore::new();
    assert!(!store.is_loaded() && store.expires_at().is_none() && store.current().is_none());
    let facts = install(&store, &testing::self_signed(&["x.example"])).unwrap();
    assert!(store.is_loaded());
    assert_eq!(store.expires_at(), Some(facts.not_after));
    assert_eq!((store.current(), store.installs()), (Some(facts), 1));
}

#[test]
fn a_pair_whose_halves_do_not_match_leaves_the_former_in_use() {
    let store = CertStore::new();
    let good = install(&store, &testing::self_signed(&["x.example"])).unwrap();
    let (a, b) = (testing::self_signed(&["y.example"]), testing::self_signed(&["y.example"]));
    let error = install(&store, &PemPair { chain: a.chain, key: b.key }).unwrap_err();
    assert!(matches!(error, StoreError::Mismatch), "{error}");
    assert_eq!((store.current(), store.installs()), (Some(good), 1));
}

#[test]
fn unreadable_halves_are_told_apart() {
    let store = CertStore::new();
    let PemPair { chain, key } = testing::self_signed(&["x.example"]);
    let error = store.install(b"nonsense", key.as_bytes()).unwrap_err();
    assert!(matches!(error, StoreError::Chain(CertificateError::Missing)), "{error}");
    let error = store.install(chain.as_bytes(), chain.as_bytes()).unwrap_err();
    assert!(matches!(error, StoreError::KeyFormat), "{error}");
    let garbage = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let error = store.install(chain.as_bytes(), garbage).unwrap_err();
    assert!(matches!(error, StoreError::KeyKind(_)), "{error}");
}

#[test]
fn neither_debug_nor_errors_show_a_key() {
    let store = CertStore::new();
    let pair = testing::self_signed(&["x.example"]);
    install(&store, &pair).unwrap();
    let secret = pair.key.lines().nth(1).unwrap();
    assert!(!format!("{store:?}").contains(secret));
}

#[test]
fn the_metrics_show_expiry_and_count() {
    let store = Arc::new(CertStore::new());
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(Arc::clone(&store)));
    let expiry = install(&store, &testing::self_signed(&["x.example"])).unwrap().not_after.as_second();
    let mut page = String::new();
    prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
    assert!(page.contains(&format!("tls_certificate_not_after_seconds {expiry}\n")), "{page}");
    assert!(page.contains("tls_certificate_installs_total 1\n"), "{page}");
}
