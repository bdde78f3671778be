use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use podwright_core::image::PullPolicy;
use podwright_lab::registry::{Access, Fault, LocalRegistry, Proxy, Pushed, TokenServer, User, image};
use podwright_registry::{DockerConfig, Keychain, Registry, Settings};
use serde_json::json;

use crate::world::{keychain, keychain_of, registry, settings, told};

/// The kinds of image, and what each is for.
const KINDS: [(&str, &str); 10] = [
    ("docker-list", "linux/amd64, linux/arm/v6, linux/arm64"),
    ("oci-index", "linux/amd64, linux/arm64"),
    ("docker-manifest", "linux/arm64"),
    ("oci-manifest", "linux/arm/v7"),
    ("nested", "linux/ppc64le, linux/s390x"),
    ("attested", "linux/amd64, linux/arm64"),
    ("windows", "linux/amd64, windows/amd64"),
    ("nameless-index", "invalid"),
    ("nameless-manifest", "invalid"),
    ("too-deep", "invalid"),
];

#[derive(Debug, Clone, Copy)]
enum Name {
    Tag,
    Digest,
    TagAndDigest,
    /// Neither, which means `latest`.
    Bare,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Credentials {
    Anonymous,
    Basic,
    Bearer,
    Glob,
    WrongBasic,
    WrongBearer,
    /// Right, but for others' repositories.
    ForeignBearer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Healthy,
    Refused,
    Forbidden,
    Missing,
    Limited,
    Broken,
    Silent,
}

const NAMES: [Name; 4] = [Name::Tag, Name::Digest, Name::TagAndDigest, Name::Bare];
const CREDENTIALS: [Credentials; 7] = [
    Credentials::Anonymous,
    Credentials::Basic,
    Credentials::Bearer,
    Credentials::Glob,
    Credentials::WrongBasic,
    Credentials::WrongBearer,
    Credentials::ForeignBearer,
];
const ANSWERS: [Answer; 7] = [
    Answer::Healthy,
    Answer::Refused,
    Answer::Forbidden,
    Answer::Missing,
    Answer::Limited,
    Answer::Broken,
    Answer::Silent,
];

/// One storage behind three registries: open, with passwords, with tokens.
struct Registries {
    open: LocalRegistry,
    passwords: LocalRegistry,
    tokens: LocalRegistry,
}

async fn push_all(registry: &LocalRegistry) -> Vec<(&'static str, Pushed)> {
    let repository = |kind: &str| image(&format!("team-a/{kind}"));
    let made = KINDS.map(|(kind, _)| match kind {
        "docker-list" => {
            repository(kind).docker().platforms(["linux/x86_64", "linux/arm64/v8", "linux/arm/v6"])
        }
        "oci-index" => repository(kind).platforms(["linux/arm64", "linux/amd64"]),
        "docker-manifest" => repository(kind).docker().single("linux/arm64"),
        "oci-manifest" => repository(kind).single("linux/arm"),
        "nested" => repository(kind).platforms(["linux/s390x", "linux/ppc64le"]).nested(2),
        "attested" => repository(kind).platforms(["linux/amd64", "linux/arm64"]).attested(),
        "windows" => repository(kind).platforms(["windows/amd64", "linux/amd64"]),
        "nameless-index" => repository(kind).platforms(["linux/amd64", "linux/arm64"]).unnamed(),
        "nameless-manifest" => repository(kind).single("linux/amd64").unnamed(),
        _ => repository(kind).nested(3),
    });
    let mut pushed = Vec::new();
    for ((kind, _), image) in KINDS.into_iter().zip(made) {
        image.clone().push(registry).await.unwrap();
        pushed.push((kind, image.tag("v1").push(registry).await.unwrap()));
    }
    pushed
}

fn named(image: &Pushed, name: Name, answer: Answer) -> String {
    let base = format!("{}/{}", image.registry, image.repository);
    let missing = answer == Answer::Missing;
    let digest = if missing { format!("sha256:{}", "0".repeat(64)) } else { image.digest.clone() };
    match name {
        Name::Tag if missing => format!("{base}:missing"),
        Name::Bare if missing => format!("{base}-missing"),
        Name::Tag => image.by_tag(),
        Name::Digest => format!("{base}@{digest}"),
        Name::TagAndDigest => format!("{base}:v1@{digest}"),
        Name::Bare => base,
    }
}

/// A secret, in each of the ways in which secrets are written.
fn shown(credentials: Credentials, host: &str) -> Keychain {
    let entry = |password: &str| json!({"username": User::A.name(), "password": password});
    match credentials {
        Credentials::Anonymous => Keychain::default(),
        Credentials::Basic => keychain_of(User::A, host),
        Credentials::Bearer => keychain(&json!({"auths": {host: entry(User::A.password())}}).to_string()),
        Credentials::Glob => {
            let key = format!("https://{}/team-a", host.replacen("127.0", "1*.[0-9]", 1));
            let secret = json!({key: entry(User::A.password())}).to_string();
            Keychain::new([Arc::new(DockerConfig::from_dockercfg(secret.as_bytes()).unwrap())])
        }
        Credentials::WrongBasic | Credentials::WrongBearer => {
            keychain(&json!({"auths": {host: entry("wrong")}}).to_string())
        }
        Credentials::ForeignBearer => keychain_of(User::B, host),
    }
}

fn expected(kind: &str, credentials: Credentials, answer: Answer) -> &'static str {
    use Credentials::{ForeignBearer, WrongBasic, WrongBearer};
    let refused = matches!(credentials, WrongBasic | WrongBearer | ForeignBearer);
    match answer {
        Answer::Refused | Answer::Forbidden => "unauthorized",
        Answer::Limited => "rate_limited",
        Answer::Broken => "unavailable",
        Answer::Silent => "timeout",
        Answer::Healthy | Answer::Missing if refused => "unauthorized",
        Answer::Missing => "not_found",
        Answer::Healthy => KINDS.iter().find(|(known, _)| *known == kind).unwrap().1,
    }
}

