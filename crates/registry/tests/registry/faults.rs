use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use podwright_core::image::PullPolicy;
use podwright_lab::registry::{Access, Fault, LocalRegistry, Proxy, Pushed, User, image};
use podwright_registry::{
    Keychain, LookupError, LookupResult, Registry, RequestKind, RequestResult, Settings,
};

use crate::world::{Counts, ask, keychain_of, registry, settings, told};

async fn app_behind_a_proxy() -> (LocalRegistry, Proxy, Pushed) {
    let upstream = LocalRegistry::start(Access::Open).await.unwrap();
    let app = image("app").single("linux/arm64").push(&upstream).await.unwrap();
    let proxy = Proxy::start(&upstream.address()).await.unwrap();
    let app = app.at(&proxy.address());
    (upstream, proxy, app)
}

#[tokio::test]
async fn a_registry_that_asks_for_a_moment_gets_it() {
    let (_upstream, proxy, app) = app_behind_a_proxy().await;
    for (fault, wait) in
        [(Fault::Status(429, Some(1)), 1), (Fault::Status(503, Some(1)), 1), (Fault::Status(500, None), 0)]
    {
        for request in ["HEAD", "manifests/sha256", "blobs/"] {
            proxy.heal();
            proxy.fault_times(request, fault.clone(), 1);
            let begun = Instant::now();
            let client = registry(settings([proxy.address().as_str()]));
            assert_eq!(
                told(&ask(&client, &app.by_tag(), &Keychain::default()).await),
                "linux/arm64",
                "{fault:?} {request}"
            );
            assert!(begun.elapsed() >= Duration::from_secs(wait), "{fault:?} {request}");
        }
    }
}

#[tokio::test]
async fn a_registry_that_asks_for_longer_than_we_have_is_left_alone_for_as_long() {
    let (_upstream, proxy, app) = app_behind_a_proxy().await;
    let counts = Arc::new(Counts::default());
    let client = Registry::new(settings([proxy.address().as_str()]), counts.clone()).unwrap();
    proxy.fault_times("HEAD", Fault::Status(429, Some(600)), 1);
    for _ in 0..3 {
        let error = ask(&client, &app.by_tag(), &Keychain::default()).await.unwrap_err();
        let LookupError::RateLimited { retry_after: Some(wait), .. } = &error else { panic!("{error}") };
        assert!((590..=600).contains(&wait.as_secs()), "{error}");
    }
    assert_eq!(proxy.seen().len(), 1);
    assert_eq!(counts.requests(RequestKind::Head, RequestResult::RateLimited), 1);
    assert_eq!(counts.lookups(LookupResult::RateLimited), 3);
}

#[tokio::test]
async fn an_answer_that_never_ends_in_time_or_size_is_cut() {
    let (_upstream, proxy, app) = app_behind_a_proxy().await;
    let client = || {
        let quick = Settings {
            request_timeout: Duration::from_millis(200),
            patience: Duration::from_secs(10),
            ..settings([proxy.address().as_str()])
        };
        registry(quick)
    };
    for request in ["manifests/sha256", "blobs/"] {
        proxy.heal();
        proxy.fault(request, Fault::Stall);
        let error = ask(&client(), &app.by_tag(), &Keychain::default()).await.unwrap_err();
        assert!(error.to_string().contains("no answer within 200ms"), "{request}: {error}");
        proxy.heal();
        proxy.fault(request, Fault::Flood);
        let error = ask(&registry(settings([proxy.address().as_str()])), &app.by_tag(), &Keychain::default())
            .await
            .unwrap_err();
        assert!(
            matches!(&error, LookupError::Invalid { reason, .. } if reason.contains("longer than")),
            "{request}: {error}"
        );
    }
}

#[tokio::test]
async fn what_does_not_match_its_digest_is_not_believed() {
    let (_upstream, proxy, app) = app_behind_a_proxy().await;
    for (request, image) in
        [("manifests/sha256", app.by_tag()), ("manifests/sha256", app.by_digest()), ("blobs/", app.by_tag())]
    {
        proxy.heal();
        proxy.fault(&format!("GET /v2/app/{request}"), Fault::Damage);
        let error = ask(&registry(settings([proxy.address().as_str()])), &image, &Keychain::default())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("not what the digest names"), "{request}: {error}");
    }
}

