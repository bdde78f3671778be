use proptest::prelude::*;

use super::{cluster::Cluster, *};

/// At rest: the ratio is kept, every pod serves, and nobody has anything to do.
fn assert_rest(cluster: &mut Cluster, context: &str) {
    let (allocation, removed) = (cluster.allocation(), cluster.removals.len());
    assert!(allocation.is_balanced(), "{context}: {allocation:?}\n{:?}", cluster.rule.status);
    assert_eq!(cluster.ready(), cluster.replicas, "{context}");
    assert!(cluster.pods.iter().all(|pod| pod.mark.is_some()), "{context}: {:?}", cluster.pods);
    let before = (cluster.rule.status.clone(), cluster.pods.clone());
    cluster.run(4000);
    assert_eq!(cluster.removals.len(), removed, "{context}: something goes on for ever");
    assert_eq!((&cluster.rule.status, &cluster.pods), (&before.0, &before.1), "{context}");
}

#[test]
fn spot_nodes_go_and_come_back() {
    let mut cluster =
        Cluster::new(&[80, 20], &json!({"whenUnsatisfiable": "Spill"}), &[('a', 99), ('b', 99)], 20);
    cluster.run(10);
    assert_eq!(cluster.allocation().counts(), [16, 4]);
    cluster.set_pool('b', None);
    cluster.run(30);
    assert_eq!((cluster.allocation().counts(), cluster.ready()), (vec![20, 0], 20));
    assert_eq!(cluster.evictions(), 0);
    cluster.set_pool('b', Some(99));
    for _ in 0..60 {
        cluster.tick();
        assert!(cluster.ready() >= 19, "one at a time");
    }
    assert_eq!((cluster.allocation().counts(), cluster.evictions()), (vec![16, 4], 4));
    // Until it is forgotten that the entry was closed.
    cluster.run(60);
    assert_rest(&mut cluster, "spot");
}

#[test]
fn a_pool_that_grows_only_for_pods_that_wait_gets_one_and_then_its_share() {
    for rebalance in [false, true] {
        let spec = json!({"whenUnsatisfiable": "Spill", "rebalance": {"enabled": rebalance}});
        let mut cluster = Cluster::new(&[80, 20], &spec, &[('a', 99), ('b', 99)], 20);
        cluster.set_pool('b', None);
        cluster.run(50);
        assert_eq!((cluster.allocation().counts(), cluster.ready()), (vec![20, 0], 20));
        let mut wanted = None;
        for _ in 0..200 {
            cluster.tick();
            let waits = cluster.pods.iter().any(|pod| pod.unschedulable_since.is_some());
            wanted = wanted.or_else(|| waits.then_some(cluster.now));
            if wanted.is_some_and(|since| since + 10 == cluster.now) {
                cluster.set_pool('b', Some(99));
            }
            assert!(cluster.ready() >= 19, "one at a time");
        }
        assert_eq!(cluster.allocation().counts(), [16, 4], "rebalance: {rebalance}");
        assert_rest(&mut cluster, "from nothing");
    }
}

#[test]
fn an_entry_that_never_gets_nodes_costs_a_pod_now_and_then_and_no_more() {
    for spec in [json!({"whenUnsatisfiable": "Spill"}), json!({"rebalance": {"enabled": true}})] {
        let mut cluster = Cluster::new(&[80, 20], &spec, &[('a', 99), ('b', 99)], 20);
        cluster.set_pool('b', None);
        cluster.run(24 * 3600);
        let evictions = cluster.evictions();
        assert!(evictions <= 30, "{spec}: {evictions}");
        assert!(cluster.removals.iter().all(|(_, removal)| removal.cause != Cause::SlippedBy), "{spec}");
    }
}

#[test]
fn where_an_entry_is_only_preferred_a_scheduler_that_does_not_heed_it_ends_the_moves() {
    let spec = json!({"mode": "Preferred", "rebalance": {"enabled": true}});
    let mut cluster = Cluster::new(&[1, 1], &spec, &[('a', 99), ('b', 50)], 20);
    cluster.run(24 * 3600);
    assert_eq!(cluster.allocation().counts(), [20, 0], "it puts them where there is most room");
    assert!((1..=12).contains(&cluster.evictions()), "{}", cluster.evictions());
}

#[test]
fn other_weights_move_nothing_with_spill_alone_until_pods_have_spilled() {
    let mut cluster =
        Cluster::new(&[80, 20], &json!({"whenUnsatisfiable": "Spill"}), &[('a', 99), ('b', 99)], 20);
    cluster.run(10);
    (cluster.rule.spec.distribution[0].weight, cluster.rule.spec.distribution[1].weight) = (50, 50);
    cluster.weights = cluster.rule.weights().unwrap();
    cluster.run(4000);
    assert_eq!((cluster.allocation().counts(), cluster.removals.len()), (vec![16, 4], 0));
}

#[test]
fn an_entry_with_too_little_room_takes_what_it_can_and_is_tried_less_and_less() {
    let mut cluster =
        Cluster::new(&[1, 1], &json!({"whenUnsatisfiable": "Spill"}), &[('a', 99), ('b', 3)], 20);
    cluster.run(120);
    assert_eq!((cluster.allocation().counts(), cluster.ready()), (vec![17, 3], 20));
    cluster.run(8000);
    assert_eq!((cluster.evictions(), cluster.ready()), (0, 20), "nobody moves to where there is no room");
    cluster.set_pool('b', Some(50));
    cluster.run(120);
    assert_eq!(cluster.allocation().counts(), [10, 10]);
    assert_rest(&mut cluster, "room");
}

