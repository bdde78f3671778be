//! Who is active, what is made, what is kept and what goes.

use podwright_api::eds::{Condition, words::condition};

use super::cluster::{Cluster, NOW, ago, cluster, condition, moves, pod, replica_set, settled};
use crate::rollout::plan::{Controller, Deleted, PodTemplateChange, PodTemplateFacts, plan};

fn names(deleted: &[Deleted]) -> Vec<&str> {
    deleted.iter().map(|one| one.name.as_str()).collect()
}

#[test]
fn a_new_template_gets_a_replica_set_and_until_it_is_there_nothing_changes() {
    let new = settled(&["a"]).with(|seen| {
        seen.set.template_hash = "v2".into();
        seen.replica_sets[0].same_template = false;
    });
    let plan = new.plan();
    assert!(plan.create_replica_set);
    assert_eq!((moves(&plan), plan.delete_replica_sets.len(), plan.roles_changed), (vec![], 0, false));
    assert!(!settled(&["a"]).plan().create_replica_set);
}

#[test]
fn without_a_canary_the_newest_is_active_at_once() {
    let plan = settled(&["a"]).updated().plan();
    assert!(plan.roles_changed);
    assert_eq!(plan.status.unwrap().active_replica_set, "v2");
}

#[test]
fn the_first_one_and_one_whose_predecessor_is_lost_are_active_without_a_canary() {
    for active in ["", "lost"] {
        let first = cluster(&["a"]).with(|seen| {
            seen.set.status.active_replica_set = active.into();
            seen.set.strategy.canary = Some(super::canary::strategy());
        });
        let plan = first.plan();
        assert_eq!(plan.status.unwrap().active_replica_set, "v1");
        assert_eq!(plan.creations.len(), 1);
    }
}

// Take-over: the template is compared field by field first, and by its hash where that fails.
#[test]
fn what_the_go_controller_left_is_taken_over_without_touching_a_pod() {
    let structural = settled(&["a", "b"])
        .with(|seen| seen.replica_sets[0].template_hash = "hash of another library".into());
    let by_hash = settled(&["a", "b"]).with(|seen| seen.replica_sets[0].same_template = false);
    for cluster in [structural, by_hash] {
        let plan = cluster.plan();
        assert!(!plan.create_replica_set);
        assert_eq!((moves(&plan), plan.roles_changed), (vec![], false));
    }
}

#[test]
fn of_two_replica_sets_of_one_template_the_one_in_use_counts_and_no_pod_is_replaced() {
    let twins = |active: &str| {
        settled(&["a", "b"])
            .with(|seen| {
                let mut twin = replica_set("twin");
                twin.template_hash = "v1".into();
                twin.template_generation = "v1".into();
                twin.same_template = true;
                twin.created = ago(7200);
                seen.replica_sets.push(twin);
                seen.set.status.active_replica_set = active.into();
            })
            .pod("p-b", |_| pod("p-b", "b", "twin").with(|facts| facts.template_hash = "v1".into()))
    };
    for active in ["v1", "twin"] {
        let plan = twins(active).plan();
        assert_eq!((moves(&plan), plan.roles_changed), (vec![], false), "{active}");
        assert_eq!(names(&plan.delete_replica_sets), [""; 0], "its deletion would take its pod along");
        let status = plan.status.unwrap();
        assert_eq!((status.current, status.ready, status.desired), (2, 2, 2), "no pod counts twice");
    }
    let twin_idle = twins("v1").pod("p-b", |_| pod("p-b", "b", "v1"));
    assert_eq!(names(&twin_idle.plan().delete_replica_sets), ["twin"]);
}

#[test]
fn a_replica_set_goes_when_it_has_no_pods_and_that_has_been_told() {
    let old = |current: i32| {
        cluster(&["a"])
            .rolling()
            .pods([pod("p", "a", "v2")])
            .with(|seen| seen.replica_sets[0].status.current = current)
    };
    assert_eq!(names(&old(0).plan().delete_replica_sets), ["v1"]);
    assert_eq!(names(&old(1).plan().delete_replica_sets), [""; 0]);
    let told = old(1).plan().replica_set_statuses;
    let (_, status) = told.iter().find(|(name, _)| name == "v1").unwrap();
    assert_eq!((status.current, status.status.as_str()), (0, "unknown"), "it is told first");
}

#[test]
fn a_replica_set_with_a_pod_anywhere_stays_because_the_pod_would_go_with_it() {
    let tainted = settled(&["a", "b"])
        .rolling()
        .node("a", |node| node.taints = vec![super::cluster::taint("any", "NoSchedule")])
        .pod("p-b", |_| pod("p-b", "b", "v2"));
    assert_eq!(names(&tainted.plan().delete_replica_sets), [""; 0]);
    let in_flight = cluster(&["a"]).rolling().pods([pod("p", "a", "v1").with(|facts| facts.uid.clear())]);
    assert_eq!(names(&in_flight.plan().delete_replica_sets), [""; 0]);
}

