//! When a trial is paused or fails by itself.

use std::time::Duration;

use podwright_api::eds::words::condition;

use super::{
    super::cluster::{NOW, ago, moves},
    begun, minutes, reason, status_of, tried,
};

// The Go controller's HighRestartsLeadingToPause.
#[test]
fn a_pod_that_restarts_too_often_pauses_the_trial_and_is_named() {
    let two = tried(&["a"]).pod("p-a", |pod| pod.restarted(2, "Error", 30));
    assert_eq!(reason(&two.plan(), condition::CANARY_PAUSED), None);
    let three =
        tried(&["a", "b", "c"]).gone("p-b").pod("p-a", |pod| pod.restarted(3, "CrashLoopBackOff", 30));
    let plan = three.plan();
    assert_eq!(reason(&plan, condition::CANARY_PAUSED).unwrap(), "CrashLoopBackOff");
    assert!(plan.creations.iter().all(|creation| creation.replica_set == "v1"), "it spreads no further");
    let restarting =
        status_of(&plan, "v2").conditions.into_iter().find(|known| known.type_ == "PodRestarting").unwrap();
    assert_eq!(restarting.last_update_time, Some(ago(30)), "the time is that of the restart");
    assert_eq!(restarting.message, "Pod p-a restarting with reason: CrashLoopBackOff");
    let status = plan.status.as_ref().unwrap();
    assert_eq!((status.state.as_str(), status.reason.as_str()), ("Canary Paused", "CrashLoopBackOff"));
    let paused = status.conditions.iter().find(|known| known.type_ == "Canary-Paused").unwrap();
    assert_eq!(
        (paused.reason.as_str(), paused.message.as_str()),
        ("CrashLoopBackOff", "canary paused with ers: v2")
    );
    let event = plan.events.iter().find(|event| event.reason == "CanaryPaused").unwrap();
    for word in ["p-a", "node a", "main", "CrashLoopBackOff"] {
        assert!(event.note.contains(word), "{}", event.note);
    }
}

// HighRestartsLeadingToFail.
#[test]
fn a_pod_that_restarts_far_too_often_fails_the_trial_and_that_is_stored_before_it_is_acted_on() {
    let six = tried(&["a"]).pod("p-a", |pod| pod.restarted(6, "OOMKilled", 30));
    let plan = six.plan();
    assert_eq!(reason(&plan, condition::CANARY_FAILED).unwrap(), "OOMKilled");
    assert_eq!(status_of(&plan, "v2").status, "canary-failed");
    assert_eq!((plan.roles_changed, plan.restore_template, plan.next), (false, None, Some(NOW)));
    let acted = six.stored().plan();
    assert_eq!(acted.status.as_ref().unwrap().state, "Canary Failed");
    assert_eq!((acted.roles_changed, acted.restore_template.as_deref()), (true, Some("v1")));
}

#[test]
fn the_worst_container_counts_and_one_without_a_reason_is_unknown() {
    let worst = tried(&["a"]).pod("p-a", |pod| pod.restarted(1, "Error", 5).restarted(4, "", 60));
    assert_eq!(reason(&worst.plan(), condition::CANARY_PAUSED).unwrap(), "Unknown");
    // W21: a last state without an end.
    let endless = tried(&["a"])
        .pod("p-a", |pod| pod.restarted(4, "x", 60).with(|facts| facts.containers[0].last_end = None));
    assert_eq!(reason(&endless.plan(), condition::CANARY_PAUSED).unwrap(), "Unknown");
}

// LongRestartsDurationLeadingToFail.
#[test]
fn restarts_that_go_on_for_too_long_fail_the_trial() {
    let long = |first: i64| {
        tried(&["a"])
            .trial_condition(condition::POD_RESTARTING, "Error", first)
            .canary(|canary| canary.auto_fail.as_mut().unwrap().max_restarts_duration = Some(minutes(20)))
            .pod("p-a", |pod| pod.restarted(1, "Error", 0))
    };
    assert_eq!(reason(&long(50 * 60).plan(), condition::CANARY_FAILED).unwrap(), "RestartsTimeoutExceeded");
    assert_eq!(reason(&long(20 * 60).plan(), condition::CANARY_FAILED), None);
}

