use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use podwright_core::image::PullPolicy::{Always, IfNotPresent};
use podwright_lab::registry::{Access, Fault, LocalRegistry, Proxy, image};
use podwright_registry::{Keychain, LookupResult, Registry, Settings, Wanted, Warmed};

use crate::world::{Counts, Hands, ask, ask_with, manifests, registry, settings, told};

const DAY: Duration = Duration::from_hours(24);

struct Bench {
    upstream: LocalRegistry,
    proxy: Proxy,
    hands: Hands,
    counts: Arc<Counts>,
    client: Registry,
}

async fn bench(change: impl FnOnce(&mut Settings)) -> Bench {
    let upstream = LocalRegistry::start(Access::Open).await.unwrap();
    let proxy = Proxy::start(&upstream.address()).await.unwrap();
    let (hands, counts) = (Hands::new(), Arc::new(Counts::default()));
    let mut settings = settings([proxy.address().as_str()]);
    change(&mut settings);
    let client = Registry::with_clock(settings, counts.clone(), hands.clock()).unwrap();
    Bench { upstream, proxy, hands, counts, client }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_lookups_at_once_are_one_fetch() {
    let upstream = LocalRegistry::start(Access::Open).await.unwrap();
    let app = image("app").platforms(["linux/amd64", "linux/arm64"]).push(&upstream).await.unwrap();
    let client = registry(settings([upstream.address().as_str()]));
    let image = app.by_tag();
    let answers = join_all((0..100).map(|_| {
        let (client, image) = (client.clone(), image.clone());
        tokio::spawn(async move { told(&ask(&client, &image, &Keychain::default()).await) })
    }))
    .await;
    assert!(answers.into_iter().all(|answer| answer.unwrap() == "linux/amd64, linux/arm64"));
    // The registry writes its log after it has answered, so the push may still be on its way into it: that was by POST and PUT.
    let asked = podwright_lab::eventually(Duration::from_secs(5), || async {
        let mut asked = upstream.logged()?;
        asked.retain(|request| matches!(&*request.method, "HEAD" | "GET"));
        anyhow::ensure!(asked.len() >= 2, "{asked:?}");
        Ok(asked)
    })
    .await
    .unwrap();
    let methods: Vec<&str> = asked.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(methods, ["HEAD", "GET"]);
}

#[tokio::test]
async fn a_tag_holds_for_its_time_and_is_then_asked_for_by_head_alone() {
    let bench = bench(|_| {}).await;
    let app = image("app")
        .platforms(["linux/arm64"])
        .push(&bench.upstream)
        .await
        .unwrap()
        .at(&bench.proxy.address());
    let nobody = Keychain::default();
    for (time, expected) in
        [(Duration::ZERO, (1, 1)), (6 * DAY, (1, 1)), (2 * DAY, (2, 1)), (6 * DAY, (2, 1))]
    {
        bench.hands.pass(time);
        assert_eq!(told(&ask(&bench.client, &app.by_tag(), &nobody).await), "linux/arm64");
        assert_eq!(manifests(&bench.proxy), expected);
    }
    assert_eq!(bench.counts.lookups(LookupResult::Fetched), 1);
    assert_eq!(bench.counts.lookups(LookupResult::Hit), 2);
    assert_eq!(bench.counts.lookups(LookupResult::Revalidated), 1);

    image("app").platforms(["linux/amd64"]).push(&bench.upstream).await.unwrap();
    assert_eq!(
        told(&ask(&bench.client, &app.by_tag(), &nobody).await),
        "linux/arm64",
        "the tag moved unseen"
    );
    bench.hands.pass(8 * DAY);
    assert_eq!(told(&ask(&bench.client, &app.by_tag(), &nobody).await), "linux/amd64");
    assert_eq!(manifests(&bench.proxy), (3, 2));
}

#[tokio::test]
async fn always_asks_each_time_but_only_by_head_and_sees_a_moved_tag_at_once() {
    let bench = bench(|_| {}).await;
    let app = image("app")
        .platforms(["linux/arm64"])
        .push(&bench.upstream)
        .await
        .unwrap()
        .at(&bench.proxy.address());
    let nobody = Keychain::default();
    for times in 1..=5 {
        assert_eq!(told(&ask_with(&bench.client, &app.by_tag(), Always, &nobody).await), "linux/arm64");
        assert_eq!(manifests(&bench.proxy), (times, 1));
    }
    assert!(bench.client.peek(&app.by_tag().parse().unwrap(), Always, &nobody).is_none());
    assert!(bench.client.peek(&app.by_tag().parse().unwrap(), IfNotPresent, &nobody).is_some());
    image("app").platforms(["linux/amd64"]).push(&bench.upstream).await.unwrap();
    assert_eq!(told(&ask_with(&bench.client, &app.by_tag(), Always, &nobody).await), "linux/amd64");
}

#[tokio::test]
async fn always_may_be_given_a_time_of_its_own() {
    let bench = bench(|settings| settings.always = Some(Duration::from_mins(1))).await;
    let app =
        image("app").single("linux/arm64").push(&bench.upstream).await.unwrap().at(&bench.proxy.address());
    for (time, heads) in [(0, 1), (59, 1), (2, 2)] {
        bench.hands.pass(Duration::from_secs(time));
        assert_eq!(
            told(&ask_with(&bench.client, &app.by_tag(), Always, &Keychain::default()).await),
            "linux/arm64"
        );
        assert_eq!(manifests(&bench.proxy).0, heads);
    }
}

#[tokio::test]
async fn a_digest_is_asked_for_once_for_ever() {
    let bench = bench(|_| {}).await;
    let app = image("app")
        .platforms(["linux/arm64"])
        .push(&bench.upstream)
        .await
        .unwrap()
        .at(&bench.proxy.address());
    for name in [app.by_digest(), format!("{}@{}", app.by_tag(), app.digest)] {
        for policy in [IfNotPresent, Always, IfNotPresent] {
            assert_eq!(
                told(&ask_with(&bench.client, &name, policy, &Keychain::default()).await),
                "linux/arm64"
            );
            bench.hands.pass(1000 * DAY);
        }
    }
    assert_eq!(manifests(&bench.proxy), (0, 1));
}

#[tokio::test]
async fn a_no_is_remembered_shortly_and_a_fault_not_at_all() {
    let bench = bench(|_| {}).await;
    let name = format!("{}/app:v1", bench.proxy.address());
    let nobody = Keychain::default();
    for _ in 0..5 {
        assert_eq!(told(&ask(&bench.client, &name, &nobody).await), "not_found");
    }
    assert_eq!(bench.proxy.seen().len(), 1);
    image("app").tag("v1").single("linux/arm64").push(&bench.upstream).await.unwrap();
    assert_eq!(told(&ask(&bench.client, &name, &nobody).await), "not_found");
    bench.hands.pass(Duration::from_secs(11));
    bench.proxy.fault("/v2/", Fault::Status(429, None));
    assert_eq!(told(&ask(&bench.client, &name, &nobody).await), "rate_limited");
    bench.proxy.heal();
    bench.hands.pass(Duration::from_secs(11));
    assert_eq!(told(&ask(&bench.client, &name, &nobody).await), "linux/arm64");
}

#[tokio::test]
async fn an_image_that_is_gone_is_forgotten() {
    let bench = bench(|_| {}).await;
    let app =
        image("app").single("linux/arm64").push(&bench.upstream).await.unwrap().at(&bench.proxy.address());
    let nobody = Keychain::default();
    assert_eq!(told(&ask(&bench.client, &app.by_tag(), &nobody).await), "linux/arm64");
    bench.proxy.fault("/v2/", Fault::Status(404, None));
    assert_eq!(told(&ask_with(&bench.client, &app.by_tag(), Always, &nobody).await), "not_found");
    bench.proxy.heal();
    bench.proxy.fault("/v2/", Fault::Status(429, None));
    bench.hands.pass(Duration::from_secs(11));
    assert_eq!(
        told(&ask(&bench.client, &app.by_tag(), &nobody).await),
        "rate_limited",
        "no stale answer is left"
    );
}

#[tokio::test]
async fn what_is_remembered_keeps_within_its_bytes() {
    const BOUND: u64 = 20_000;
    let bench = bench(|settings| {
        settings.cache_bytes = BOUND;
        settings.requests_per_host = 16;
    })
    .await;
    let platforms: Vec<String> = (0..40).map(|number| format!("linux/arm/v{number}")).collect();
    let many = image("many").platforms(platforms.iter().map(String::as_str));
    let many = many.push(&bench.upstream).await.unwrap().at(&bench.proxy.address());
    let nobody = Keychain::default();
    assert_eq!(ask(&bench.client, &many.by_tag(), &nobody).await.unwrap().len(), 40);
    let one = bench.client.cached_bytes();
    assert!(one > 40 * 50, "{one} bytes for 40 platforms");
    join_all((0..200).map(|number| {
        let client = bench.client.clone();
        let name = format!("{}/missing:v{number}", bench.proxy.address());
        async move { ask(&client, &name, &Keychain::default()).await.unwrap_err() }
    }))
    .await;
    let bytes = bench.client.cached_bytes();
    assert!(bytes <= BOUND && bytes > BOUND / 2, "{bytes}");
    assert!(
        bench.client.peek(&many.by_tag().parse().unwrap(), IfNotPresent, &nobody).is_none(),
        "the oldest goes first"
    );
}

#[tokio::test]
async fn what_was_warmed_up_is_there_without_asking() {
    let bench = bench(|_| {}).await;
    let mut wanted = Vec::new();
    for number in 0..10 {
        let app = image(&format!("app-{number}")).single("linux/arm64").push(&bench.upstream).await.unwrap();
        let reference = app.at(&bench.proxy.address()).by_tag().parse().unwrap();
        wanted.push(Wanted { reference, policy: IfNotPresent, keychain: Keychain::default() });
    }
    let missing = format!("{}/missing", bench.proxy.address()).parse().unwrap();
    let asked = wanted.iter().cloned().chain([Wanted { reference: missing, ..wanted[0].clone() }]);
    assert_eq!(bench.client.warm(asked).await, Warmed { known: 10, failed: 1 });
    for Wanted { reference, policy, keychain } in &wanted {
        assert!(bench.client.peek(reference, *policy, keychain).is_some(), "{reference}");
    }
}
