//! How a trial ends.

use std::time::Duration;

use podwright_api::{
    config::ValidationMode,
    eds::{Condition, find_condition, words::condition},
    keys,
};

use super::{
    super::cluster::{Cluster, NOW, PodOf, ago, condition, moves},
    begun, minutes, reason, status_of, tried,
};
use crate::rollout::plan::plan;

fn active(cluster: &Cluster) -> String {
    cluster.plan().status.map_or_else(
        || cluster.seen.set.status.active_replica_set.clone(),
        |status| status.active_replica_set,
    )
}

fn aged(seconds: i64) -> Cluster {
    tried(&["a"]).begun_ago(seconds)
}

// The Go controller's selectCurrentReplicaSet and IsCanaryDeploymentEnded.
#[test]
fn a_trial_ends_after_its_duration_or_by_a_person_s_word() {
    for (seconds, valid, paused, expected) in [
        (300, None, false, "v1"),
        (660, None, false, "v2"),
        (300, Some("v2"), false, "v2"),
        (660, Some("v2"), false, "v2"),
        (300, Some("v1"), false, "v1"),
        (300, None, true, "v1"),
        (660, None, true, "v1"),
        (660, Some("v2"), true, "v2"),
    ] {
        let mut cluster = aged(seconds);
        if let Some(name) = valid {
            cluster = cluster.annotated(keys::EDS_CANARY_VALID, name);
        }
        if paused {
            cluster = cluster.annotated(keys::EDS_CANARY_PAUSED, "true");
        }
        assert_eq!(active(&cluster), expected, "{seconds} {valid:?} {paused}");
    }
    assert_eq!(aged(300).plan().next, Some(NOW.plus_seconds(300).plus(Duration::from_millis(1))));
    assert_eq!(active(&aged(600)), "v1", "it is over when its time is past, not when it is up");
}

#[test]
fn the_time_before_a_trial_begins_does_not_count() {
    let waited = tried(&["a"]).with(|seen| seen.replica_sets[1].created = ago(86_400));
    assert_eq!(
        active(&waited),
        "v1",
        "it was made long ago, behind a freeze perhaps, but is tried only since"
    );
    let not_begun = waited.with(|seen| {
        seen.set.status.canary = None;
        seen.replica_sets[1].status.conditions.clear();
    });
    assert_eq!(active(&not_begun), "v1");
}

#[test]
fn a_word_that_validated_one_trial_does_not_validate_the_next() {
    let promoted = tried(&["a"]).annotated(keys::EDS_CANARY_VALID, "v2");
    assert_eq!(promoted.plan().drop_annotations, [keys::EDS_CANARY_VALID]);
    let of_failed = failed().annotated(keys::EDS_CANARY_VALID, "v2");
    assert_eq!(of_failed.plan().drop_annotations, [keys::EDS_CANARY_VALID]);
    assert!(
        of_failed.plan().events.iter().any(|event| event.reason == "CanaryNotValidated"),
        "and that is said"
    );
    assert_eq!(tried(&["a"]).annotated(keys::EDS_CANARY_VALID, "other").plan().drop_annotations, [""; 0]);
}

#[test]
fn a_restart_puts_the_end_off() {
    let restarted = |seconds| aged(3600).trial_condition(condition::POD_RESTARTING, "Error", seconds);
    assert_eq!(active(&restarted(60)), "v1");
    assert_eq!(restarted(60).plan().next, Some(NOW.plus_seconds(240).plus(Duration::from_millis(1))));
    assert_eq!(active(&restarted(301)), "v2");
    let fresh = aged(3600).pod("p-a", |pod| pod.restarted(1, "Error", 10));
    assert_eq!(active(&fresh), "v1", "also one that is not stored yet");
}

#[test]
fn a_trial_that_would_be_paused_at_the_moment_of_its_end_does_not_end() {
    let late =
        aged(3600).canary(|canary| canary.no_restarts = None).pod("p-a", |pod| pod.restarted(3, "Error", 10));
    let plan = late.plan();
    assert_eq!(reason(&plan, condition::CANARY_PAUSED).unwrap(), "Error");
    assert_eq!(active(&late), "v1");
}