#[tokio::test]
async fn registries_that_tell_no_digest_or_know_no_head_are_asked_by_get() {
    let (_upstream, proxy, app) = app_behind_a_proxy().await;
    for fault in [Fault::HideDigest, Fault::Status(405, None), Fault::Status(501, None)] {
        proxy.heal();
        proxy.fault("HEAD", fault.clone());
        let client = registry(settings([proxy.address().as_str()]));
        assert_eq!(
            told(&ask(&client, &app.by_tag(), &Keychain::default()).await),
            "linux/arm64",
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn a_caller_whose_time_is_up_leaves_the_lookup_running_for_the_next() {
    let (_upstream, proxy, app) = app_behind_a_proxy().await;
    proxy.fault_times("HEAD", Fault::Status(503, Some(1)), 1);
    let client = registry(settings([proxy.address().as_str()]));
    let reference = app.by_tag().parse().unwrap();
    let soon = Instant::now() + Duration::from_millis(50);
    let error =
        client.platforms(&reference, PullPolicy::IfNotPresent, &Keychain::default(), soon).await.unwrap_err();
    assert_eq!(error.class(), "timeout");
    podwright_lab::eventually(Duration::from_secs(10), || async {
        let known = client.peek(&reference, PullPolicy::IfNotPresent, &Keychain::default());
        known.ok_or_else(|| anyhow::anyhow!("not known yet"))
    })
    .await
    .unwrap();
    assert_eq!(proxy.count("HEAD"), 2);
}

#[tokio::test]
async fn a_redirect_is_followed_and_takes_no_credential_to_strangers() {
    let open = LocalRegistry::start(Access::Open).await.unwrap();
    let private = open.beside(Access::Passwords).await.unwrap();
    let app = image("app").single("linux/arm64").push(&open).await.unwrap();
    let stranger = Proxy::start(&open.address()).await.unwrap();
    let proxy = Proxy::start(&private.address()).await.unwrap();
    proxy.fault("blobs/", Fault::Redirect(stranger.address()));
    let client = registry(settings([proxy.address().as_str()]));
    let keychain = keychain_of(User::A, &proxy.address());
    assert_eq!(told(&ask(&client, &app.at(&proxy.address()).by_tag(), &keychain).await), "linux/arm64");
    assert!(proxy.seen().iter().any(|seen| seen.path.contains("/blobs/") && seen.authorization.is_some()));
    let strange = stranger.seen();
    assert!(!strange.is_empty() && strange.iter().all(|seen| seen.authorization.is_none()), "{strange:?}");

    proxy.heal();
    proxy.fault("blobs/", Fault::Redirect(proxy.address()));
    let error =
        ask(&registry(settings([proxy.address().as_str()])), &app.at(&proxy.address()).by_tag(), &keychain)
            .await;
    assert!(error.unwrap_err().to_string().contains("redirects without end"));
}

#[tokio::test]
async fn no_error_tells_a_secret() {
    let upstream = LocalRegistry::start(Access::Passwords).await.unwrap();
    let app = image("app").single("linux/arm64").push(&upstream).await.unwrap();
    let proxy = Proxy::start(&upstream.address()).await.unwrap();
    let keychain = keychain_of(User::A, &proxy.address());
    for fault in
        [Fault::Status(401, None), Fault::Status(500, None), Fault::Damage, Fault::Redirect("[".into())]
    {
        proxy.heal();
        proxy.fault("/v2/app/", fault.clone());
        let patience = Duration::from_millis(500);
        let client = registry(Settings { patience, ..settings([proxy.address().as_str()]) });
        let error = ask(&client, &app.at(&proxy.address()).by_tag(), &keychain).await.unwrap_err();
        for text in [error.to_string(), format!("{error:?}"), format!("{keychain:?}")] {
            let encoded = User::A.basic().trim_start_matches("Basic ").to_owned();
            assert!(!text.contains(User::A.password()) && !text.contains(&encoded), "{fault:?}: {text}");
        }
    }
}
