use std::{sync::Arc, time::Duration};

use podwright_core::image::PullPolicy::Always;
use podwright_lab::registry::{Access, Fault, LocalRegistry, Proxy, TokenServer, User, image};
use podwright_registry::{DockerConfig, Keychain, LookupError, Registry};

use crate::world::{Hands, ask, ask_with, keychain, keychain_of, registry, settings, told};

struct Guarded {
    _upstream: LocalRegistry,
    server: Arc<TokenServer>,
    proxy: Proxy,
}

async fn guarded() -> Guarded {
    let server = TokenServer::start().await.unwrap();
    let upstream = LocalRegistry::start(Access::Tokens(server.clone())).await.unwrap();
    for repository in ["public/app", "team-a/app", "team-a/other"] {
        image(repository).single("linux/arm64").push(&upstream).await.unwrap();
    }
    let proxy = Proxy::start(&upstream.address()).await.unwrap();
    Guarded { _upstream: upstream, server, proxy }
}

#[tokio::test]
async fn tokens_are_had_with_a_password_with_an_identity_token_and_by_nobody_in_particular() {
    let Guarded { server, proxy, _upstream } = guarded().await;
    let host = proxy.address();
    for (repository, keychain, expected) in [
        ("public/app", Keychain::default(), "linux/arm64"),
        ("team-a/app", Keychain::default(), "unauthorized"),
        ("team-a/app", keychain_of(User::A, &host), "linux/arm64"),
        ("team-a/app", keychain(&server.identity_config(&host)), "linux/arm64"),
        ("team-a/app", keychain_of(User::B, &host), "unauthorized"),
    ] {
        let client = registry(settings([host.as_str()]));
        assert_eq!(
            told(&ask(&client, &format!("{host}/{repository}"), &keychain).await),
            expected,
            "{repository}"
        );
    }
}

#[tokio::test]
async fn a_token_serves_until_it_ends_and_no_request_goes_out_without_it() {
    let Guarded { server, proxy, _upstream } = guarded().await;
    let (host, hands) = (proxy.address(), Hands::new());
    server.claim_life(Duration::from_secs(100));
    let client = Registry::with_clock(settings([host.as_str()]), Arc::new(()), hands.clock()).unwrap();
    let (name, keychain) = (format!("{host}/team-a/app"), keychain_of(User::A, &host));
    for (time, tokens) in [(0, 1), (80, 1), (20, 2)] {
        hands.pass(Duration::from_secs(time));
        assert_eq!(told(&ask_with(&client, &name, Always, &keychain).await), "linux/arm64");
        assert_eq!(server.issued(), tokens);
    }
    ask(&client, &format!("{host}/team-a/other"), &keychain).await.unwrap();
    let unauthorised = proxy.seen().iter().filter(|seen| seen.authorization.is_none()).count();
    assert_eq!(unauthorised, 1, "only the very first request has to be told how to ask");
}

#[tokio::test]
async fn a_token_that_is_refused_before_its_time_is_replaced_once() {
    let Guarded { server, proxy, _upstream } = guarded().await;
    let host = proxy.address();
    let client = registry(settings([host.as_str()]));
    let (name, keychain) = (format!("{host}/team-a/app"), keychain_of(User::A, &host));
    ask(&client, &name, &keychain).await.unwrap();
    proxy.fault_times("HEAD", Fault::DropCredential, 1);
    assert_eq!(told(&ask_with(&client, &name, Always, &keychain).await), "linux/arm64");
    assert_eq!(server.issued(), 2);
    proxy.fault("HEAD", Fault::DropCredential);
    assert_eq!(told(&ask_with(&client, &name, Always, &keychain).await), "unauthorized");
    assert_eq!(server.issued(), 3);
}

#[tokio::test]
async fn all_credentials_that_match_are_tried_the_most_specific_first() {
    let Guarded { proxy, _upstream, .. } = guarded().await;
    let host = proxy.address();
    let secrets = [User::B.docker_config(&format!("{host}/team-a")), User::A.docker_config("127.0.0.*:*")];
    let named = |secret: &String| Arc::new(DockerConfig::from_dockerconfigjson(secret.as_bytes()).unwrap());
    let image = format!("{host}/team-a/app");

    // A port is no place for a glob.
    let error =
        ask(&registry(settings([host.as_str()])), &image, &Keychain::new(secrets.iter().map(named))).await;
    assert!(matches!(error, Err(LookupError::Unauthorized { credentials: 1, .. })), "{error:?}");

    let port = host.rsplit(':').next().unwrap();
    let secrets = [secrets[0].clone(), User::A.docker_config(&format!("127.0.0.*:{port}"))];
    let keychain = Keychain::new(secrets.iter().map(named));
    assert_eq!(told(&ask(&registry(settings([host.as_str()])), &image, &keychain).await), "linux/arm64");
}

#[tokio::test]
async fn nobody_is_asked_anonymously_for_whom_there_is_a_credential() {
    let Guarded { proxy, _upstream, .. } = guarded().await;
    let host = proxy.address();
    let wrong = keychain(&format!(r#"{{"auths":{{"{host}":{{"username":"x","password":"y"}}}}}}"#));
    let client = registry(settings([host.as_str()]));
    let outcome = ask(&client, &format!("{host}/public/app"), &wrong).await;
    assert_eq!(told(&outcome), "unauthorized", "the kubelet could not pull it either");
    assert!(outcome.unwrap_err().to_string().contains("refuses the one credential that matches"));
}
