use podwright_api::distributor::EntryState;

use super::*;
use samples::{node, owner, pod, stuck};

fn spill(members: Vec<Member>, nodes: Vec<NodeRoom>) -> Case {
    Case::new(&[1, 1], &json!({"whenUnsatisfiable": "Spill"}), members, nodes)
}

fn state(plan: &Plan, entry: usize) -> (EntryState, Option<i64>, Option<i64>) {
    let entry = &plan.status.entries[entry];
    (entry.state, entry.retry_at, entry.set_aside_for)
}

#[test]
fn an_entry_is_set_aside_first_and_its_pods_go_when_that_is_known() {
    let mut case = spill(
        vec![pod("p", "a"), stuck("s1", "b", START), stuck("s2", "b", START + 5)],
        vec![node("a", 9), node("b", 0)],
    );
    let early = case.write();
    assert_eq!((state(&early, 1).0, early.wake_at), (EntryState::Open, Some(START + SETTLED_AFTER)));
    case.now = START + 15;
    let plan = case.write();
    assert_eq!(state(&plan, 1), (EntryState::NoRoom, Some(case.now + 60), Some(60)));
    assert!(plan.removals.is_empty(), "admission does not know yet");
    assert!(plan.events.iter().any(|event| event.reason == "EntryWithoutRoom" && event.warning));
    assert_eq!(told(&case.write()), ["s1 Spilled Delete"], "the other has not waited long enough");
    case.now += 5;
    assert_eq!(told(&case.write()), ["s1 Spilled Delete", "s2 Spilled Delete"]);
}

#[test]
fn no_more_pods_spill_than_have_room_elsewhere() {
    let waiting = |n: usize| stuck(&format!("s{n}"), "b", 0);
    let mut members: Vec<Member> = (0..5).map(waiting).collect();
    members.push(Member { unschedulable_since: None, ..stuck("on-its-way", "a", 0) });
    let mut case = spill(members, vec![node("a", 3), node("b", 0)]);
    case.write();
    assert_eq!(told(&case.write()), ["s0 Spilled Delete", "s1 Spilled Delete"]);
    case.nodes[0] = node("a", 0);
    assert!(case.write().removals.is_empty());
}

#[test]
fn pods_stay_when_there_is_no_room_anywhere() {
    let mut case = spill(vec![stuck("s", "b", 0)], vec![node("a", 0), node("b", 0)]);
    let plan = case.settle();
    assert_eq!((state(&plan, 1).0, plan.status.status.as_deref()), (EntryState::Open, Some("Unsatisfied")));
    assert!(plan.removals.is_empty());
}

#[test]
fn pods_do_not_spill_to_where_their_own_affinity_does_not_let_them_run() {
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]});
    let required = || Some(Box::new(serde_json::from_value(terms.clone()).unwrap()));
    let choosy = Member { required: required(), ..stuck("s", "b", 0) };
    let mut with_disk = node("b", 0);
    Arc::make_mut(&mut with_disk.labels).insert("disk".to_owned(), "ssd".to_owned());
    let mut case = spill(vec![choosy], vec![node("a", 9), with_disk]);
    case.write();
    let plan = case.write();
    assert_eq!((state(&plan, 0).0, state(&plan, 1).0), (EntryState::NoNodes, EntryState::Open));
    assert!(plan.removals.is_empty(), "there is nowhere to go");
    Arc::make_mut(&mut case.nodes[0].labels).insert("disk".to_owned(), "hdd".to_owned());
    case.write();
    assert_eq!(told(&case.write()), ["s Spilled Delete"], "now there is");
}

#[test]
fn an_entry_without_nodes_is_closed_at_once_and_opens_with_its_first_node() {
    let mut case = spill(vec![pod("p", "a"), stuck("s", "b", 0)], vec![node("a", 9)]);
    assert_eq!(state(&case.write(), 1).0, EntryState::NoNodes);
    assert_eq!(told(&case.write()), ["s Spilled Delete"]);
    case.nodes.push(node("b", 9));
    case.pod("s").unschedulable_since = None;
    let plan = case.write();
    let opened = (EntryState::Open, Some(case.now), Some(60));
    assert_eq!((state(&plan, 1), plan.events[0].reason), (opened, "EntryOpen"));
    case.now += 75;
    assert_eq!(state(&case.write(), 1), (EntryState::Open, None, None), "and that is forgotten in time");
}