async fn before(upstream: &LocalRegistry, answer: Answer) -> Proxy {
    let proxy = Proxy::start(&upstream.address()).await.unwrap();
    let fault = match answer {
        Answer::Healthy | Answer::Missing => None,
        Answer::Refused => Some(Fault::Status(401, None)),
        Answer::Forbidden => Some(Fault::Status(403, None)),
        Answer::Limited => Some(Fault::Status(429, Some(120))),
        Answer::Broken => Some(Fault::Status(500, None)),
        Answer::Silent => Some(Fault::Hang),
    };
    if let Some(fault) = fault {
        proxy.fault("/v2/", fault);
    }
    proxy
}

fn client(proxy: &Proxy) -> Registry {
    registry(Settings {
        patience: Duration::from_secs(25),
        requests_per_host: 32,
        // What a breaker does has tests of its own.
        breaker_failures: u32::MAX,
        ..settings([proxy.address().as_str()])
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_image_under_every_name_with_every_credential_and_every_answer_comes_to_what_it_should()
{
    let open = LocalRegistry::start(Access::Open).await.unwrap();
    let images = push_all(&open).await;
    let tokens = open.beside(Access::Tokens(TokenServer::start().await.unwrap())).await.unwrap();
    let registries = Registries { passwords: open.beside(Access::Passwords).await.unwrap(), tokens, open };
    let mut proxies = Vec::new();
    let mut cases = Vec::new();
    for answer in ANSWERS {
        for credentials in CREDENTIALS {
            let upstream = match credentials {
                Credentials::Anonymous => &registries.open,
                Credentials::Basic | Credentials::Glob | Credentials::WrongBasic => &registries.passwords,
                _ => &registries.tokens,
            };
            let proxy = before(upstream, answer).await;
            let shared = client(&proxy);
            for name in NAMES {
                // Where there are answers, none may find what another has left in the cache.
                let client = if answer == Answer::Healthy { client(&proxy) } else { shared.clone() };
                for (kind, image) in &images {
                    let image = image.at(&proxy.address());
                    cases.push((client.clone(), *kind, image, name, credentials, answer));
                }
            }
            proxies.push(proxy);
        }
    }
    let total = cases.len();
    let wrong: Vec<String> = stream::iter(cases)
        .map(|(client, kind, image, name, credentials, answer)| async move {
            let reference = named(&image, name, answer).parse().unwrap();
            let time =
                if answer == Answer::Silent { Duration::from_millis(200) } else { Duration::from_secs(30) };
            let keychain = shown(credentials, &image.registry);
            let outcome = client
                .platforms(&reference, PullPolicy::IfNotPresent, &keychain, Instant::now() + time)
                .await;
            let (told, expected) = (told(&outcome), expected(kind, credentials, answer));
            let why = outcome.err().map(|error| error.to_string()).unwrap_or_default();
            (told != expected).then(|| {
                format!("{kind} {name:?} {credentials:?} {answer:?}: {told} instead of {expected} {why}")
            })
        })
        .buffer_unordered(64)
        .filter_map(|wrong| async { wrong })
        .collect()
        .await;
    assert_eq!(total, 10 * 4 * 7 * 7);
    assert!(wrong.is_empty(), "{} of {total} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
