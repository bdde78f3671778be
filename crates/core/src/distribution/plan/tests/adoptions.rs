use super::*;
use samples::{node, owner, pod, unmarked};

fn nodes() -> Vec<NodeRoom> {
    vec![node("a", 99), node("b", 99), node("z", 99)]
}

fn case(spec: &Value, mut members: Vec<Member>) -> Case {
    members.extend(["a", "b"].map(|pool| Member { created: 100, ..pod(&format!("marked-{pool}"), pool) }));
    Case::new(&[1, 1], spec, members, nodes())
}

/// Who gets which mark: `name entry`.
fn adopted(plan: &Plan) -> Vec<String> {
    plan.adoptions.iter().map(|one| format!("{} {}", one.name, one.mark.entry)).collect()
}

fn own_selector(name: &str, pool: &str) -> Member {
    Member { node_selector: [("pool".to_owned(), pool.to_owned())].into(), ..unmarked(name, pool) }
}

#[test]
fn a_pod_that_slipped_by_and_is_welcome_is_marked_once_and_then_is_as_any_other() {
    for mode in ["Required", "Preferred"] {
        let mut case = case(&json!({"mode": mode}), vec![unmarked("x", "a"), unmarked("y", "b")]);
        assert!(case.write().adoptions.is_empty(), "the pods have only just been seen");
        case.ledger_quiet = false;
        assert!(case.settle().adoptions.is_empty(), "some are on their way");
        case.ledger_quiet = true;
        let plan = case.write();
        assert_eq!(adopted(&plan), ["x pool=a", "y pool=b"], "{mode}");
        let Adoption { uid, mark, .. } = &plan.adoptions[0];
        assert_eq!((uid.as_str(), mark.rule.as_str(), mark.ticket.as_str()), ("uid-x", "rule", ""));
        assert_eq!(plan.costs.len(), 4, "costs are theirs as everybody's");
        let rest = case.write();
        assert_eq!(
            (rest.adoptions.len(), rest.costs.len(), rest.removals.len(), rest.wake_at),
            (0, 0, 0, None)
        );
        assert_eq!(case.rule.status.actual.as_deref(), Some("2/2"));
    }
}

#[test]
fn whoever_may_have_to_go_is_not_marked_yet() {
    let crowd = || vec![unmarked("x", "b"), unmarked("y", "b"), unmarked("z", "b"), unmarked("w", "z")];
    let mut crowded = case(&json!({}), crowd());
    let plan = crowded.settle();
    assert_eq!((told(&plan).len(), adopted(&plan).len()), (1, 0));
    crowded.nodes[0] = node("a", 0);
    let plan = crowded.write();
    assert_eq!(
        (told(&plan), adopted(&plan)),
        (vec![], vec![]),
        "there is nowhere to go now, but there may be later"
    );
    // Where nothing is ever repaired, nobody waits for it.
    let preferred = case(&json!({"mode": "Preferred"}), crowd()).settle();
    assert_eq!(adopted(&preferred), ["x pool=b", "y pool=b", "z pool=b"]);
}

#[test]
fn pods_from_before_the_rule_are_marked_where_they_run_and_never_repaired() {
    let old = |name: &str, pool: &str| Member { created: 99, ..unmarked(name, pool) };
    let mut case = case(&json!({}), vec![old("x", "b"), old("y", "b"), old("z", "b"), old("w", "z")]);
    case.rule.status.in_force_since = Some(100);
    let plan = case.settle();
    assert_eq!(
        (told(&plan), adopted(&plan)),
        (vec![], vec!["x pool=b".into(), "y pool=b".into(), "z pool=b".into()])
    );
    assert!(case.write().adoptions.is_empty());
}

#[test]
fn pods_of_every_kind_are_marked_but_not_those_that_admission_leaves_alone() {
    let of = |name: &str, kind: Option<&str>| Member { owner: kind.map(owner), ..unmarked(name, "a") };
    let kinds = vec![
        of("bare", None),
        of("job", Some("Job")),
        of("set-0", Some("StatefulSet")),
        Member { revision: "r0".to_owned(), created: -1, ..unmarked("old", "a") },
        own_selector("own", "a"),
    ];
    let plan = case(&json!({"mode": "Preferred"}), kinds).settle();
    assert_eq!(adopted(&plan), ["bare pool=a", "job pool=a", "set-0 pool=a", "old pool=a"]);
}

