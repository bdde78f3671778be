//! How a trial begins and goes on.

use podwright_api::{
    NodeSelector,
    eds::{Amount, words::condition},
    keys,
};

use super::{
    super::cluster::{NOW, PodOf, ago, moves, on_pool, pod, taint},
    begun, new, reason, status_of, strategy, tried,
};
use crate::rollout::plan::Creation;

#[test]
fn a_new_template_is_tried_on_as_many_nodes_as_the_user_says_and_no_pod_is_touched_before_that_is_stored() {
    let plan = new().plan();
    let status = plan.status.as_ref().unwrap();
    assert_eq!((status.state.as_str(), status.active_replica_set.as_str()), ("Canary", "v1"));
    let canary = status.canary.as_ref().unwrap();
    assert_eq!((canary.replica_set.as_str(), canary.nodes.len()), ("v2", 1));
    assert!(plan.roles_changed, "so that it is stored first");
    assert_eq!(moves(&plan), ["-p-a"]);
    assert!(plan.events.iter().any(|event| event.reason == "CanaryStarted" && event.note.contains("v2")));
    assert_eq!(status_of(&plan, "v2").status, "canary");
}

#[test]
fn figures_are_those_of_the_walk_through() {
    let plan = tried(&["a"]).plan();
    let (active, canary) = (status_of(&plan, "v1"), status_of(&plan, "v2"));
    assert_eq!((active.status.as_str(), active.desired, active.current, active.ready), ("active", 3, 3, 3));
    assert_eq!((canary.status.as_str(), canary.desired, canary.current, canary.ready), ("canary", 1, 1, 1));
    let status = plan.status.unwrap();
    assert_eq!(
        (status.desired, status.current, status.ready, status.available, status.up_to_date),
        (4, 4, 4, 4, 1)
    );
    assert_eq!(moves(&tried(&["a"]).plan()), [""; 0]);
}

// The Go controller's NoRestartsAndPodsToCreate, ..AndNoPodsToCreate, ..PodWithDeletionTimestamp, ..PodsToDelete.
#[test]
fn canary_pods_are_made_and_replaced_as_with_the_go_controller() {
    let nodes = ["a", "b", "c"];
    let one = begun(&nodes).pods_on(&["a"]).gone("p-b").gone("p-c");
    assert_eq!(one.moves(), ["+b", "+c"]);
    let status = status_of(&one.plan(), "v2");
    assert_eq!([status.desired, status.current, status.ready, status.available], [3, 1, 1, 1]);
    assert_eq!(tried(&nodes).moves(), [""; 0]);
    let going = tried(&nodes).pod("p-a", PodOf::leaving).gone("p-b").gone("p-c");
    assert_eq!(
        (going.moves(), status_of(&going.plan(), "v2").current),
        (vec!["+b".to_owned(), "+c".to_owned()], 0)
    );
    let outdated = begun(&nodes).gone("p-b").gone("p-c");
    assert_eq!(outdated.moves(), ["+b", "+c", "-p-a"]);
}

#[test]
fn pods_of_the_trial_carry_its_label_and_no_others() {
    let unlabelled = tried(&["a", "b"])
        .pod("p-a", |pod| pod.with(|facts| facts.canary_label = false))
        .pod("p-c", |pod| pod.with(|facts| facts.canary_label = true));
    let mut labels: Vec<(String, bool)> =
        unlabelled.plan().labels.into_iter().map(|label| (label.pod, label.on)).collect();
    labels.sort();
    assert_eq!(labels, [("p-a".to_owned(), true), ("p-c".to_owned(), false)]);
    assert_eq!(tried(&["a", "b"]).plan().labels, []);
    let made = begun(&["a"]).gone("p-a").plan().creations;
    assert_eq!(made, [Creation { node: "a".into(), replica_set: "v2".into(), canary: true, failures: 0 }]);
    let over = tried(&["a"]).annotated(keys::EDS_CANARY_VALID, "v2").plan();
    assert_eq!(over.labels.len(), 1, "and lose it when it is over");
}

// W1: the Go controller deletes the active version wherever the new template does not fit.
#[test]
fn nodes_that_the_new_template_does_not_want_are_not_touched_by_its_trial() {
    let narrower = tried(&["a"])
        .node("a", |node| {
            node.labels.insert("pool".into(), "trial".into());
        })
        .placed(1, on_pool("trial"));
    assert_eq!(narrower.moves(), [""; 0]);
    let promoted = narrower.annotated(keys::EDS_CANARY_VALID, "v2");
    assert_eq!(
        promoted.moves(),
        ["-p-b", "-p-c", "-p-d"],
        "once it is for all it goes from where it does not belong"
    );
}

// W5: the Go controller takes all old pods of the canary's nodes down at once.
#[test]
fn a_trial_keeps_to_the_budget_and_to_the_slow_start() {
    let half = || begun(&["a", "b", "c", "d"]);
    assert_eq!(half().max_unavailable(Amount::Count(1)).moves(), ["-p-a"]);
    assert_eq!(half().max_unavailable(Amount::Percent(50)).moves(), ["-p-a", "-p-b"]);
    let slow = half().with(|seen| {
        seen.set.strategy.slow_start_increase = Amount::Count(1);
        seen.replica_sets[1].status.conditions[0].last_transition_time = Some(ago(61));
    });
    assert_eq!(slow.moves(), ["-p-a", "-p-b"]);
    let shared = begun(&["a"]).max_unavailable(Amount::Count(1)).pod("p-d", PodOf::not_ready);
    assert_eq!(shared.moves(), [""; 0], "a node that is down elsewhere counts too");
    let both = begun(&["a"]).max_unavailable(Amount::Count(1)).pod("p-d", PodOf::drifted);
    assert_eq!(both.moves(), ["-p-a"], "and the two parts share one budget");
}

