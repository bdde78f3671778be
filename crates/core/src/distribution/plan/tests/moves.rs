use super::*;
use crate::distribution::Phase;
use samples::{node, owner, unmarked};

fn nodes() -> Vec<NodeRoom> {
    vec![node("a", 99), node("b", 99)]
}

fn rebalanced(pools: &str) -> Case {
    Case::new(&[1, 1], &json!({"rebalance": {"enabled": true}}), pods(pools), nodes())
}

#[test]
fn pods_move_one_at_a_time_if_somebody_asks_for_it() {
    assert!(Case::new(&[1, 1], &json!({}), pods("aaaaab"), nodes()).settle().removals.is_empty());
    let mut case = rebalanced("aaaaab");
    assert!(case.write().removals.is_empty(), "not before the pods have settled");
    let plan = case.settle();
    assert_eq!(told(&plan), ["p4 Moved Evict"], "the one with the lowest cost: {:?}", case.members);
    assert_eq!(plan.removals[0].why, "pool=a has more than its share, and pool=b less");
    assert!(rebalanced("aab").settle().removals.is_empty(), "less than a pod away");
}

#[test]
fn nothing_moves_that_would_make_it_worse() {
    for (why, spoil) in [
        ("a pod is not ready", (|case: &mut Case| case.pod("p0").ready = false) as fn(&mut Case)),
        ("a pod waits", |case| {
            let waiting = case.pod("p5");
            (waiting.node, waiting.phase, waiting.ready) = (None, Phase::Pending, false);
        }),
        ("there is no room", |case| case.nodes[1].free_pods = 0),
        ("a rollout is under way", |case| {
            case.members.push(Member { revision: "r0".to_owned(), created: -1, ..samples::pod("old", "a") });
        }),
        ("they keep their number", |case| {
            for (n, pod) in case.members.iter_mut().enumerate() {
                pod.owner = Some(owner("StatefulSet"));
                pod.name = format!("web-{n}");
            }
        }),
        ("nobody makes them anew", |case| {
            for pod in &mut case.members {
                pod.owner = None;
            }
        }),
        ("some are on their way", |case| case.ledger_quiet = false),
    ] {
        let mut case = rebalanced("aaaaab");
        spoil(&mut case);
        assert_eq!(told(&case.settle()), [""; 0], "{why}");
    }
}

#[test]
fn moves_are_limited_by_the_minute() {
    let mut case = rebalanced("aaaaaaaaaaaaaaaaaaaa");
    for n in 0..6 {
        let plan = case.settle();
        assert_eq!(plan.removals.len(), 1, "{n}");
        case.history.removed(&plan.removals[0], case.now);
        let name = plan.removals[0].name.clone();
        let created = case.now;
        *case.pod(&name) = Member { uid: format!("new-{n}"), created, ..samples::pod(&name, "b") };
    }
    let plan = case.settle();
    assert_eq!((plan.removals.len(), plan.wake_at), (0, Some(START + SETTLED_AFTER + 60)));
    case.now = START + SETTLED_AFTER + 60;
    assert_eq!(case.write().removals.len(), 1);
}

#[test]
fn a_move_that_a_disruption_budget_holds_up_is_tried_again() {
    let mut case = rebalanced("aaaaab");
    let plan = case.settle();
    assert_eq!(plan.wake_at, Some(case.now + HELD_UP));
    case.now += HELD_UP;
    assert_eq!(case.write().removals, plan.removals, "it did not count as made");
}

#[test]
fn the_next_waits_until_the_last_was_made_anew_but_not_for_ever() {
    let mut case = rebalanced("aaaaaaaa");
    let plan = case.settle();
    case.history.removed(&plan.removals[0], case.now);
    let until = case.now + 300;
    case.members.pop();
    let plan = case.settle();
    assert_eq!((plan.removals.len(), plan.wake_at), (0, Some(until)));
    case.now = until;
    assert_eq!(case.write().removals.len(), 1, "somebody wants fewer pods");
}

#[test]
fn pods_return_after_a_spill_without_being_asked() {
    let mut case =
        Case::new(&[1, 1], &json!({"whenUnsatisfiable": "Spill"}), pods("aaaa"), vec![node("a", 99)]);
    assert!(case.settle().removals.is_empty(), "there is nowhere to go");
    assert_eq!(case.rule.status.status.as_deref(), Some("Unsatisfied"));
    case.nodes = nodes();
    assert!(case.write().removals.is_empty(), "admission has yet to hear of it");
    assert_eq!(told(&case.settle()), ["p3 Moved Evict"]);
}

#[test]
fn pods_in_no_entry_move_only_if_somebody_asks_for_it() {
    let stray = || vec![Member { created: -1, ..unmarked("x", "z") }, samples::pod("p", "a")];
    let all = || vec![node("a", 9), node("b", 9), node("z", 9)];
    let moved = |spec: &Value| told(&Case::new(&[1, 1], spec, stray(), all()).settle());
    assert_eq!(moved(&json!({"rebalance": {"enabled": true}})), ["x Moved Evict"]);
    assert_eq!(moved(&json!({"whenUnsatisfiable": "Spill"})), [""; 0]);
    let mut own = Case::new(&[1, 1], &json!({"rebalance": {"enabled": true}}), stray(), all());
    own.pod("x").node_selector = [("pool".to_owned(), "z".to_owned())].into();
    assert_eq!(told(&own.settle()), [""; 0], "its successor would be left alone just the same");
}

#[test]
fn pods_on_nodes_with_other_labels_now_count_there_and_may_move() {
    let mut case = rebalanced("aaabbb");
    assert!(case.settle().removals.is_empty());
    case.nodes[1].labels = node("a", 1).labels;
    case.nodes.push(NodeRoom { name: "new".to_owned(), ..node("b", 99) });
    let plan = case.settle();
    assert_eq!(plan.status.actual.as_deref(), Some("6/0"));
    assert_eq!(told(&plan).len(), 1);
    case.nodes[1].labels = node("z", 1).labels;
    let plan = case.settle();
    assert_eq!(plan.allocation.as_ref().map(|all| all.unassigned.len()), Some(3));
    assert_eq!(told(&plan), ["p5 Moved Evict"], "those in no entry first");
}

#[test]
fn a_pod_that_somebody_made_by_hand_holds_up_no_move() {
    let mut case = rebalanced("aaaaab");
    let by_hand = Member {
        owner: None,
        revision: String::new(),
        created: 500,
        ready: false,
        ..samples::pod("bare", "a")
    };
    case.members.push(by_hand);
    let plan = case.settle();
    assert_eq!((plan.status.actual.as_deref(), told(&plan).len()), (Some("5/1"), 1));
}