#[test]
fn an_entry_without_nodes_lets_one_pod_try_after_longer_and_longer() {
    let mut case = spill(pods("aaaa"), vec![node("a", 9)]);
    let mut aside = Vec::new();
    for _ in 0..8 {
        let plan = case.write();
        let (EntryState::NoNodes, Some(retry_at), Some(set_aside)) = state(&plan, 1) else {
            panic!("{plan:?}")
        };
        assert_eq!((retry_at, plan.status.entries[1].up_to), (case.now + set_aside, None));
        aside.push(set_aside);
        case.members.retain(|pod| pod.name != "s");
        case.settle();
        assert_eq!(case.write().wake_at, Some(retry_at));
        case.now = retry_at;
        let tried = case.write();
        assert_eq!(
            (tried.status.entries[1].up_to, tried.removals.len()),
            (Some(1), 0),
            "admission must hear of it"
        );
        assert_eq!(
            (state(&tried, 1).0, tried.events.len()),
            (EntryState::NoNodes, 0),
            "nobody is told each time"
        );
        assert_eq!(told(&case.write()), ["p3 Moved Evict"]);
        // Its successor waits in vain.
        case.members.push(stuck("s", "b", case.now));
        case.now += 14;
        let waits = case.write();
        assert_eq!((waits.status.entries[1].up_to, told(&waits)), (Some(1), vec![]));
        case.now += 1;
    }
    assert_eq!(aside, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
    assert_eq!(case.write().removals, []);
    assert_eq!(told(&case.write()), ["s Spilled Delete"]);
}

#[test]
fn an_entry_that_is_tried_opens_with_its_first_node() {
    let mut case = spill(pods("aaaa"), vec![node("a", 9)]);
    case.write();
    case.now += 60;
    assert_eq!(case.settle().status.entries[1].up_to, Some(1));
    case.nodes.push(node("b", 9));
    let plan = case.write();
    assert_eq!((state(&plan, 1).0, plan.status.entries[1].up_to), (EntryState::Open, None));
    assert_eq!(told(&case.write()), ["p3 Moved Evict"]);
}

#[test]
fn an_entry_that_gets_no_pods_is_not_tried() {
    let mut case = Case::new(&[1, 0], &json!({"whenUnsatisfiable": "Spill"}), pods("aa"), vec![node("a", 9)]);
    let plan = case.settle();
    assert_eq!((state(&plan, 1), plan.wake_at), ((EntryState::NoNodes, None, None), None));
}

#[test]
fn that_pods_have_spilled_is_remembered_until_they_are_back() {
    let since = |plan: &Plan| plan.status.entries[1].spilled_since;
    let mut case = spill(pods("aabb"), vec![node("a", 9)]);
    assert_eq!(since(&case.write()), None, "they are there yet");
    case.members = pods("aaaa");
    assert_eq!(since(&case.write()), Some(START));
    case.nodes.push(node("b", 9));
    case.now += 5;
    case.settle();
    case.now += 500;
    assert_eq!(since(&case.settle()), Some(START), "however long it takes");
    case.members = pods("aaab");
    assert_eq!(since(&case.settle()), Some(START));
    case.members = pods("aabb");
    case.ledger_quiet = false;
    assert_eq!(since(&case.settle()), Some(START), "in a burst that may not last");
    case.ledger_quiet = true;
    assert_eq!(since(&case.settle()), None);
    case.members = pods("aaaa");
    assert_eq!((since(&case.settle()), told(&case.settle())), (None, vec![]), "that was somebody else");
}

#[test]
fn pods_that_nobody_makes_anew_or_to_whom_it_is_a_failure_stay() {
    for (kind, goes) in
        [(None, false), (Some("Job"), false), (Some("StatefulSet"), true), (Some("ReplicaSet"), true)]
    {
        let mut case =
            spill(vec![Member { owner: kind.map(owner), ..stuck("s-0", "b", 0) }], vec![node("a", 9)]);
        case.write();
        assert_eq!(!case.write().removals.is_empty(), goes, "{kind:?}");
    }
}

#[test]
fn an_entry_that_fills_again_at_once_is_set_aside_for_longer_and_longer() {
    let mut case = spill(vec![pod("p", "a"), stuck("s", "b", 0)], vec![node("a", 9), node("b", 0)]);
    let mut aside = Vec::new();
    for _ in 0..8 {
        let plan = case.write();
        let (EntryState::NoRoom, Some(retry_at), Some(set_aside)) = state(&plan, 1) else {
            panic!("{plan:?}")
        };
        assert_eq!(retry_at, case.now + set_aside);
        aside.push(set_aside);
        // Its pods went elsewhere, and the first that comes after it was opened finds no room either.
        case.members.retain(|pod| pod.name != "s");
        case.now = retry_at;
        assert_eq!(state(&case.write(), 1), (EntryState::Open, Some(retry_at), Some(set_aside)));
        case.members.push(stuck("s", "b", retry_at + 20));
        case.now = retry_at + 35;
    }
    assert_eq!(aside, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
}

#[test]
fn an_entry_that_stays_open_is_trusted_again() {
    let mut case = spill(vec![pod("p", "a"), stuck("s", "b", 0)], vec![node("a", 9), node("b", 0)]);
    case.write();
    case.members.pop();
    case.now += 60;
    let opened = case.now;
    case.write();
    assert_eq!(case.look().wake_at, Some(opened + SETTLED_AFTER));
    case.now += SETTLED_AFTER;
    assert_eq!(case.write().wake_at, Some(opened + 75));
    case.now = opened + 75;
    let plan = case.write();
    assert_eq!((state(&plan, 1), plan.wake_at), ((EntryState::Open, None, None), None));
}

#[test]
fn room_or_a_node_more_opens_an_entry_early_unless_it_seemed_to_have_room_all_along() {
    let full = || {
        let mut case = spill(vec![pod("p", "a"), stuck("s", "b", 0)], vec![node("a", 9), node("b", 0)]);
        case.write();
        case.members.pop();
        case.write();
        case.now += 1;
        case
    };
    let mut room = full();
    assert_eq!(state(&room.write(), 1).0, EntryState::NoRoom);
    room.nodes[1] = node("b", 2);
    assert_eq!(state(&room.write(), 1).0, EntryState::Open);

    let mut more = full();
    more.nodes.push(NodeRoom { name: "another".to_owned(), ..node("b", 0) });
    assert_eq!(state(&more.write(), 1).0, EntryState::Open);

    // The scheduler minds something that is not CPU, memory or number.
    let mut seemed = spill(vec![pod("p", "a"), stuck("s", "b", 0)], vec![node("a", 9), node("b", 5)]);
    seemed.write();
    seemed.members.pop();
    seemed.write();
    seemed.now += 30;
    assert_eq!(state(&seemed.write(), 1).0, EntryState::NoRoom);
}

#[test]
fn pods_of_a_node_that_is_gone_are_given_up_after_a_while() {
    let mut case = spill(pods("ab"), vec![node("a", 9)]);
    case.write();
    let first = case.write();
    assert!(first.removals.is_empty() && first.wake_at <= Some(START + 10));
    case.now += 10;
    assert_eq!(told(&case.write()), ["p1 Lost Delete"]);
    case.nodes.push(node("b", 9));
    assert!(case.settle().removals.is_empty(), "the node is back");
    case.nodes.clear();
    case.settle();
    case.now += 60;
    assert!(case.write().removals.is_empty(), "without any node there is nowhere to go");
    let mut wait = Case::new(&[1, 1], &json!({}), pods("ab"), vec![node("a", 9)]);
    wait.settle();
    wait.now += 60;
    assert!(wait.write().removals.is_empty());
    let mut numbered = spill(pods("ab"), vec![node("a", 9)]);
    for pod in &mut numbered.members {
        pod.owner = Some(owner("StatefulSet"));
    }
    numbered.settle();
    numbered.now += 50;
    assert!(numbered.write().removals.is_empty(), "whether it has ended is not ours to say");
}
