//! Figures, states and conditions.

use podwright_api::{
    eds::{
        Amount, Condition, ExtendedDaemonSetReplicaSetStatus, ExtendedDaemonSetStatus, find_condition,
        words::condition,
    },
    keys,
};

use super::cluster::{Cluster, NOW, PodOf, ago, cluster, condition, pod, settled};
use crate::rollout::plan::Refusal;

fn set(cluster: &Cluster) -> ExtendedDaemonSetStatus {
    cluster.plan().status.unwrap_or_else(|| cluster.seen.set.status.clone())
}

fn of(cluster: &Cluster, name: &str) -> ExtendedDaemonSetReplicaSetStatus {
    cluster.plan().replica_set_statuses.into_iter().find(|(known, _)| known == name).unwrap().1
}

fn figures(status: &ExtendedDaemonSetReplicaSetStatus) -> [i32; 4] {
    [status.desired, status.current, status.ready, status.available]
}

fn holds(status: &ExtendedDaemonSetStatus, type_: &str) -> Option<(bool, String)> {
    find_condition(&status.conditions, type_).map(|known| (known.is_true(), known.reason.clone()))
}

// The Go controller's TestManageDeployment.
#[test]
fn the_active_ones_figures_are_those_of_the_go_controller() {
    assert_eq!(figures(&of(&cluster(&["a", "b"]), "v1")), [2, 0, 0, 0], "no pods");
    let other = cluster(&["a", "b"]).rolling().pods([pod("p", "a", "v1")]);
    assert_eq!(figures(&of(&other, "v2")), [2, 0, 0, 0], "a pod of another template counts nothing");
    let one = cluster(&["a", "b"]).pods([pod("p", "a", "v1")]);
    assert_eq!(figures(&of(&one, "v1")), [2, 1, 1, 1]);
    let changed =
        cluster(&["a", "b"]).rolling().pods([pod("p", "a", "v1")]).max_unavailable(Amount::Count(1));
    assert_eq!(changed.moves(), ["+b"], "the budget is used up");
    let going = cluster(&["a", "b"]).rolling().pods([pod("p", "a", "v1").leaving()]);
    assert_eq!(going.moves(), ["+b"]);
}

#[test]
fn a_set_adds_up_all_and_up_to_date_are_those_of_the_newest() {
    let half = settled(&["a", "b", "c"])
        .rolling()
        .pod("p-a", |_| pod("p-a", "a", "v2"))
        .pod("p-b", PodOf::not_ready);
    let status = set(&half);
    assert_eq!(
        (status.desired, status.current, status.ready, status.available, status.up_to_date),
        (3, 3, 2, 2, 1)
    );
    assert_eq!(figures(&of(&half, "v1")), [0, 2, 1, 1], "one without a part desires nothing");
    assert_eq!((of(&half, "v1").status.as_str(), of(&half, "v2").status.as_str()), ("unknown", "active"));
}

#[test]
fn available_means_ready_for_long_enough() {
    let young = settled(&["a", "b"])
        .min_ready(30)
        .pod("p-a", |pod| pod.with(|facts| facts.ready_since = Some(ago(10))));
    assert_eq!(figures(&of(&young, "v1")), [2, 2, 2, 1]);
    assert_eq!(young.plan().next, Some(NOW.plus_seconds(20)));
}

#[test]
fn frozen_wins_over_paused_and_both_end_the_active_condition() {
    let paused = keys::EDS_ROLLING_UPDATE_PAUSED;
    let frozen = keys::EDS_ROLLOUT_FROZEN;
    for (annotations, state, active) in [
        (vec![], "Running", "True"),
        (vec![paused], "RollingUpdate Paused", "False"),
        (vec![frozen], "Rollout frozen", "False"),
        (vec![paused, frozen], "Rollout frozen", "False"),
    ] {
        let cluster = annotations.iter().fold(settled(&["a"]), |cluster, key| cluster.annotated(key, "true"));
        assert_eq!(set(&cluster).state, state);
        let conditions = of(&cluster, "v1").conditions;
        assert_eq!(find_condition(&conditions, condition::ACTIVE).unwrap().status, active);
        let said = find_condition(&conditions, condition::ROLLOUT_FROZEN).is_some_and(Condition::is_true);
        assert_eq!(said, annotations.contains(&frozen), "in the same status as the figures");
    }
}