// LongDurationLeadingToFail. W3: without a pod, too, and while it is paused.
#[test]
fn a_trial_that_takes_too_long_fails_whether_it_has_pods_or_not() {
    let limited = |cluster: super::Cluster| {
        cluster.canary(|canary| canary.auto_fail.as_mut().unwrap().timeout = Some(Duration::from_secs(119)))
    };
    assert_eq!(reason(&limited(tried(&["a"])).plan(), condition::CANARY_FAILED).unwrap(), "TimeoutExceeded");
    let bare = limited(begun(&["a"]).gone("p-a").trial_condition(condition::CANARY_PAUSED, "Error", 60));
    let plan = bare.plan();
    assert_eq!(reason(&plan, condition::CANARY_FAILED).unwrap(), "TimeoutExceeded");
    assert_eq!(reason(&plan, condition::CANARY_PAUSED), None);
    let stuck = limited(tried(&["a"]).pod("p-a", |pod| pod.waiting("ErrImagePull")));
    assert_eq!(reason(&stuck.plan(), condition::POD_CANNOT_START).unwrap(), "ErrImagePull");
    let early = tried(&["a"]).canary(|canary| canary.auto_fail.as_mut().unwrap().timeout = Some(minutes(3)));
    assert_eq!(early.plan().next, Some(NOW.plus_seconds(60).plus(Duration::from_millis(1))));
}

// ImagePullErrorLeadingToPause, CreateContainerConfigError.
#[test]
fn a_pod_that_cannot_start_pauses_the_trial() {
    for waits in ["ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError", "InvalidImageName"] {
        let plan = tried(&["a"]).pod("p-a", |pod| pod.waiting(waits)).plan();
        assert_eq!(reason(&plan, condition::CANARY_PAUSED).unwrap(), waits);
        assert_eq!(reason(&plan, condition::POD_CANNOT_START).unwrap(), waits);
    }
    for waits in ["ContainerCreating", "PodInitializing", "CrashLoopBackOff"] {
        let plan = tried(&["a"]).pod("p-a", |pod| pod.waiting(waits)).plan();
        assert_eq!(reason(&plan, condition::CANARY_PAUSED), None, "{waits}");
    }
}

// AutoPausePendingCreate, AutoPauseWithMaxSlowStart, CreateContainerConfigError_..MaxSlowStart...
#[test]
fn a_pod_has_time_to_start_if_the_user_says_so() {
    let slow = |waits: &str, age: i64, patience: u64| {
        tried(&["a"])
            .canary(|canary| {
                canary.auto_pause.as_mut().unwrap().max_slow_start = Some(Duration::from_secs(patience));
            })
            .pod("p-a", |pod| pod.waiting(waits).with(|facts| facts.started = Some(ago(age))))
            .plan()
    };
    assert_eq!(reason(&slow("ContainerCreating", 30, 60), condition::CANARY_PAUSED), None);
    assert_eq!(
        slow("ContainerCreating", 30, 60).next,
        Some(NOW.plus_seconds(30).plus(Duration::from_millis(1)))
    );
    assert_eq!(
        reason(&slow("ContainerCreating", 120, 60), condition::CANARY_PAUSED).unwrap(),
        "SlowStartTimeoutExceeded"
    );
    assert_eq!(reason(&slow("CreateContainerConfigError", 30, 60), condition::CANARY_PAUSED), None);
    assert_eq!(
        reason(&slow("CreateContainerConfigError", 120, 60), condition::CANARY_PAUSED).unwrap(),
        "CreateContainerConfigError"
    );
    // W21: a pod that has no start time yet.
    let unborn = tried(&["a"])
        .canary(|canary| canary.auto_pause.as_mut().unwrap().max_slow_start = Some(minutes(1)))
        .pod("p-a", |pod| pod.waiting("ContainerCreating").with(|facts| facts.started = None));
    assert_eq!(reason(&unborn.plan(), condition::CANARY_PAUSED).unwrap(), "SlowStartTimeoutExceeded");
}

#[test]
fn what_is_switched_off_does_not_happen() {
    let off = tried(&["a"])
        .canary(|canary| {
            canary.auto_pause = None;
            canary.auto_fail = None;
        })
        .pod("p-a", |pod| pod.restarted(99, "Error", 5).waiting("ErrImagePull"));
    let plan = off.plan();
    assert_eq!(
        (reason(&plan, condition::CANARY_PAUSED), reason(&plan, condition::CANARY_FAILED)),
        (None, None)
    );
}

#[test]
fn pods_that_are_not_of_the_trial_do_not_count() {
    let others = begun(&["a"])
        .pod("p-a", |pod| pod.restarted(99, "Error", 5))
        .pod("p-b", |pod| pod.restarted(99, "Error", 5));
    let plan = others.plan();
    assert_eq!(reason(&plan, condition::CANARY_FAILED), None);
    assert_eq!(moves(&plan), ["-p-a"]);
}