#[test]
fn one_that_failed_stays_for_two_minutes() {
    let failed = |seconds| {
        settled(&["a"]).with(|seen| {
            let mut failed = replica_set("failed");
            failed.status.conditions = vec![condition(condition::CANARY_FAILED, "True", ago(seconds))];
            seen.replica_sets.push(failed);
        })
    };
    let plan = failed(119).plan();
    assert_eq!((names(&plan.delete_replica_sets), plan.next), (vec![], Some(NOW.plus_seconds(1))));
    assert_eq!(names(&failed(120).plan().delete_replica_sets), ["failed"]);
}

#[test]
fn one_that_nobody_controls_is_taken_on_and_one_of_another_is_left_alone() {
    let left = settled(&["a"]).with(|seen| seen.replica_sets[0].controller = Controller::Nobody);
    let plan = left.plan();
    assert_eq!((plan.adopt.clone(), moves(&plan)), (vec!["v1".to_owned()], vec![]));
    let foreign = settled(&["a"]).with(|seen| {
        let mut foreign = replica_set("foreign");
        foreign.controller = Controller::Another;
        seen.replica_sets.push(foreign);
    });
    assert_eq!(foreign.plan().adopt.len() + foreign.plan().delete_replica_sets.len(), 0);
}

#[test]
fn one_that_is_being_deleted_is_not_counted_on() {
    let going = settled(&["a"]).with(|seen| seen.replica_sets[0].deleting = true);
    assert!(going.plan().create_replica_set);
}

#[test]
fn the_pod_template_follows_the_template_and_another_s_is_left_alone() {
    let change = |stored: Option<(bool, &str)>| {
        let stored = stored.map(|(ours, hash)| PodTemplateFacts { ours, template_hash: hash.into() });
        settled(&["a"]).with(|seen| seen.pod_template = stored).plan().pod_template
    };
    assert_eq!(change(None), Some(PodTemplateChange::Create));
    assert_eq!(change(Some((true, "v1"))), None);
    assert_eq!(change(Some((true, "old"))), Some(PodTemplateChange::Update));
    assert_eq!(change(Some((false, "old"))), None);
}

// W25: what is being deleted needs nothing.
#[test]
fn nothing_is_done_for_a_set_that_is_being_deleted() {
    let going = cluster(&["a"]).with(|seen| seen.set.deleting = true);
    assert_eq!(going.plan(), crate::rollout::plan::Plan::default());
}

// W27: a name that no label can carry.
#[test]
fn a_name_that_is_too_long_is_said_to_be_so() {
    let long = cluster(&["a"]).with(|seen| seen.set.name = "x".repeat(64));
    let plan = long.plan();
    assert_eq!(moves(&plan), [""; 0]);
    assert!(
        plan.events.iter().any(|event| event.warning && event.note.contains("shorter")),
        "{:?}",
        plan.events
    );
    assert_eq!(plan.status.unwrap().state, "Running", "it is not frozen");
}

#[test]
fn a_template_of_which_it_is_not_clear_where_it_may_run_is_not_rolled_out() {
    let unreadable = settled(&["a", "b"]).updated().with(|seen| seen.replica_sets[1].placement = None);
    let plan = unreadable.plan();
    assert_eq!((moves(&plan), plan.roles_changed), (vec![], false));
    let stalled = plan.events.iter().find(|event| event.reason == "InvalidSpec").unwrap();
    assert!(stalled.note.contains("tolerations"), "{}", stalled.note);
}

#[test]
fn a_freeze_is_about_pods_and_not_about_which_template_is_the_newest() {
    let frozen = settled(&["a"]).annotated(podwright_api::keys::EDS_ROLLOUT_FROZEN, "true");
    let new = frozen.with(|seen| {
        seen.set.template_hash = "v2".into();
        seen.replica_sets[0].same_template = false;
    });
    assert!(new.plan().create_replica_set);
}

#[test]
fn roles_follow_from_what_is_stored_so_that_a_second_plan_finds_nothing_to_do() {
    fn store(cluster: &mut Cluster) {
        let planned = plan(&cluster.seen, NOW);
        if let Some(status) = planned.status {
            cluster.seen.set.status = status;
        }
        for (name, status) in planned.replica_set_statuses {
            cluster.seen.replica_sets.iter_mut().find(|known| known.name == name).unwrap().status = status;
        }
    }
    let mut cluster = settled(&["a", "b"]);
    store(&mut cluster);
    let again = plan(&cluster.seen, NOW.plus_seconds(3600));
    assert_eq!((again.status, again.replica_set_statuses.len(), again.events.len()), (None, 0, 0));
    let stored: Vec<&Condition> = cluster.seen.replica_sets[0].status.conditions.iter().collect();
    assert!(stored.iter().any(|known| known.type_ == condition::LAST_FULL_SYNC));
}
