//! The certificates' life played through with time moved by hand.

mod rotation;

use super::material::is_accepted;
use super::*;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use std::collections::BTreeMap;
use tokio::sync::watch;

use crate::tls::store::CertStore;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

fn params() -> Params {
    Params::new(
        vec!["svc.ns.svc".into(), "svc.ns.svc.cluster.local".into()],
        vec!["127.0.0.1".parse().unwrap()],
    )
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00.25Z".parse().unwrap()
}

/// The change that is planned, which there must be.
fn change(material: &Material, now: Timestamp, published: Option<&str>) -> Change {
    match plan(material, now, &params(), published) {
        Step::Change(change) => change,
        Step::Wait { until } => panic!("nothing is planned until {until}"),
    }
}

fn waits_until(material: &Material, now: Timestamp, published: Option<&str>) -> Timestamp {
    match plan(material, now, &params(), published) {
        Step::Wait { until } => until,
        Step::Change(change) => panic!("{change:?} is planned"),
    }
}

/// Plans, and makes what is planned, by way of a Secret as it would be stored.
fn enact(material: &Material, now: Timestamp, published: Option<&str>) -> Material {
    let minted = mint(&change(material, now, published), material, now, &params()).unwrap();
    let stored = stored(&minted);
    let read = Material { faults: Vec::new(), ..Material::read(Some(&stored)) };
    assert_eq!(read, minted, "nothing is lost in the Secret");
    minted
}

fn stored(material: &Material) -> Secret {
    let mut secret = Secret::default();
    material.write(&mut secret);
    secret
}

fn founded(now: Timestamp) -> Material {
    enact(&Material::default(), now, None)
}

fn serving(material: &Material) -> &crate::tls::certificate::Certificate {
    material.serving.as_ref().unwrap().certificate()
}

fn authority(material: &Material) -> &crate::tls::certificate::Certificate {
    material.authority.as_ref().unwrap().certificate()
}

#[test]
fn nobody_hears_of_a_bundle_before_there_is_a_pair_to_serve_and_of_each_change_afterwards() {
    let (store, (send, bundle)) = (CertStore::new(), watch::channel(None));
    let whole = founded(start());
    let without_pair = Material { serving: None, ..whole.clone() };
    task::adopt(&without_pair, &store, &send, "s");
    assert!(!store.is_loaded() && bundle.borrow().is_none());
    task::adopt(&whole, &store, &send, "s");
    assert!(store.is_loaded() && *bundle.borrow() == Some(whole.bundle()));
    let another = Material { serving: None, ..founded(start()) };
    task::adopt(&another, &store, &send, "s");
    assert_eq!(*bundle.borrow(), Some(another.bundle()), "the former pair serves on");
}

#[test]
fn a_missing_secret_and_an_empty_shell_lead_to_a_first_ca() {
    let blank = BTreeMap::from([("ca.crt".to_owned(), ByteString(Vec::new()))]);
    for shell in [None, Some(Secret::default()), Some(Secret { data: Some(blank), ..Default::default() })] {
        let material = Material::read(shell.as_ref());
        assert!(material.is_empty());
        assert_eq!(change(&material, start(), None), Change::Found { fault: None });
    }
    let material = founded(start());
    assert!(is_accepted(serving(&material), &material.trusted, start()));
    assert_eq!(material.trusted.len(), 1);
    assert_eq!(*serving(&material).names(), params().names());
}

#[test]
fn certificates_are_valid_a_little_before_they_were_made_and_never_beyond_their_ca() {
    let material = founded(start());
    let certificate = serving(&material);
    assert_eq!(certificate.not_before(), "2025-12-31T23:55:00Z".parse().unwrap());
    assert_eq!(certificate.not_after(), "2026-01-31T00:00:00Z".parse().unwrap());

    let late = later(authority(&material).not_after(), Duration::ZERO).checked_sub(DAY).unwrap();
    let reissued = mint(&Change::Issue { reason: String::new() }, &material, late, &params()).unwrap();
    assert_eq!(serving(&reissued).not_after(), authority(&material).not_after());
    let until = plan(&reissued, late, &params(), None);
    assert!(
        matches!(until, Step::Change(Change::Prepare { .. })),
        "no second one that could not live longer: {until:?}"
    );
}

#[test]
fn the_shortest_lives_are_backdated_by_a_tenth() {
    let params =
        Params { serving_lifetime: Duration::from_secs(20), ca_lifetime: Duration::from_mins(1), ..params() };
    let material = mint(&Change::Found { fault: None }, &Material::default(), start(), &params).unwrap();
    assert_eq!(serving(&material).not_before(), "2025-12-31T23:59:58Z".parse().unwrap());
}