// W13: the Go controller starts canaries although it is frozen.
#[test]
fn frozen_freezes_the_trial_too() {
    let frozen = |cluster: super::Cluster| cluster.annotated(keys::EDS_ROLLOUT_FROZEN, "true");
    let plan = frozen(new()).plan();
    assert_eq!((moves(&plan), plan.roles_changed), (vec![], false), "none begins");
    let under_way = frozen(begun(&["a", "b"]).begun_ago(7200));
    let plan = under_way.plan();
    assert_eq!((moves(&plan), plan.roles_changed), (vec![], false), "none goes on or ends");
    assert_eq!(plan.status.unwrap().state, "Rollout frozen");
}

// W8: the Go controller keeps the canary's status for ever when its block is removed.
#[test]
fn removing_the_canary_block_ends_the_trial_and_the_new_template_is_for_all() {
    let removed = tried(&["a"]).with(|seen| seen.set.strategy.canary = None);
    let plan = removed.plan();
    let status = plan.status.clone().unwrap();
    assert_eq!(
        (status.canary, status.active_replica_set.as_str(), status.state.as_str()),
        (None, "v2", "Running")
    );
    let ended = status_of(&plan, "v2");
    let canary = ended.conditions.iter().find(|known| known.type_ == condition::CANARY).unwrap();
    assert!(!canary.is_true());
    assert_eq!(moves(&plan), ["-p-b", "-p-c", "-p-d"]);
}

#[test]
fn going_back_to_the_active_template_ends_the_trial() {
    let back = tried(&["a"]).with(|seen| {
        seen.set.template_hash = "v1".into();
        seen.replica_sets[0].same_template = true;
        seen.replica_sets[1].same_template = false;
    });
    let plan = back.plan();
    assert_eq!(plan.status.as_ref().unwrap().canary, None);
    assert_eq!(moves(&plan), ["-p-a"], "and its nodes go back");
}

#[test]
fn another_template_takes_over_the_nodes_of_the_one_that_was_tried() {
    let newer = tried(&["c"]).with(|seen| {
        seen.set.template_hash = "v3".into();
        seen.replica_sets[1].same_template = false;
        let mut third = super::super::cluster::replica_set("v3");
        third.same_template = true;
        third.created = NOW;
        seen.replica_sets.push(third);
    });
    let plan = newer.plan();
    let canary = plan.status.as_ref().unwrap().canary.clone().unwrap();
    assert_eq!((canary.replica_set.as_str(), canary.nodes), ("v3", vec!["c".to_owned()]));
    assert_eq!(moves(&plan), ["-p-c"]);
    assert_eq!(status_of(&plan, "v2").status, "unknown");
}

#[test]
fn until_the_newest_replica_set_is_there_the_trial_goes_on() {
    let between = tried(&["c"]).with(|seen| {
        seen.set.template_hash = "v3".into();
        seen.replica_sets[1].same_template = false;
    });
    let plan = between.plan();
    assert!(plan.create_replica_set && !plan.roles_changed);
    assert_eq!(moves(&plan), [""; 0]);
}

#[test]
fn a_spec_that_makes_no_sense_neither_starts_nor_ends_a_trial() {
    let unclear = |cluster: super::Cluster| cluster.with(|seen| seen.set.problems = vec!["spec.x: y".into()]);
    assert!(!unclear(new()).plan().roles_changed);
    let over = unclear(tried(&["a"]).begun_ago(7200));
    assert!(!over.plan().roles_changed);
    assert_eq!(over.moves(), [""; 0]);
}

#[test]
fn a_node_with_a_taint_keeps_its_canary_pod() {
    let tainted = tried(&["a"]).node("a", |node| node.taints = vec![taint("any", "NoSchedule")]);
    assert_eq!(tainted.moves(), [""; 0]);
    assert_eq!(tainted.plan().status.unwrap().canary.unwrap().nodes, ["a"]);
}

#[test]
fn a_twin_of_the_active_one_never_passes_for_a_canary() {
    let twin = new().with(|seen| {
        seen.set.template_hash = "v1".into();
        seen.replica_sets[0].same_template = true;
        seen.replica_sets[1].template_hash = "v1".into();
        seen.replica_sets[1].template_generation = "v1".into();
    });
    let plan = twin.plan();
    assert_eq!(plan.status.as_ref().unwrap().canary, None);
    assert_eq!(moves(&plan), [""; 0]);
}

#[test]
fn a_selector_of_the_canary_s_own_counts_for_its_nodes_only() {
    let chosen = new()
        .node("c", |node| {
            node.labels.insert("canary".into(), "true".into());
        })
        .canary(|canary| {
            canary.node_selector = NodeSelector {
                match_labels: [("canary".to_owned(), "true".to_owned())].into(),
                ..NodeSelector::default()
            };
        });
    assert_eq!(chosen.plan().status.unwrap().canary.unwrap().nodes, ["c"]);
}

#[test]
fn a_trial_leaves_traces_on_its_replica_set() {
    let plan = new().plan();
    assert_eq!(reason(&plan, condition::CANARY), Some(String::new()));
    assert_eq!(strategy().replicas, Amount::Count(1));
    let orphans = begun(&["a"]).pods([pod("extra", "b", "v2").orphaned()]);
    assert!(orphans.moves().contains(&"-extra".to_owned()), "{:?}", orphans.moves());
}
