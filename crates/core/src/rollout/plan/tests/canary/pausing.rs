//! A trial that is paused, by itself or by a person.

use podwright_api::{
    eds::{Amount, words::condition},
    keys,
};

use super::{
    super::cluster::{NOW, moves, replica_set},
    begun, minutes, reason, tried,
};
use crate::rollout::plan::plan;

// W4: the Go controller deletes the old pods of a paused canary and makes none.
#[test]
fn a_pause_never_leaves_a_node_bare_and_the_new_template_spreads_no_further() {
    let nodes = ["a", "b", "c"];
    let paused =
        begun(&nodes).pods_on(&["a"]).gone("p-c").trial_condition(condition::CANARY_PAUSED, "Error", 10);
    let plan = paused.plan();
    assert_eq!(moves(&plan), ["+c"], "b keeps what it has");
    assert_eq!((plan.creations[0].replica_set.as_str(), plan.creations[0].canary), ("v1", false));
}

#[test]
fn a_pause_lasts_until_a_person_ends_it() {
    let paused = || tried(&["a"]).trial_condition(condition::CANARY_PAUSED, "OOMKilled", 60);
    let status = paused().plan().status.unwrap();
    assert_eq!((status.state.as_str(), status.reason.as_str()), ("Canary Paused", "OOMKilled"));
    let unpaused = paused()
        .annotated(keys::EDS_CANARY_UNPAUSED, "true")
        .annotated(keys::EDS_CANARY_PAUSED, "false")
        .plan();
    assert_eq!(unpaused.status.as_ref().unwrap().state, "Canary");
    assert_eq!(reason(&unpaused, condition::CANARY_PAUSED), None);
    let again = paused()
        .annotated(keys::EDS_CANARY_UNPAUSED, "true")
        .pod("p-a", |pod| pod.restarted(4, "Error", 3))
        .plan();
    assert_eq!(reason(&again, condition::CANARY_PAUSED), None, "and then it is not paused by itself again");
    let fails = paused()
        .annotated(keys::EDS_CANARY_UNPAUSED, "true")
        .pod("p-a", |pod| pod.restarted(6, "Error", 3))
        .plan();
    assert_eq!(reason(&fails, condition::CANARY_FAILED).unwrap(), "Error", "but it may fail");
}

// W3: the Go controller can't end a pause of a canary that has no pods.
#[test]
fn a_paused_trial_without_pods_can_go_on_be_validated_or_fail() {
    let bare = || begun(&["a"]).gone("p-a").trial_condition(condition::CANARY_PAUSED, "Error", 60);
    let unpaused = bare().annotated(keys::EDS_CANARY_UNPAUSED, "true").plan();
    assert_eq!(unpaused.status.as_ref().unwrap().state, "Canary");
    assert_eq!((moves(&unpaused), unpaused.creations[0].replica_set.as_str()), (vec!["+a".to_owned()], "v2"));
    let valid = bare().annotated(keys::EDS_CANARY_VALID, "v2").plan();
    assert_eq!(valid.status.unwrap().active_replica_set, "v2");
    let failed = bare().trial_condition(condition::CANARY_FAILED, "Manually failed", 1).plan();
    assert_eq!(failed.status.unwrap().state, "Canary Failed");
}

// The Go controller's TestIsCanaryDeploymentPaused.
#[test]
fn a_person_pauses_by_annotation_and_only_true_is_true() {
    for (value, why, expected) in [
        (Some("false"), None, None),
        (None, None, None),
        (Some("truee"), None, None),
        (Some("true"), Some("CrashLoopBackOff"), Some("CrashLoopBackOff")),
        (Some("true"), None, Some("Unknown")),
        (Some("true"), Some("because I say so"), Some("because I say so")),
    ] {
        let mut cluster = tried(&["a"]);
        for (key, value) in [(keys::EDS_CANARY_PAUSED, value), (keys::EDS_CANARY_PAUSED_REASON, why)] {
            if let Some(value) = value {
                cluster = cluster.annotated(key, value);
            }
        }
        let status = cluster.plan().status.unwrap();
        let shown = (status.state == "Canary Paused").then_some(status.reason.as_str());
        assert_eq!(shown, expected, "{value:?} {why:?}");
    }
}