#[test]
fn a_serving_certificate_is_issued_again_after_two_thirds_of_its_life() {
    let material = founded(start());
    let due = waits_until(&material, start(), None);
    assert!(due > later(start(), 19 * DAY) && due < later(start(), 20 * DAY), "{due}");
    waits_until(&material, due.checked_sub(Duration::from_secs(1)).unwrap(), None);
    assert!(matches!(change(&material, due, None), Change::Issue { .. }));

    let renewed = enact(&material, due, None);
    assert_eq!((&renewed.trusted, &renewed.authority), (&material.trusted, &material.authority));
    assert!(is_accepted(serving(&renewed), &material.trusted, due));
    assert!(waits_until(&renewed, due, None) > due);
}

#[test]
fn other_names_lead_to_another_certificate_by_the_same_ca() {
    let material = founded(start());
    let wanted = Params { dns_names: vec!["new.ns.svc".into()], ..params() };
    let Step::Change(change) = plan(&material, start(), &wanted, None) else { panic!("nothing is planned") };
    let renamed = mint(&change, &material, start(), &wanted).unwrap();
    assert_eq!(*serving(&renamed).names(), wanted.names());
    assert_eq!(renamed.trusted, material.trusted);
    assert!(matches!(plan(&renamed, start(), &wanted, None), Step::Wait { .. }));
}

#[test]
fn a_ca_is_replaced_step_by_step() {
    let old = founded(start());
    let mut now = later(start(), 250 * DAY);
    let material = enact(&enact(&old, now, None), now, None);
    assert_eq!(material.trusted.len(), 2, "both CAs are in the bundle");
    assert_eq!(material.authority, old.authority, "the old one signs");

    // As long as the bundle is not published, nothing happens.
    let before = old.bundle();
    now = later(now, DAY);
    waits_until(&material, now, Some(&before));
    waits_until(&material, now, None);

    let both = material.bundle();
    assert_eq!(change(&material, now, Some(&both)), Change::Confirm);
    let confirmed = enact(&material, now, Some(&both));
    assert_eq!(waits_until(&confirmed, now, Some(&both)), later(now, params().propagation));
    waits_until(&confirmed, later(now, HOUR), Some(&before));

    now = later(now, params().propagation);
    assert_eq!(change(&confirmed, now, Some(&both)), Change::Promote);
    let promoted = enact(&confirmed, now, Some(&both));
    assert_eq!((promoted.trusted.len(), &promoted.next), (2, &None));
    assert_eq!(authority(&promoted), confirmed.next.as_ref().unwrap().certificate());
    assert!(is_accepted(serving(&promoted), std::slice::from_ref(authority(&promoted)), now));

    assert_eq!(waits_until(&promoted, now, Some(&both)), later(now, params().propagation));
    now = later(now, params().propagation);
    assert_eq!(change(&promoted, now, Some(&both)), Change::Retire);
    let retired = enact(&promoted, now, Some(&both));
    assert_eq!(retired.trusted, [authority(&promoted).clone()]);
    assert!(waits_until(&retired, now, Some(&both)) > later(now, 19 * DAY));
}

#[test]
fn notes_that_are_lost_or_from_the_future_are_made_again() {
    let now = later(start(), 250 * DAY);
    let prepared = enact(&enact(&founded(start()), now, None), now, None);
    let both = prepared.bundle();
    let ahead = Material { next_published_at: Some(later(now, HOUR)), ..prepared.clone() };
    assert_eq!(change(&ahead, now, Some(&both)), Change::Confirm);

    let confirmed = enact(&prepared, now, Some(&both));
    let promoted = enact(&confirmed, later(now, HOUR), Some(&both));
    let undated = Material { promoted_at: None, ..promoted };
    assert_eq!(change(&undated, later(now, HOUR), Some(&both)), Change::Date);
}

#[test]
fn damaged_material_is_made_anew_and_the_fault_is_named() {
    let good = founded(start());
    let other = founded(start());
    let damage = |name: &str, value: &str| {
        let mut secret = stored(&good);
        secret.data.as_mut().unwrap().insert(name.to_owned(), ByteString(value.as_bytes().to_vec()));
        Material::read(Some(&secret))
    };
    let text = |material: &Material, name: &str| {
        String::from_utf8(stored(material).data.unwrap()[name].0.clone()).unwrap()
    };
    for (name, value) in [("tls.crt", "garbage".to_owned()), ("tls.key", text(&other, "tls.key"))] {
        let damaged = damage(name, &value);
        assert!(damaged.faults[0].starts_with("tls.crt"), "{:?}", damaged.faults);
        assert!(
            matches!(change(&damaged, start(), None), Change::Issue { .. }),
            "the CA is good and issues another"
        );
    }
    let damaged = damage("ca.crt", "garbage");
    let Change::Found { fault: Some(fault) } = change(&damaged, start(), None) else {
        panic!("not founded anew")
    };
    assert!(fault.starts_with("ca.crt"), "{fault}");
    let again = enact(&damaged, start(), None);
    assert!(is_accepted(serving(&again), &again.trusted, start()));
}