#[test]
fn tools_that_wait_on_any_object_are_told_how_far_it_is() {
    let ready = set(&settled(&["a"]));
    assert_eq!(holds(&ready, condition::READY), Some((true, "UpToDate".into())));
    assert!(!holds(&ready, condition::RECONCILING).unwrap().0);
    assert_eq!(ready.observed_generation, Some(1));
    let rolling = set(&settled(&["a"]).rolling());
    assert_eq!(holds(&rolling, condition::READY), Some((false, "RollingUpdate".into())));
    assert_eq!(holds(&rolling, condition::RECONCILING), Some((true, "RollingUpdate".into())));
    let empty = set(&cluster(&["a"]));
    assert_eq!(holds(&empty, condition::RECONCILING), Some((true, "FirstPods".into())));
    let trouble = settled(&["a"]).with(|seen| seen.set.status = ready.clone()).pod("p-a", PodOf::not_ready);
    assert_eq!(holds(&set(&trouble), condition::RECONCILING), Some((true, "WaitingForPods".into())));
    let paused = set(&settled(&["a"]).rolling().annotated(keys::EDS_ROLLING_UPDATE_PAUSED, "true"));
    assert_eq!(holds(&paused, condition::RECONCILING), Some((true, "Paused".into())));
    let frozen = set(&settled(&["a"]).rolling().annotated(keys::EDS_ROLLOUT_FROZEN, "true"));
    assert_eq!(holds(&frozen, condition::RECONCILING), Some((true, "Frozen".into())));
    let never = set(&settled(&["a"]).rolling().max_unavailable(Amount::Count(0)));
    assert_eq!(holds(&never, condition::STALLED), Some((true, "NothingMayBeUnavailable".into())));
}

// W23: nothing is reported by the Go controller.
#[test]
fn what_goes_wrong_is_in_the_conditions_of_both_and_told_once() {
    let refused = || {
        cluster(&["a"]).with(|seen| {
            seen.refusal = Some(Refusal {
                message: "pods \"x\" is forbidden: exceeded quota".into(),
                until: NOW.plus_seconds(9),
            });
        })
    };
    let status = set(&refused());
    assert_eq!(holds(&status, condition::STALLED), Some((true, "Refused".into())));
    assert!(
        find_condition(&status.conditions, condition::RECONCILE_ERROR).unwrap().message.contains("quota")
    );
    let conditions = of(&refused(), "v1").conditions;
    assert!(find_condition(&conditions, condition::RECONCILE_ERROR).unwrap().message.contains("quota"));
    assert_eq!(refused().plan().events.iter().filter(|event| event.warning).count(), 1);
    let told = refused().with(|seen| seen.set.status = status.clone());
    assert_eq!(told.plan().events.iter().filter(|event| event.warning).count(), 0);
}

#[test]
fn a_problem_in_the_spec_is_shown_and_ends_with_it() {
    let wrong = settled(&["a"]).with(|seen| seen.set.problems = vec!["spec.x: y".into(), "spec.z: w".into()]);
    let status = set(&wrong);
    assert_eq!(holds(&status, condition::STALLED), Some((true, "InvalidSpec".into())));
    let error = find_condition(&status.conditions, condition::RECONCILE_ERROR).unwrap();
    assert_eq!((error.is_true(), error.message.as_str()), (true, "spec.x: y; spec.z: w"));
    let mended = settled(&["a"]).with(|seen| seen.set.status = status.clone());
    assert!(!find_condition(&set(&mended).conditions, condition::RECONCILE_ERROR).unwrap().is_true());
}

// Only those for which the scheduler says so: 1 of 3.
#[test]
fn nodes_without_room_are_named() {
    let crowded = settled(&["a", "b", "c"])
        .pod("p-a", |pod| pod.pending(60))
        .pod("p-b", |pod| pod.pending(60).with(|facts| facts.unschedulable = false));
    let conditions = of(&crowded, "v1").conditions;
    assert_eq!(find_condition(&conditions, condition::UNSCHEDULE).unwrap().message, "nodes:a");
}

#[test]
fn creations_and_deletions_leave_their_time() {
    let busy = settled(&["a", "b"]).rolling().with(|seen| {
        seen.nodes.push(std::sync::Arc::new(super::cluster::node("c")));
        seen.set.strategy.max_unavailable = Amount::Count(2);
        seen.replica_sets[1].status.conditions.push(condition(condition::POD_CREATION, "True", ago(500)));
    });
    let conditions = of(&busy, "v2").conditions;
    let created = find_condition(&conditions, condition::POD_CREATION).unwrap();
    assert_eq!((created.last_transition_time, created.last_update_time), (Some(ago(500)), Some(NOW)));
    assert!(find_condition(&conditions, condition::POD_DELETION).unwrap().is_true());
    assert_eq!(find_condition(&conditions, condition::PODS_CLEANUP_DONE), None, "replacing is no cleaning");
}

#[test]
fn the_end_of_a_rollout_is_told_and_not_every_recovery_of_a_pod() {
    let ready = set(&settled(&["a"]));
    let trouble = settled(&["a"]).with(|seen| seen.set.status = ready.clone()).pod("p-a", PodOf::not_ready);
    let recovered = settled(&["a"]).with(|seen| seen.set.status = set(&trouble));
    assert_eq!(recovered.plan().events, []);
    let before = set(&settled(&["a"]).rolling());
    let last = cluster(&["a"]).rolling().with(|seen| seen.set.status = before.clone());
    let before = set(&last.pods([pod("p", "a", "v2").starting()]));
    let done =
        cluster(&["a"]).rolling().pods([pod("p", "a", "v2")]).with(|seen| seen.set.status = before.clone());
    let events = done.plan().events;
    assert!(events.iter().any(|event| event.reason == "UpToDate" && event.note.contains("v2")), "{events:?}");
}