#[test]
fn taking_the_annotation_away_ends_the_pause_that_it_made() {
    let paused = tried(&["a"]).annotated(keys::EDS_CANARY_PAUSED, "true").stored();
    assert_eq!(paused.seen.set.status.state, "Canary Paused");
    let ended = paused.with(|seen| seen.set.annotations.clear());
    let plan = ended.plan();
    assert_eq!(plan.status.as_ref().unwrap().state, "Canary");
    assert!(plan.events.iter().any(|event| event.reason == "CanaryUnpaused"));
}

#[test]
fn a_paused_trial_takes_no_more_nodes_but_gives_some_up() {
    let paused = |count| {
        tried(&["a", "b"])
            .trial_condition(condition::CANARY_PAUSED, "Error", 10)
            .canary(|canary| canary.replicas = Amount::Count(count))
    };
    assert_eq!(paused(4).plan().status.unwrap().canary.unwrap().nodes, ["a", "b"]);
    assert_eq!(paused(1).plan().status.unwrap().canary.unwrap().nodes, ["a"]);
}

#[test]
fn the_words_of_a_person_are_taken_off_when_the_trial_is_over() {
    let notes = [keys::EDS_CANARY_PAUSED, keys::EDS_CANARY_PAUSED_REASON, keys::EDS_CANARY_UNPAUSED];
    let over = [&notes[..], &[keys::EDS_CANARY_VALID]].concat();
    let annotated = || notes.iter().fold(tried(&["a"]), |cluster, key| cluster.annotated(key, "true"));
    assert_eq!(annotated().plan().drop_annotations, [""; 0]);
    assert_eq!(annotated().annotated(keys::EDS_CANARY_VALID, "v2").plan().drop_annotations, over);
    assert_eq!(annotated().trial_condition(condition::CANARY_FAILED, "x", 1).plan().drop_annotations, notes);
    let without_block =
        annotated().annotated(keys::EDS_CANARY_VALID, "v2").with(|seen| seen.set.strategy.canary = None);
    assert_eq!(without_block.plan().drop_annotations, [""; 0], "they mean nothing there");
}

#[test]
fn time_in_a_pause_counts_unless_the_user_says_otherwise() {
    // It began 15 minutes ago, lasts ten, and was paused from minute 4 to minute 14.
    let paused = |stops| {
        tried(&["a"])
            .trial_condition(condition::CANARY_PAUSED, "Error", 11 * 60)
            .begun_ago(15 * 60)
            .canary(|canary| canary.pause_stops_clock = stops)
            .annotated(keys::EDS_CANARY_UNPAUSED, "true")
    };
    assert_eq!(paused(false).plan().status.unwrap().active_replica_set, "v2", "as with the Go controller");
    let plan = paused(true).plan();
    let canary = plan.status.as_ref().unwrap().canary.clone().unwrap();
    assert_eq!(canary.paused_seconds, 11 * 60);
    assert_eq!(plan.next, Some(NOW.plus_seconds(6 * 60).plus(std::time::Duration::from_millis(1))));
    let later = paused(true).stored();
    assert_eq!(plan_at(&later, 5 * 60), "v1");
    assert_eq!(plan_at(&later, 6 * 60 + 1), "v2");
}

fn plan_at(cluster: &super::Cluster, seconds: i64) -> String {
    let status = plan(&cluster.seen, NOW.plus_seconds(seconds)).status;
    status.unwrap_or_else(|| cluster.seen.set.status.clone()).active_replica_set
}

#[test]
fn a_pause_of_an_earlier_template_does_not_count_for_the_next() {
    let newer = tried(&["a"]).with(|seen| {
        seen.set.status.canary.as_mut().unwrap().paused_seconds = 500;
        seen.set.template_hash = "v3".into();
        seen.replica_sets[1].same_template = false;
        let mut third = replica_set("v3");
        third.same_template = true;
        third.created = NOW;
        seen.replica_sets.push(third);
    });
    let newer = newer.canary(|canary| {
        canary.pause_stops_clock = true;
        canary.duration = Some(minutes(10));
    });
    assert_eq!(newer.plan().status.unwrap().canary.unwrap().paused_seconds, 0);
}