#[test]
fn a_ca_whose_key_is_lost_gets_a_successor_without_a_gap() {
    let good = founded(start());
    let mut secret = stored(&good);
    secret.data.as_mut().unwrap().remove("ca.key");
    let keyless = Material::read(Some(&secret));
    assert_eq!(keyless.faults, ["ca.key is missing"]);

    let prepared = enact(&keyless, start(), None);
    assert_eq!(prepared.serving, good.serving, "what is trusted goes on being served");
    let both = prepared.bundle();
    assert!(is_accepted(serving(&prepared), &prepared.trusted, start()) && prepared.trusted.len() == 2);

    // Read back without its key, the old CA is a fault still, and does not hold anything up.
    let prepared = Material { faults: keyless.faults, ..prepared };
    let confirmed = Material { next_published_at: Some(start()), ..prepared.clone() };
    assert_eq!(change(&prepared, start(), Some(&both)), Change::Confirm);
    assert_eq!(change(&confirmed, later(start(), HOUR), Some(&both)), Change::Promote);
}

#[test]
fn when_everything_has_expired_there_is_a_new_beginning() {
    let old = founded(start());
    let now = later(start(), 800 * DAY);
    assert!(matches!(change(&old, now, Some(&old.bundle())), Change::Found { fault: Some(_) }));
    assert_eq!(enact(&old, now, None).trusted.len(), 1, "a CA that has expired helps nobody");
}

#[test]
fn what_else_is_in_the_secret_stays() {
    let mut secret = Secret::default();
    secret.data.get_or_insert_default().insert("mine".into(), ByteString(b"kept".to_vec()));
    secret.metadata.annotations.get_or_insert_default().insert("team".into(), "a".into());
    founded(start()).write(&mut secret);
    assert_eq!(secret.data.as_ref().unwrap()["mine"].0, b"kept");
    assert_eq!(secret.metadata.annotations.unwrap()["team"], "a");
    let keys: Vec<_> = secret.data.as_ref().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["ca.crt", "ca.key", "mine", "tls.crt", "tls.key"]);
}

#[test]
fn no_key_is_ever_shown() {
    let material = founded(start());
    let shown = format!("{material:?}");
    for pair in [&material.authority, &material.serving].into_iter().flatten() {
        assert!(!shown.contains(pair.key().lines().nth(1).unwrap()));
    }
}

#[test]
fn generated_files_make_a_server_that_clients_accept() {
    let generated = generate(params().dns_names, params().ips, start()).unwrap();
    let read = |pem: &str| crate::tls::certificate::Certificate::parse_all(pem.as_bytes()).unwrap();
    let (ca, tls) = (read(&generated.ca_crt), read(&generated.tls_crt));
    assert!(is_accepted(&tls[0], &ca, later(start(), 360 * DAY)));
    let store = CertStore::new();
    store.install(generated.tls_crt.as_bytes(), generated.tls_key.as_bytes()).unwrap();
    assert!(generated.ca_key.starts_with("-----BEGIN PRIVATE KEY-----"));
}

#[test]
fn lives_too_short_to_rotate_in_are_refused() {
    assert_eq!(params().check(), Ok(()));
    let seconds = Duration::from_secs;
    let quick = Params {
        ca_lifetime: seconds(18),
        serving_lifetime: seconds(6),
        propagation: seconds(2),
        ..params()
    };
    assert_eq!(quick.check(), Ok(()));
    for (wrong, error) in [
        (Params { dns_names: vec![], ips: vec![], ..params() }, ParamsError::NoNames),
        (Params { dns_names: vec!["a b".into()], ..params() }, ParamsError::BadName("a b".into())),
        (Params { serving_lifetime: 400 * DAY, ..params() }, ParamsError::OutlivesCa),
        (
            Params { serving_lifetime: seconds(5), ..quick.clone() },
            ParamsError::TooShort { what: "serving certificate", factor: 3 },
        ),
        (Params { ca_lifetime: seconds(17), ..quick }, ParamsError::TooShort { what: "CA", factor: 9 }),
    ] {
        assert_eq!(wrong.check(), Err(error));
    }
}