// W24: what was left of the automatic mode means nothing.
#[test]
fn in_manual_mode_only_a_person_ends_it() {
    let manual = || {
        aged(86_400).canary(|canary| {
            canary.mode = ValidationMode::Manual;
            canary.duration = None;
            canary.no_restarts = None;
        })
    };
    assert_eq!(active(&manual()), "v1");
    assert_eq!(active(&manual().annotated(keys::EDS_CANARY_VALID, "v2")), "v2");
}

#[test]
fn switching_a_trial_under_way_to_manual_takes_effect_with_what_the_go_controller_wrote_into_the_spec() {
    let spec: podwright_api::eds::ExtendedDaemonSetSpec = serde_json::from_value(serde_json::json!({
        "template": {}, "strategy": {"canary": {
            "validationMode": "manual", "duration": "10m0s", "noRestartsDuration": "5m0s",
        }},
    }))
    .unwrap();
    let (strategy, problems) = spec.effective(ValidationMode::Auto);
    assert_eq!(problems, []);
    let switched = aged(86_400).with(|seen| seen.set.strategy.canary = strategy.canary);
    assert_eq!(active(&switched), "v1");
}

// W9: the Go controller promotes what never ran.
#[test]
fn with_require_ready_nothing_is_promoted_before_every_pod_is_available() {
    let gated =
        |cluster: Cluster| active(&cluster.begun_ago(3600).canary(|canary| canary.require_ready = true));
    assert_eq!(gated(tried(&["a", "b"])), "v2");
    assert_eq!(gated(tried(&["a", "b"]).pod("p-b", PodOf::not_ready)), "v1");
    assert_eq!(gated(tried(&["a", "b"]).gone("p-b")), "v1");
    assert_eq!(gated(begun(&["a", "b"])), "v1", "old pods do not count");
    assert_eq!(gated(tried(&["a", "b"]).min_ready(101)), "v1", "ready for long enough");
    assert_eq!(gated(tried(&[])), "v1", "a trial on no node says nothing");
    assert_eq!(
        gated(tried(&["a"]).pod("p-a", PodOf::not_ready).annotated(keys::EDS_CANARY_VALID, "v2")),
        "v2"
    );
    assert_eq!(
        active(&aged(3600).pod("p-a", PodOf::not_ready)),
        "v2",
        "unset, time alone decides, as users know it"
    );
}

#[test]
fn a_promoted_trial_leaves_no_trace_but_its_pods() {
    let plan = aged(3600)
        .trial_condition(condition::CANARY_PAUSED, "x", 900)
        .annotated(keys::EDS_CANARY_VALID, "v2")
        .plan();
    let status = plan.status.as_ref().unwrap();
    assert_eq!((&status.canary, status.state.as_str(), status.reason.as_str()), (&None, "Running", ""));
    let promoted = status_of(&plan, "v2");
    assert_eq!(promoted.status, "active");
    for type_ in [condition::CANARY, condition::CANARY_PAUSED] {
        assert!(!find_condition(&promoted.conditions, type_).unwrap().is_true());
    }
    assert!(find_condition(&promoted.conditions, condition::ACTIVE).unwrap().is_true());
    assert!(!moves(&plan).contains(&"-p-a".to_owned()), "its pod stays");
    assert!(plan.events.iter().any(|event| event.reason == "CanaryPromoted"));
}

/// The trial has failed, and that is stored.
fn failed() -> Cluster {
    tried(&["a"]).with(|seen| {
        let mut stored = condition(condition::CANARY_FAILED, "True", ago(5));
        stored.reason = "OOMKilled".into();
        stored.message = "pod p-a on node a, container main: restarted 6 times".into();
        seen.replica_sets[1].status.conditions.push(stored);
    })
}

