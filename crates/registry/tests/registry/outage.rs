use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use podwright_core::image::PullPolicy::Always;
use podwright_lab::registry::{Access, Fault, LocalRegistry, Proxy, image};
use podwright_registry::{Keychain, LookupResult, Registry, Settings};

use crate::world::{Counts, Hands, ask, ask_with, settings, told};

#[tokio::test]
async fn when_the_registry_is_down_known_images_stay_known_and_when_it_is_back_so_are_the_others() {
    let mut upstream = LocalRegistry::start(Access::Open).await.unwrap();
    let known = image("known").single("linux/arm64").push(&upstream).await.unwrap();
    let unknown = image("unknown").single("linux/amd64").push(&upstream).await.unwrap();
    let (hands, counts, nobody) = (Hands::new(), Arc::new(Counts::default()), Keychain::default());
    let client =
        Registry::with_clock(settings([upstream.address().as_str()]), counts.clone(), hands.clock()).unwrap();
    assert_eq!(told(&ask(&client, &known.by_tag(), &nobody).await), "linux/arm64");

    upstream.stop().await.unwrap();
    hands.pass(Duration::from_hours(30 * 24));
    for policy_always in [false, true, true] {
        let outcome = if policy_always {
            ask_with(&client, &known.by_tag(), Always, &nobody).await
        } else {
            ask(&client, &known.by_tag(), &nobody).await
        };
        assert_eq!(told(&outcome), "linux/arm64");
    }
    assert_eq!(counts.lookups(LookupResult::Stale), 3);
    let error = ask(&client, &unknown.by_tag(), &nobody).await.unwrap_err();
    assert_eq!(error.class(), "unavailable", "{error}");

    upstream.start_again().await.unwrap();
    hands.pass(Duration::from_secs(11));
    assert_eq!(told(&ask(&client, &unknown.by_tag(), &nobody).await), "linux/amd64");
    assert_eq!(told(&ask_with(&client, &known.by_tag(), Always, &nobody).await), "linux/arm64");
    assert_eq!(counts.lookups(LookupResult::Stale), 3);
}

#[tokio::test]
async fn a_registry_that_hangs_does_not_keep_known_images_waiting_beyond_the_deadline() {
    let upstream = LocalRegistry::start(Access::Open).await.unwrap();
    let app = image("app").single("linux/arm64").push(&upstream).await.unwrap();
    let proxy = Proxy::start(&upstream.address()).await.unwrap();
    let client = Registry::new(settings([proxy.address().as_str()]), Arc::new(())).unwrap();
    let reference = app.at(&proxy.address()).by_tag().parse().unwrap();
    let within = |time| Instant::now() + Duration::from_millis(time);
    client.platforms(&reference, Always, &Keychain::default(), within(5_000)).await.unwrap();
    proxy.fault("/v2/", Fault::Hang);
    let begun = Instant::now();
    let outcome = client.platforms(&reference, Always, &Keychain::default(), within(100)).await;
    assert_eq!(told(&outcome), "linux/arm64");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_host_that_fails_again_and_again_is_left_alone_and_then_tried_by_one() {
    let upstream = LocalRegistry::start(Access::Open).await.unwrap();
    let proxy = Proxy::start(&upstream.address()).await.unwrap();
    image("app").single("linux/arm64").push(&upstream).await.unwrap();
    let hands = Hands::new();
    let client =
        Registry::with_clock(settings([proxy.address().as_str()]), Arc::new(()), hands.clock()).unwrap();
    let lookups = |from: usize| {
        let (client, host) = (client.clone(), proxy.address());
        async move {
            let names = (from..from + 20).map(|number| format!("{host}/app:v{number}"));
            let names: Vec<String> = names.collect();
            let nobody = Keychain::default();
            join_all(names.iter().map(|name| ask(&client, name, &nobody))).await
        }
    };
    proxy.fault("/v2/", Fault::Status(500, None));
    assert!(lookups(0).await.iter().all(|outcome| told(outcome) == "unavailable"));
    let asked = proxy.seen().len();
    assert!((5..=5 + 8).contains(&asked), "five faults, and what was under way: {asked}");

    let refused = lookups(100).await;
    assert_eq!(proxy.seen().len(), asked, "open: nobody is asked");
    let text = refused[0].as_ref().unwrap_err().to_string();
    assert!(
        text.contains(
            " faults in a row, the last: it answers 500 Internal Server Error; it is asked again in 10 s"
        ),
        "{text}"
    );

    hands.pass(Duration::from_secs(10));
    lookups(200).await;
    assert_eq!(proxy.seen().len(), asked + 1, "one finds out for all");

    proxy.heal();
    hands.pass(Duration::from_secs(10));
    assert_eq!(
        told(&ask(&client, &format!("{}/app", proxy.address()), &Keychain::default()).await),
        "linux/arm64"
    );
    assert!(lookups(300).await.iter().all(|outcome| told(outcome) == "not_found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_gets_no_more_requests_at_a_time_than_it_is_granted() {
    let upstream = LocalRegistry::start(Access::Open).await.unwrap();
    let proxy = Proxy::start(&upstream.address()).await.unwrap();
    proxy.fault("/v2/", Fault::Hang);
    let narrow = Settings { requests_per_host: 3, ..settings([proxy.address().as_str()]) };
    let client = Registry::new(narrow, Arc::new(())).unwrap();
    let soon = Instant::now() + Duration::from_millis(500);
    join_all((0..20).map(|number| {
        let (client, name) = (client.clone(), format!("{}/app:v{number}", proxy.address()));
        async move {
            client.platforms(&name.parse().unwrap(), Always, &Keychain::default(), soon).await.unwrap_err()
        }
    }))
    .await;
    assert_eq!(proxy.seen().len(), 3);
}
