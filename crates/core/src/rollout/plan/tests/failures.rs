//! Pods that fail, and the back-off that outlives us.

use super::cluster::{NOW, PodOf, ago, cluster, moves, pod};
use crate::rollout::plan::{Plan, plan};

fn failed(failures: u32, seconds_ago: i64) -> PodOf {
    pod("failed", "a", "v1")
        .with(|facts| {
            facts.failures = failures;
            facts.created = ago(seconds_ago + 60);
        })
        .failed(seconds_ago)
}

fn planned(pod: PodOf) -> Plan {
    cluster(&["a"]).pods([pod]).plan()
}

// W26: the Go controller forgets its back-off when it restarts. The count is on the pods.
#[test]
fn a_pod_that_fails_again_and_again_is_made_again_later_and_later() {
    for (failures, wait) in [(0, 0), (1, 10), (2, 20), (3, 40), (7, 640), (8, 900), (100, 900)] {
        if wait > 0 {
            let early = planned(failed(failures, wait - 1));
            assert_eq!((moves(&early), early.next), (vec![], Some(NOW.plus_seconds(1))), "{failures}");
        }
        let due = planned(failed(failures, wait));
        assert_eq!(moves(&due), ["+a", "-failed"], "{failures}");
        assert_eq!(due.creations[0].failures, failures + 1, "and the next carries the count");
    }
}

// The Go controller's shouldDeleteFailedPod: its back-off is for each node on its own.
#[test]
fn another_node_does_not_wait() {
    let cluster = cluster(&["a", "b"]).pods([failed(5, 1), pod("other", "b", "v1").failed(1)]);
    assert_eq!(cluster.moves(), ["+b", "-other"]);
}

#[test]
fn a_pod_that_lived_long_starts_a_new_row_under_another_name() {
    for (before, next) in [(0, 1), (1, 2), (6, 1)] {
        let plan = planned(failed(before, 1).with(|facts| facts.created = ago(1802)));
        assert_eq!(moves(&plan), ["+a", "-failed"]);
        assert_eq!(plan.creations[0].failures, next);
    }
}

#[test]
fn a_failed_pod_of_another_template_does_not_hold_up_the_new_one() {
    let plan = cluster(&["a"]).rolling().pods([failed(8, 1)]).plan();
    assert_eq!(moves(&plan), ["+a", "-failed"]);
    assert_eq!(plan.creations[0].replica_set, "v2");
}

#[test]
fn of_several_failed_pods_the_last_one_counts() {
    let older = pod("older", "a", "v1").failed(500).with(|facts| facts.created = ago(3600));
    let cluster = cluster(&["a"]).pods([older, failed(3, 1)]);
    assert_eq!(cluster.moves(), ["-older"], "delete evicted but not duplicate pod");
}

#[test]
fn a_failed_pod_and_its_successor_are_one_step_so_that_the_count_is_not_lost() {
    let slow = cluster(&["a", "b"]).pods([pod("failed", "b", "v1").failed(1)]).with(|seen| {
        seen.set.strategy.max_parallel_pod_creation = 1;
    });
    assert_eq!(slow.moves(), ["+a"], "no room to make it again yet, so it stays");
}

#[test]
fn a_pod_that_has_come_to_its_end_is_made_again_even_if_it_ended_well() {
    let done = failed(0, 1).with(|facts| facts.phase = crate::rollout::plan::Phase::Succeeded);
    assert_eq!(moves(&planned(done)), ["+a", "-failed"]);
}

#[test]
fn failures_are_told() {
    let plan = planned(failed(0, 1));
    let event = plan.events.iter().find(|event| event.reason == "FailedDaemonPod").unwrap();
    assert!(event.warning && event.note.contains("failed on a"), "{}", event.note);
}

#[test]
fn a_failed_pod_whose_deletion_is_under_way_still_counts() {
    let going = failed(2, 30).leaving();
    let plan = plan(&cluster(&["a"]).pods([going]).seen, NOW);
    assert_eq!(moves(&plan), ["+a"]);
    assert_eq!(plan.creations[0].failures, 3);
}