#[test]
fn a_failed_trial_gives_its_nodes_back_and_the_template_is_restored() {
    let plan = failed().plan();
    let status = plan.status.as_ref().unwrap();
    assert_eq!(
        (&status.canary, status.state.as_str(), status.active_replica_set.as_str()),
        (&None, "Canary Failed", "v1")
    );
    assert_eq!(status.up_to_date, 3, "that of the active one");
    let told = find_condition(&status.conditions, condition::CANARY_FAILED).unwrap();
    assert_eq!(
        (told.is_true(), told.reason.as_str(), told.message.as_str()),
        (true, "CanaryFailed", "canary failed with ers: v2")
    );
    assert_eq!(plan.restore_template.as_deref(), Some("v1"));
    assert_eq!(moves(&plan), ["-p-a"]);
    let event = plan.events.iter().find(|event| event.reason == "CanaryFailed").unwrap();
    assert!(event.note.contains("OOMKilled") && event.note.contains("node a"), "{}", event.note);
    assert!(
        find_condition(&status_of(&plan, "v2").conditions, condition::CANARY_FAILED)
            .is_some_and(Condition::is_true)
    );
}

#[test]
fn after_the_template_is_restored_all_is_as_before_and_the_condition_says_when() {
    let restored = failed().stored().with(|seen| {
        seen.set.template_hash = "v1".into();
        seen.replica_sets[0].same_template = true;
        seen.replica_sets[1].same_template = false;
    });
    let plan = restored.plan();
    let status = plan.status.as_ref().unwrap();
    assert_eq!((status.state.as_str(), status.active_replica_set.as_str()), ("Running", "v1"));
    let told = find_condition(&status.conditions, condition::CANARY_FAILED).unwrap();
    assert_eq!((told.is_true(), told.last_transition_time), (false, Some(NOW)));
    assert_eq!(told.message, "canary failed with ers: v2", "which one is still said");
    assert_eq!(plan.restore_template, None);
    assert_eq!(plan.delete_replica_sets, [], "it stays for two minutes");
}

#[test]
fn the_same_template_applied_again_is_found_to_have_failed_and_not_tried_again() {
    let plan = failed().stored().plan();
    assert_eq!((plan.status, plan.restore_template.as_deref()), (None, Some("v1")));
    assert_eq!(plan.events, [], "and nothing is told twice");
}

#[test]
fn no_word_of_a_person_and_no_passing_of_time_promotes_what_failed() {
    let insisted = failed().annotated(keys::EDS_CANARY_VALID, "v2").begun_ago(86_400);
    assert_eq!(active(&insisted), "v1");
}

// W15: the Go controller rewrites the user's spec, which whoever applies it from a repository writes back.
#[test]
fn on_failure_the_spec_can_be_left_as_it_is() {
    let held = failed().canary(|canary| canary.hold_on_failure = true);
    let planned = held.plan();
    assert_eq!(planned.restore_template, None);
    let status = planned.status.as_ref().unwrap();
    assert_eq!((status.state.as_str(), status.active_replica_set.as_str()), ("Canary Failed", "v1"));
    let stalled = find_condition(&status.conditions, condition::STALLED).unwrap();
    assert!(stalled.is_true() && stalled.message.contains("OOMKilled"), "{}", stalled.message);
    let later = plan(&held.stored().seen, NOW.plus_seconds(86_400));
    assert_eq!((later.delete_replica_sets, later.status), (vec![], None), "and that lasts");
}

#[test]
fn a_person_fails_it_by_the_condition_on_its_replica_set() {
    let by_hand = tried(&["a"]).trial_condition(condition::CANARY_FAILED, "Manually failed", 0);
    assert_eq!(by_hand.plan().status.unwrap().state, "Canary Failed");
}

#[test]
fn the_duration_may_be_anything() {
    let short = tried(&["a"]).canary(|canary| canary.duration = Some(Duration::ZERO));
    assert_eq!(active(&short), "v2");
    let long = tried(&["a"]).canary(|canary| canary.duration = Some(minutes(1 << 40)));
    assert_eq!(active(&long), "v1");
}