#[test]
fn a_mark_that_came_later_is_no_sign_that_a_webhook_answers() {
    let late = |n: usize| Member { created: 300, ..unmarked(&format!("x{n}"), "z") };
    let mut members: Vec<Member> = (0..20).map(late).collect();
    let adopted = Member { created: 400, ..pod("adopted", "a") };
    members.extend((0..20).map(|n| pod(&format!("p{n}"), if n % 2 == 0 { "a" } else { "b" })));
    members.push(adopted);
    let mut case = case(&json!({}), members);
    assert_eq!(case.settle().removals.len(), 4, "the newest was seen by a webhook");
    case.pod("adopted").mark.as_mut().unwrap().ticket.clear();
    let plan = case.settle();
    assert_eq!(plan.removals.len(), 1, "one goes ahead");
    case.history.removed(&plan.removals[0], case.now);
    let created = case.now;
    let successor = Member { created, uid: "again".to_owned(), ..pod("x0", "a") };
    *case.pod(&plan.removals[0].name) = successor;
    case.members.iter_mut().find(|pod| pod.uid == "again").unwrap().mark.as_mut().unwrap().ticket.clear();
    assert!(
        case.settle().removals.is_empty(),
        "its successor was not seen either, although it has a mark now"
    );
}

#[test]
fn what_admission_leaves_alone_is_never_removed_and_the_rule_says_so() {
    let left = |name: &str| own_selector(name, "b");
    for spec in [json!({"rebalance": {"enabled": true}}), json!({"whenUnsatisfiable": "Spill"}), json!({})] {
        let mut case = case(&spec, vec![left("x"), left("y"), left("z")]);
        case.rule.status.entries =
            serde_json::from_value(json!([{"entry": "pool=a", "desired": 3, "actual": 1, "nodes": 1, "state": "Open", "spilledSince": 1}]))
                .unwrap();
        let mut plan = case.settle();
        if !plan.removals.is_empty() {
            assert_eq!(told(&plan), ["marked-b Moved Evict"], "one that its rule has placed may go instead");
            case.members.retain(|pod| pod.name != "marked-b");
            plan = case.settle();
        }
        assert_eq!((told(&plan), adopted(&plan)), (vec![], vec![]), "{spec}");
        let balanced = &plan.conditions[1];
        assert_eq!((balanced.holds, balanced.reason), (Some(false), "PodsLeftAlone"), "{spec}");
        assert!(
            balanced.message.ends_with(
                "; 3 pods are left alone, such as x: its own nodeSelector has pool=b, but the rule also sends pods to pool=a; \
                 take pool out of the nodeSelector, or the workload out of the rule"
            ),
            "{balanced:?}"
        );
    }
}

#[test]
fn a_pod_that_is_left_alone_and_waits_neither_closes_its_entry_nor_is_deleted() {
    let waiting = Member {
        mark: None,
        node_selector: [("pool".to_owned(), "b".to_owned()), ("disk".to_owned(), "ssd".to_owned())].into(),
        ..samples::stuck("own", "b", 0)
    };
    let mut case = case(&json!({"whenUnsatisfiable": "Spill"}), vec![waiting]);
    let plan = case.settle();
    assert_eq!(plan.status.entries[1].state, podwright_api::distributor::EntryState::Open);
    case.nodes.remove(1);
    case.settle();
    let told = told(&case.settle());
    assert!(!told.iter().any(|one| one.starts_with("own")), "{told:?}");
}

#[test]
fn what_an_entry_put_there_before_its_labels_were_changed_is_not_the_pods_own() {
    let mut case = Case::new(&[1, 1], &json!({"rebalance": {"enabled": true}}), pods("zzzz"), nodes());
    assert_eq!(
        told(&case.settle()).len(),
        1,
        "the entry pool=z is gone from the rule, and its pods may move"
    );
    for pod in &mut case.members {
        pod.mark = None;
    }
    assert_eq!(told(&case.settle()), [""; 0]);
}
