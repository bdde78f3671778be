use podwright_lab::registry::{Access, Fault, LocalRegistry, Proxy, User, image};
use podwright_registry::{HostSettings, Keychain, Settings};

use crate::world::{ask, keychain_of, registry, settings, told};

/// A registry where nobody is, so that only its mirrors can answer.
const ELSEWHERE: &str = "127.0.0.2";

fn mirrored(mirrors: &[&str]) -> Settings {
    let hosts = mirrors.iter().map(|mirror| mirror.split('/').next().unwrap());
    let mut settings = settings(hosts);
    let mirrors = mirrors.iter().map(|mirror| mirror.parse().unwrap()).collect();
    settings.hosts.insert(ELSEWHERE.to_owned(), HostSettings { mirrors, ..HostSettings::default() });
    settings
}

#[tokio::test]
async fn mirrors_are_asked_in_turn_before_the_registry_itself() {
    let upstream = LocalRegistry::start(Access::Open).await.unwrap();
    let app = image("hub/team/app").single("linux/arm64").push(&upstream).await.unwrap();
    let (broken, good) =
        (Proxy::start(&upstream.address()).await.unwrap(), Proxy::start(&upstream.address()).await.unwrap());
    broken.fault("/v2/", Fault::Status(404, None));
    let settings = mirrored(&[&broken.address(), &format!("{}/hub", good.address())]);
    for name in [format!("{ELSEWHERE}/team/app"), format!("{ELSEWHERE}/team/app:v1@{}", app.digest)] {
        assert_eq!(told(&ask(&registry(settings.clone()), &name, &Keychain::default()).await), "linux/arm64");
    }
    assert!(broken.count("/v2/team/app/") > 0);
    let missing = ask(&registry(settings), &format!("{ELSEWHERE}/team/other"), &Keychain::default()).await;
    assert_eq!(told(&missing), "unavailable", "what the registry itself says is what counts");
    assert!(missing.unwrap_err().to_string().contains(ELSEWHERE));
}

#[tokio::test]
async fn a_mirror_never_sees_the_credentials_of_the_registry() {
    let upstream = LocalRegistry::start(Access::Open).await.unwrap();
    let private = upstream.beside(Access::Passwords).await.unwrap();
    image("app").single("linux/arm64").push(&upstream).await.unwrap();
    let mirror = Proxy::start(&private.address()).await.unwrap();
    let settings = mirrored(&[&mirror.address()]);
    let image = format!("{ELSEWHERE}/app");
    ask(&registry(settings.clone()), &image, &keychain_of(User::A, ELSEWHERE)).await.unwrap_err();
    assert!(!mirror.seen().is_empty() && mirror.seen().iter().all(|seen| seen.authorization.is_none()));
    let own = keychain_of(User::A, &mirror.address());
    assert_eq!(told(&ask(&registry(settings), &image, &own).await), "linux/arm64");
}

#[tokio::test]
async fn tls_is_verified_against_the_hosts_own_ca() {
    let open = LocalRegistry::start(Access::Open).await.unwrap();
    let app = image("app").single("linux/arm64").push(&open).await.unwrap();
    let encrypted = open.beside_with_tls(Access::Passwords).await.unwrap();
    let (host, ca) = (encrypted.address(), encrypted.ca().unwrap().as_bytes().to_vec());
    let keychain = keychain_of(User::A, &host);
    let image = app.at(&host).by_tag();
    let with = |ca: Option<Vec<u8>>| {
        let special = HostSettings { ca, ..HostSettings::default() };
        let patience = std::time::Duration::from_secs(2);
        registry(Settings { hosts: [(host.clone(), special)].into(), patience, ..Settings::default() })
    };
    assert_eq!(told(&ask(&with(Some(ca)), &image, &keychain).await), "linux/arm64");
    let error = ask(&with(None), &image, &keychain).await.unwrap_err();
    assert!(
        error.class() == "unavailable"
            && error.to_string().contains("certificate is not trusted (UnknownIssuer)"),
        "{error}"
    );
    let error = ask(&registry(settings([host.as_str()])), &image, &keychain).await.unwrap_err();
    assert_eq!(error.class(), "invalid", "plain HTTP to a server with TLS: {error}");
    let plain = registry(Settings { patience: std::time::Duration::from_secs(2), ..Settings::default() });
    let error = ask(&plain, &app.by_tag(), &Keychain::default()).await.unwrap_err();
    assert!(error.to_string().contains("does not speak TLS"), "TLS to a server without: {error}");
}
