use super::*;
use crate::distribution::Phase;
use samples::{node, owner, pod, unmarked};

fn nodes() -> Vec<NodeRoom> {
    vec![node("a", 99), node("b", 99), node("z", 99)]
}

/// So many pods that admission has placed, half and half, some of them after all others.
fn with(more: Vec<Member>, marked: usize) -> Case {
    let mut members: Vec<Member> = pods(&"ab".repeat(marked / 2));
    for pod in &mut members {
        pod.created = 100;
    }
    members.extend(more);
    Case::new(&[1, 1], &json!({}), members, nodes())
}

fn pending(name: &str) -> Member {
    Member { node: None, phase: Phase::Pending, ready: false, ..unmarked(name, "a") }
}

#[test]
fn a_pod_that_slipped_by_and_does_not_run_is_deleted() {
    assert_eq!(told(&with(vec![pending("x")], 4).settle()), ["x SlippedBy Delete"]);
}

#[test]
fn one_that_runs_on_a_node_of_no_entry_is_evicted_if_there_is_room_where_it_belongs() {
    let mut case = with(vec![unmarked("x", "z")], 4);
    assert_eq!(told(&case.settle()), ["x SlippedBy Evict"]);
    for pool in 0..2 {
        case.nodes[pool].free_pods = 0;
    }
    assert!(case.settle().removals.is_empty(), "it runs, and elsewhere it would not");
}

#[test]
fn one_that_runs_where_it_is_welcome_stays_and_one_too_many_goes() {
    assert!(with(vec![unmarked("x", "a"), unmarked("y", "b")], 4).settle().removals.is_empty());
    let crowd = vec![unmarked("x", "b"), unmarked("y", "b"), unmarked("z", "b")];
    let plan = with(crowd, 4).settle();
    assert_eq!(plan.removals.len(), 1, "{plan:?}");
}

#[test]
fn nothing_is_repaired_before_the_burst_is_over() {
    let mut case = with(vec![pending("x")], 4);
    assert!(case.write().removals.is_empty(), "the pods have only just been seen");
    case.ledger_quiet = false;
    assert!(case.settle().removals.is_empty(), "some are on their way");
}

#[test]
fn whoever_was_not_meant_to_be_placed_is_left_alone() {
    let foreign = || unmarked("x-1", "z");
    for (why, pod) in [
        ("older than the rule", Member { created: -1, ..foreign() }),
        (
            "contradicts the rule",
            Member { node_selector: [("pool".to_owned(), "z".to_owned())].into(), ..foreign() },
        ),
        ("of a Job", Member { owner: Some(owner("Job")), ..foreign() }),
        ("of a StatefulSet", Member { owner: Some(owner("StatefulSet")), ..foreign() }),
        ("of nobody", Member { owner: None, ..foreign() }),
        ("of an old revision", Member { revision: "r0".to_owned(), ..foreign() }),
        ("going already", Member { deleting: true, ..foreign() }),
    ] {
        assert!(with(vec![pod], 4).settle().removals.is_empty(), "{why}");
    }
    let mut preferred = Case::new(&[1, 1], &json!({"mode": "Preferred"}), vec![foreign()], nodes());
    assert!(preferred.settle().removals.is_empty());
}

#[test]
fn pods_from_before_the_rule_was_in_force_for_them_are_not_repaired() {
    let mut case = with(vec![Member { created: 500, ..unmarked("x", "z") }], 4);
    case.rule.status.target = Some("Deployment/another".to_owned());
    let plan = case.settle();
    assert_eq!((told(&plan), plan.status.in_force_since), (vec![], Some(START)), "the target was changed");
    assert_eq!(plan.status.target.as_deref(), Some("Deployment/web"));
    case.members.push(Member { created: START, ..unmarked("y", "z") });
    assert_eq!(told(&case.settle()), ["y SlippedBy Evict"], "this one is");
    case.rule.status = PodDistributorStatus::default();
    assert_eq!(told(&case.settle()), [""; 0], "the rule is older than we are here");
}

#[test]
fn a_few_go_at_a_time_and_none_while_too_many_are_away() {
    let crowd = |n: usize| (0..n).map(|n| unmarked(&format!("x{n}"), "z")).collect::<Vec<_>>();
    assert_eq!(with(crowd(20), 40).settle().removals.len(), 6);
    let mut busy = with(crowd(20), 40);
    for pod in busy.members.iter_mut().take(5) {
        pod.ready = false;
    }
    assert_eq!(busy.settle().removals.len(), 1);
    busy.pod("p7").deleting = true;
    assert_eq!(busy.settle().removals.len(), 0);
    let waiting = (0..20).map(|n| pending(&format!("x{n}"))).collect();
    assert_eq!(with(waiting, 40).settle().removals.len(), 6, "what does not run disturbs nobody");
}

#[test]
fn while_no_webhook_answers_one_goes_ahead_and_the_others_wait_for_word() {
    let late = |n: usize| Member { created: 200, ..pending(&format!("x{n}")) };
    let mut case = with((0..10).map(late).collect(), 40);
    let plan = case.settle();
    assert_eq!(told(&plan), ["x0 SlippedBy Delete"]);
    case.history.removed(&plan.removals[0], case.now);
    let removed = case.now;
    // Its successor was not seen either.
    *case.pod("x0") = Member { created: removed, uid: "again".to_owned(), ..pending("x0") };
    let plan = case.settle();
    assert_eq!((plan.removals.len(), plan.wake_at), (0, Some(removed + 300)));
    case.now = removed + 300;
    let plan = case.settle();
    assert_eq!(plan.removals.len(), 1, "another try");
    case.history.removed(&plan.removals[0], case.now);
    assert_eq!(case.settle().wake_at, Some(case.now - SETTLED_AFTER + 600), "and later still");
    // The next was seen: now they may go a few at a time.
    let created = case.now;
    *case.pod("x0") = Member { created, uid: "seen".to_owned(), ..pod("x0", "a") };
    assert_eq!(case.settle().removals.len(), 5);
}

#[test]
fn nothing_that_runs_goes_while_the_workload_owes_a_pod() {
    let mut case = with((0..20).map(|n| unmarked(&format!("x{n}"), "z")).collect(), 40);
    let plan = case.settle();
    case.history.removed(&plan.removals[0], case.now);
    let gone = plan.removals[0].name.clone();
    case.members.retain(|pod| pod.name != gone);
    assert!(case.settle().removals.is_empty(), "a quota may keep it from being made anew");
}
