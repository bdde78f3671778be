use kube::{
    Client,
    runtime::events::{Recorder, Reporter},
};
use podwright_runtime::lease::{self, Leadership, LeaseParams};
use prometheus_client::{encoding::text::encode, registry::Registry};

use super::*;
use crate::rollout::{metrics::RolloutMetrics, shelf::Stamp, world::World, writes::Pen};

/// A keeper that shows its replica set as stuck, and where that is to be read. Nobody answers its client.
fn keeper(leadership: impl FnOnce(Client) -> Leadership) -> (Keeper, Registry) {
    let client = Client::try_from(kube::Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
    let leadership = leadership(client.clone());
    let mut bare = Registry::default();
    let metrics = RolloutMetrics::register(&mut Registry::default(), &mut bare, leadership.clone());
    let context = Context {
        pen: Pen { client: client.clone(), leadership },
        config: Arc::default(),
        world: World::new().0,
        recorder: Recorder::new(client, Reporter { controller: "test".to_owned(), instance: None }),
        metrics,
        permits: Semaphore::new(1),
    };
    let mut keeper = Keeper::new(Key::new("ns", "foo"), Arc::new(context));
    let metrics = keeper.context.metrics.clone();
    metrics.show_stuck(&mut keeper.shown, &Key::new("ns", "foo-1"), true);
    assert_eq!(stuck(&bare), ["ers_rolling_update_stuck{name=\"foo-1\",namespace=\"ns\"} 1"]);
    (keeper, bare)
}

fn stuck(registry: &Registry) -> Vec<String> {
    let mut page = String::new();
    encode(&mut page, registry).unwrap();
    page.lines().filter(|line| line.starts_with("ers_rolling")).map(str::to_owned).collect()
}

#[tokio::test]
async fn what_is_shown_of_a_set_goes_with_it() {
    let (keeper, page) = keeper(|_| Leadership::always());
    let woken = Arc::new(Notify::new());
    woken.notify_one();
    keeper.run(woken, CancellationToken::new()).await;
    assert!(stuck(&page).is_empty(), "{:?}", stuck(&page));
}

#[tokio::test]
async fn a_replica_that_does_not_lead_shows_nothing() {
    let election = CancellationToken::new();
    let (keeper, page) = keeper(|client| {
        lease::run(client, LeaseParams::new("ns", "lease", "me"), election.clone()).unwrap().0
    });
    let set = serde_json::from_value(serde_json::json!({
        "apiVersion": "datadoghq.com/v1alpha1", "kind": "ExtendedDaemonSet", "metadata": {"namespace": "ns", "name": "foo"},
        "spec": {"strategy": {}, "template": {"spec": {"containers": []}}},
    }));
    let set: ExtendedDaemonSet = set.unwrap();
    keeper.context.world.state().sets.tell(Stamp::of(&set), Key::of(&set), Arc::new(set));
    let (woken, cancel) = (Arc::new(Notify::new()), CancellationToken::new());
    woken.notify_one();
    let running = tokio::spawn(keeper.run(woken, cancel.clone()));
    let hidden = async {
        while !stuck(&page).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), hidden).await.expect("it is shown no more");
    assert!(!running.is_finished(), "the set is there, so it is still kept");
    cancel.cancel();
    election.cancel();
    running.await.unwrap();
}

#[test]
fn only_the_active_replica_set_is_shown() {
    let mut page = Registry::default();
    let metrics = RolloutMetrics::register(&mut Registry::default(), &mut page, Leadership::always());
    let mut shown = None;
    for (name, is_stuck) in [("foo-1", true), ("foo-1", false), ("foo-2", true)] {
        metrics.show_stuck(&mut shown, &Key::new("ns", name), is_stuck);
        let value = u8::from(is_stuck);
        let line = format!("ers_rolling_update_stuck{{name=\"{name}\",namespace=\"ns\"}} {value}");
        assert_eq!(stuck(&page), [line]);
    }
}