#[test]
fn what_slipped_by_while_the_webhook_was_away_is_repaired() {
    let mut cluster = Cluster::new(&[80, 20], &json!({}), &[('a', 200), ('b', 400), ('z', 300)], 20);
    cluster.run(10);
    (cluster.webhook_answers, cluster.replicas) = (false, 250);
    cluster.tick();
    cluster.webhook_answers = true;
    cluster.run(300);
    assert_eq!(cluster.allocation().counts(), [200, 50]);
    assert_rest(&mut cluster, "repaired");
}

#[test]
fn a_webhook_that_never_answers_costs_a_pod_now_and_then_and_no_more() {
    for spec in [json!({}), json!({"rebalance": {"enabled": true}}), json!({"whenUnsatisfiable": "Spill"})] {
        let mut cluster = Cluster::new(&[4, 1], &spec, &[('a', 99), ('b', 99), ('z', 99)], 30);
        cluster.webhook_answers = false;
        cluster.run(24 * 3600);
        assert!((1..=10).contains(&cluster.removals.len()), "{spec}: {}", cluster.removals.len());
    }
}

#[test]
fn other_weights_are_followed_by_rebalancing() {
    let spec = json!({"rebalance": {"enabled": true, "maxPerMinute": 10}});
    let mut cluster = Cluster::new(&[80, 20], &spec, &[('a', 99), ('b', 99)], 20);
    cluster.run(10);
    (cluster.rule.spec.distribution[0].weight, cluster.rule.spec.distribution[1].weight) = (50, 50);
    cluster.weights = cluster.rule.weights().unwrap();
    cluster.run(120);
    assert_eq!((cluster.allocation().counts(), cluster.evictions()), (vec![10, 10], 6));
    assert_rest(&mut cluster, "weights");
}

#[derive(Clone, Debug)]
enum Happening {
    Scale(usize),
    /// The webhook is away while the workload gets so many pods.
    Away(usize),
    /// The nodes of a pool go, and come back after some seconds.
    Outage(usize, i64),
    /// A pool has room for so many, for some seconds.
    Shortage(usize, u64, i64),
    /// So many pods fail somewhere.
    Loss(Vec<prop::sample::Index>),
    /// Pods are on their way for some seconds.
    Burst(i64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (1..=30_usize).prop_map(Happening::Scale),
        (1..=30_usize).prop_map(Happening::Away),
        (0..4_usize, 1..200_i64).prop_map(|(pool, seconds)| Happening::Outage(pool, seconds)),
        (0..4_usize, 0..8_u64, 1..200_i64)
            .prop_map(|(pool, room, seconds)| Happening::Shortage(pool, room, seconds)),
        prop::collection::vec(any::<prop::sample::Index>(), 1..6).prop_map(Happening::Loss),
        (1..60_i64).prop_map(Happening::Burst),
    ]
}

fn happen(cluster: &mut Cluster, happening: Happening) {
    match happening {
        Happening::Scale(replicas) => cluster.replicas = replicas,
        Happening::Away(replicas) => {
            (cluster.webhook_answers, cluster.replicas) = (false, replicas);
            cluster.run(2);
            cluster.webhook_answers = true;
        }
        Happening::Outage(pool, seconds) => {
            let pool = cluster.pools[pool % cluster.pools.len()].0;
            cluster.set_pool(pool, None);
            cluster.run(seconds);
            cluster.set_pool(pool, Some(99));
        }
        Happening::Shortage(pool, room, seconds) => {
            let pool = cluster.pools[pool % cluster.pools.len()].0;
            cluster.set_pool(pool, Some(room));
            cluster.run(seconds);
            cluster.set_pool(pool, Some(99));
        }
        Happening::Loss(which) => {
            for index in which {
                let index = index.index(cluster.pods.len());
                cluster.pods[index].deleting = true;
            }
        }
        Happening::Burst(seconds) => {
            cluster.ledger_quiet = false;
            cluster.run(seconds);
            cluster.ledger_quiet = true;
        }
    }
    cluster.run(5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_happens_the_ratio_comes_back_and_stays(
        weights in prop::collection::vec(1..=9_u32, 2..=4),
        replicas in 1..=30_usize,
        happenings in prop::collection::vec(happening(), 1..6),
        rebalance in any::<bool>(),
    ) {
        let spec = json!({"whenUnsatisfiable": "Spill", "rebalance": {"enabled": rebalance}});
        let pools: Vec<(char, u64)> = weights.iter().zip('a'..).map(|(_, pool)| (pool, 99)).collect();
        let mut cluster = Cluster::new(&weights, &spec, &pools, replicas);
        cluster.run(5);
        let context = format!("{weights:?} {happenings:?}");
        let most = happenings.len();
        for happening in happenings {
            happen(&mut cluster, happening);
        }
        // The longest that an entry is set aside after so short a shortage.
        cluster.run(1200);
        assert_rest(&mut cluster, &context);
        prop_assert!(cluster.evictions() <= most * 31, "{}", context);
    }
}
