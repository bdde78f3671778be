//! What holds in every cluster.

use std::time::Duration;

use podwright_api::eds::Amount;
use proptest::prelude::*;

use super::{
    cluster::cluster,
    simulation::{Fate, Happening, Simulation},
};
use crate::rollout::plan::{Plan, Why, plan};

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => (0..8_u8).prop_map(Fate::Ready),
        1 => Just(Fate::Never),
        1 => (0..30_u8).prop_map(Fate::Fails),
        1 => Just(Fate::NoRoom),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        2 => any::<u8>().prop_map(Happening::NodeComes),
        2 => any::<u8>().prop_map(Happening::NodeGoes),
        1 => any::<u8>().prop_map(Happening::Taint),
        2 => any::<u8>().prop_map(Happening::Hiccup),
        2 => any::<u8>().prop_map(Happening::Evict),
        2 => any::<u8>().prop_map(Happening::DeletePod),
        3 => Just(Happening::Template),
        1 => Just(Happening::Restart),
        2 => any::<u8>().prop_map(Happening::Blind),
    ]
}

prop_compose! {
    fn simulation()(
        nodes in 1..12_u8,
        fates in prop::collection::vec(fate(), 1..20),
        budget in prop_oneof![(0..4_u32).prop_map(Amount::Count), (1..60_u32).prop_map(Amount::Percent)],
        forgiven in 0..3_u32,
        increase in 1..20_u32,
        parallel in 1..20_u32,
        min_ready in 0..5_u64,
    ) -> Simulation {
        let start = cluster(&[]).with(|seen| {
            let strategy = &mut seen.set.strategy;
            strategy.max_unavailable = budget;
            strategy.max_pod_scheduler_failure = Amount::Count(forgiven);
            strategy.slow_start_increase = Amount::Count(increase);
            strategy.max_parallel_pod_creation = parallel;
            strategy.min_ready = Duration::from_secs(min_ready);
            seen.set.status.active_replica_set.clear();
            seen.replica_sets.clear();
        });
        Simulation::new(nodes, fates, start)
    }
}

type Story = Vec<(Vec<Happening>, u16)>;

fn story() -> impl Strategy<Value = Story> {
    prop::collection::vec((prop::collection::vec(happening(), 0..3), 100..8000_u16), 1..60)
}

fn canary_happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => happening(),
        1 => any::<u8>().prop_map(Happening::Killed),
        4 => any::<u8>().prop_map(Happening::Crash),
        2 => any::<u8>().prop_map(Happening::Annotate),
        1 => Just(Happening::FailCanary),
        1 => Just(Happening::Reapply),
        1 => Just(Happening::CanaryBlock),
    ]
}

fn canary_story() -> impl Strategy<Value = Story> {
    prop::collection::vec((prop::collection::vec(canary_happening(), 0..4), 100..20_000_u16), 1..80)
}

prop_compose! {
    fn canary_simulation()(
        mut simulation in simulation(),
        replicas in prop_oneof![(0..5_u32).prop_map(Amount::Count), (1..100_u32).prop_map(Amount::Percent)],
        duration in prop::option::weighted(0.8, 5..200_u64),
        no_restarts in prop::option::of(1..60_u64),
        timeout in prop::option::weighted(0.2, 200..400_u64),
        (require_ready, stops, hold) in any::<(bool, bool, bool)>(),
    ) -> Simulation {
        let mut canary = super::canary::strategy();
        canary.replicas = replicas;
        canary.duration = duration.map(Duration::from_secs);
        canary.no_restarts = no_restarts.map(Duration::from_secs);
        canary.auto_fail.as_mut().unwrap().timeout = timeout.map(Duration::from_secs);
        canary.require_ready = require_ready;
        canary.pause_stops_clock = stops;
        canary.hold_on_failure = hold;
        simulation.seen.set.strategy.canary = Some(canary);
        simulation
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// The heart of it: whatever happens, and however late it is seen.
    #[test]
    fn no_node_ever_has_two_pods_and_no_working_pod_is_taken_beyond_the_budget(
        mut simulation in simulation(), story in story(),
    ) {
        for (happenings, millis) in story {
            simulation.happen_all(happenings);
            simulation.look();
            let plan = simulation.step();
            check_budget(&simulation, &plan)?;
            for (node, pods) in simulation.living() {
                prop_assert!(pods.len() <= 1, "{node} has {}", pods.len());
            }
            simulation.pass(Duration::from_millis(u64::from(millis)));
        }
    }

    #[test]
    fn once_nothing_happens_any_more_every_node_gets_its_pod_and_then_nothing_is_written(
        mut simulation in simulation(), story in story(),
    ) {
        prop_assume!(!simulation.seen.set.strategy.max_unavailable.is_zero());
        for (happenings, millis) in story {
            simulation.happen_all(happenings);
            simulation.step();
            simulation.pass(Duration::from_millis(u64::from(millis)));
        }
        simulation.heal();
        // Failed pods may wait a quarter of an hour; the planner says when to look again.
        let mut quiet = 0;
        for _ in 0..4000 {
            let before = simulation.writes;
            let plan = simulation.step();
            let idle = plan.creations.is_empty() && plan.deletions.is_empty();
            let next = plan.next.map_or(Duration::from_secs(2), |next| next.since(simulation.now));
            simulation.pass(if idle { next.clamp(Duration::from_secs(1), Duration::from_mins(1)) } else { Duration::from_millis(500) });
            quiet = if simulation.writes == before && plan.next.is_none() { quiet + 1 } else { 0 };
            if quiet == 3 {
                break;
            }
        }
        let newest = simulation.seen.set.template_hash.clone();
        let wanted: Vec<String> = simulation.wanted().cloned().collect();
        let living = simulation.living();
        for node in &wanted {
            let pods = living.get(node.as_str()).map(Vec::as_slice).unwrap_or_default();
            prop_assert!(matches!(pods, [pod] if pod.template_hash == newest && pod.ready_since.is_some()), "{node}: {pods:?}");
        }
        let before = simulation.writes;
        for _ in 0..10 {
            simulation.pass(Duration::from_mins(1));
            let plan = simulation.step();
            prop_assert_eq!(simulation.writes, before, "at rest nothing is written: {:?}", plan);
        }
        let status = &simulation.seen.set.status;
        let figures = (status.desired, status.up_to_date);
        prop_assert_eq!(figures, (i32::try_from(wanted.len()).unwrap(), i32::try_from(wanted.len()).unwrap()));
        prop_assert!(status.conditions.iter().any(|known| known.type_ == "Ready" && known.is_true()), "{:?}", status);
        prop_assert_eq!(&status.active_replica_set, &newest);
    }

    #[test]
    fn the_same_observation_gives_the_same_plan(mut simulation in simulation(), story in story(), seed in any::<u64>()) {
        for (happenings, millis) in story {
            simulation.happen_all(happenings);
            simulation.look();
            let mut shuffled = simulation.seen.clone();
            let turn = |length: usize| usize::try_from(seed).unwrap_or(7) % length.max(1);
            let (pods, nodes) = (turn(shuffled.pods.len()), turn(shuffled.nodes.len()));
            shuffled.pods.rotate_left(pods);
            shuffled.nodes.rotate_left(nodes);
            prop_assert_eq!(plan(&simulation.seen, simulation.now), plan(&shuffled, simulation.now));
            simulation.step();
            simulation.pass(Duration::from_millis(u64::from(millis)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_canary_never_promotes_what_failed_nor_exceeds_the_budget(mut simulation in canary_simulation(), story in canary_story()) {
        for (happenings, millis) in story {
            simulation.happen_all(happenings);
            simulation.note_failures();
            let active = simulation.seen.set.status.active_replica_set.clone();
            simulation.look();
            let plan = simulation.step();
            let status = &simulation.seen.set.status;
            if status.active_replica_set != active && !active.is_empty() && simulation.seen.set.strategy.canary.is_some() {
                let promoted = simulation.seen.replica_sets.iter().find(|known| known.name == status.active_replica_set);
                let failed = promoted.is_some_and(|known| simulation.failed.contains(&known.uid));
                prop_assert!(!failed, "{} had failed", status.active_replica_set);
            }
            if let Some(canary) = &status.canary {
                prop_assert!(canary.replica_set != status.active_replica_set);
            }
            check_budget(&simulation, &plan)?;
            for (node, pods) in simulation.living() {
                prop_assert!(pods.len() <= 1, "{node} has {}", pods.len());
            }
            simulation.pass(Duration::from_millis(u64::from(millis)));
        }
    }

    #[test]
    fn a_canary_always_settles(mut simulation in canary_simulation(), story in canary_story()) {
        prop_assume!(!simulation.seen.set.strategy.max_unavailable.is_zero());
        prop_assume!(simulation.seen.set.strategy.canary.as_ref().is_none_or(|canary| canary.duration.is_some()));
        prop_assume!(simulation.seen.set.strategy.canary.as_ref().is_none_or(|canary| !canary.require_ready || !canary.replicas.is_zero()));
        for (happenings, millis) in story {
            simulation.happen_all(happenings);
            simulation.step();
            simulation.pass(Duration::from_millis(u64::from(millis)));
        }
        simulation.heal();
        let mut quiet = 0;
        for _ in 0..4000 {
            let before = simulation.writes;
            let plan = simulation.step();
            let next = plan.next.map_or(Duration::from_secs(2), |next| next.since(simulation.now));
            simulation.pass(next.clamp(Duration::from_secs(1), Duration::from_mins(1)));
            quiet = if simulation.writes == before && plan.next.is_none() { quiet + 1 } else { 0 };
            if quiet == 3 {
                break;
            }
        }
        prop_assert_eq!(quiet, 3, "{:?}", simulation.seen.set.status);
        let status = &simulation.seen.set.status;
        prop_assert!(status.canary.is_none(), "{:?}", status);
        // Held after a failure, or restored: either way all nodes have the active template.
        let active = simulation.seen.replica_sets.iter().find(|known| known.name == status.active_replica_set).unwrap();
        let living = simulation.living();
        for node in simulation.wanted() {
            let pods = living.get(node.as_str()).map(Vec::as_slice).unwrap_or_default();
            prop_assert!(
                matches!(pods, [pod] if pod.template_hash == active.template_generation && pod.ready_since.is_some() && !pod.canary_label),
                "{node}: {pods:?}"
            );
        }
        let held = status.state == "Canary Failed";
        prop_assert!(held || active.template_hash == simulation.seen.set.template_hash, "{:?}", status);
    }
}

/// No pod that works is taken when more nodes than may be are without one.
fn check_budget(simulation: &Simulation, plan: &Plan) -> Result<(), TestCaseError> {
    let nodes = simulation.seen.nodes.iter().filter(|node| node.taints.is_empty()).count();
    let strategy = &simulation.seen.set.strategy;
    let paid = plan
        .deletions
        .iter()
        .filter(|gone| {
            matches!(gone.why, Why::Outdated | Why::Overrides) && worked(simulation, &gone.pod.name)
        })
        .count();
    let most = strategy.max_unavailable.of(nodes) + strategy.max_pod_scheduler_failure.of(nodes);
    let unavailable = simulation.unavailable_seen();
    prop_assert!(paid == 0 || unavailable <= most, "{paid} taken, {unavailable} of {most}");
    Ok(())
}

/// Whether a pod works as far as was seen.
fn worked(simulation: &Simulation, name: &str) -> bool {
    let min_ready = simulation.seen.set.strategy.min_ready;
    simulation.seen.pods.iter().any(|pod| {
        pod.facts.name == name
            && pod.facts.ready_since.is_some_and(|since| since.plus(min_ready) <= simulation.now)
    })
}
