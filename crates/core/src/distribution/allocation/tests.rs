use serde_json::json;

use super::*;
use crate::distribution::{
    Phase,
    samples::{node, owner, pod, rule, stuck, unmarked},
};

fn of(rule: &Rule, members: Vec<Member>, nodes: &[NodeRoom]) -> Allocation {
    let members: Vec<Arc<Member>> = members.into_iter().map(Arc::new).collect();
    allocate(rule, &rule.weights().unwrap(), &members, nodes, None)
}

#[test]
fn desired_actual_and_the_next_choice_come_from_one_place() {
    let rule = rule(&[80, 20], &json!({}));
    let members = (0..5).map(|n| pod(&format!("p{n}"), if n < 3 { "a" } else { "b" })).collect();
    let allocation = of(&rule, members, &[node("a", 7), node("b", 0)]);
    assert_eq!((allocation.pods, allocation.revision.as_deref(), allocation.next), (5, Some("r1"), Some(0)));
    let [a, b] = &allocation.entries[..] else { panic!("{allocation:?}") };
    assert_eq!((a.name.as_str(), a.desired, a.actual, a.nodes, a.fits), ("pool=a", 4, 3, 1, 7));
    assert_eq!((b.name.as_str(), b.desired, b.actual, b.nodes, b.fits), ("pool=b", 1, 2, 1, 0));
    assert!(!allocation.is_balanced());
}

#[test]
fn less_than_a_pod_away_is_balanced_whichever_way_it_was_rounded() {
    let rule = rule(&[1, 1], &json!({}));
    let with = |a: usize, b: usize| {
        let pools = std::iter::repeat_n("a", a).chain(std::iter::repeat_n("b", b));
        of(&rule, pools.enumerate().map(|(n, pool)| pod(&format!("p{n}"), pool)).collect(), &[]).is_balanced()
    };
    assert!(with(2, 1) && with(1, 2) && with(0, 0));
    assert!(!with(3, 1) && !with(0, 2));
}

#[test]
fn only_active_pods_of_the_newest_revision_count() {
    let rule = rule(&[1, 1], &json!({}));
    let old = |name: &str| Member { revision: "r0".to_owned(), ..pod(name, "a") };
    let members = [
        old("one"),
        old("two"),
        Member { created: 5, ..pod("new", "b") },
        Member { deleting: true, created: 6, revision: "r2".to_owned(), ..pod("going", "b") },
        Member { phase: Phase::Ended, ..pod("ended", "b") },
    ];
    let counts = |revision: Option<&str>| {
        let members: Vec<Arc<Member>> = members.iter().cloned().map(Arc::new).collect();
        allocate(&rule, &rule.weights().unwrap(), &members, &[], revision).counts()
    };
    assert_eq!(counts(None), [0, 1]);
    assert_eq!(counts(Some("r0")), [2, 0]);
}

#[test]
fn a_pod_in_no_entry_is_named_and_one_without_a_mark_counts_where_it_runs() {
    let rule = rule(&[1, 1], &json!({}));
    let members = vec![
        unmarked("here", "b"),
        unmarked("there", "c"),
        Member { node: None, ..unmarked("nowhere", "b") },
    ];
    let allocation = of(&rule, members, &[node("a", 1), node("b", 1), node("c", 1)]);
    assert_eq!((allocation.counts(), allocation.pods), (vec![0, 1], 3));
    assert_eq!(allocation.unassigned, ["there", "nowhere"]);
}

#[test]
fn a_node_counts_if_it_is_open_to_such_pods() {
    let tolerated = json!([{"nodeLabel": {"pool": "a"}, "weight": 1, "tolerations": [{"key": "spot", "operator": "Exists"}]},
                           {"nodeLabel": {"pool": "b"}, "weight": 1}]);
    let rule = rule(&[], &json!({"distribution": tolerated}));
    let spot = Taint { key: "spot".to_owned(), value: String::new(), effect: "NoSchedule".to_owned() };
    let tainted = |pool: &str| NodeRoom { taints: vec![spot.clone()], ..node(pool, 2) };
    let cordoned = NodeRoom { ready_and_schedulable: false, ..node("b", 9) };
    let seen = |members: Vec<Member>, nodes: &[NodeRoom]| -> Vec<(u64, u64, u64)> {
        let allocation = of(&rule, members, nodes);
        allocation.entries.iter().map(|entry| (entry.labelled, entry.nodes, entry.fits)).collect()
    };
    // What the first entry gave this pod is no reason to think that pods of the second have it, too.
    let given = Member { tolerations: rule.entries()[0].tolerations.clone(), ..pod("p", "a") };
    assert_eq!(seen(vec![given], &[tainted("a"), tainted("b"), cordoned]), [(1, 1, 2), (2, 0, 0)]);
    let own = Member { tolerations: rule.entries()[0].tolerations.clone(), ..pod("p", "b") };
    assert_eq!(seen(vec![own], &[tainted("b")]), [(0, 0, 0), (1, 1, 2)]);
    assert_eq!(
        seen(vec![], &[tainted("b")])[1].1,
        1,
        "before there are pods, nobody knows what they tolerate"
    );
    let choosy = Member { node_selector: [("disk".to_owned(), "ssd".to_owned())].into(), ..pod("p", "b") };
    assert_eq!(seen(vec![choosy], &[node("b", 2)])[1], (1, 0, 0));
}

#[test]
fn a_node_that_the_pods_own_affinity_keeps_them_from_has_no_room_for_them() {
    let rule = rule(&[1, 1], &json!({}));
    let seen = |terms: serde_json::Value, nodes: &[NodeRoom]| -> Vec<(u64, u64, u64)> {
        let required = serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap();
        let members = vec![Member { required: Some(Box::new(required)), ..pod("p", "a") }];
        let allocation = of(&rule, members, nodes);
        allocation.entries.iter().map(|entry| (entry.labelled, entry.nodes, entry.fits)).collect()
    };
    let nodes = [node("a", 2), node("b", 3)];
    let label = |operator: &str, value: &str| json!({"matchExpressions": [{"key": "pool", "operator": operator, "values": [value]}]});
    assert_eq!(seen(json!([label("NotIn", "b")]), &nodes), [(1, 1, 2), (1, 0, 0)]);
    assert_eq!(seen(json!([label("In", "z"), label("In", "b")]), &nodes), [(1, 0, 0), (1, 1, 3)]);
    let named = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}]);
    assert_eq!(seen(named, &nodes), [(1, 1, 2), (1, 0, 0)]);
    assert_eq!(seen(json!([]), &nodes), [(1, 0, 0), (1, 0, 0)], "no term is met by no node");
}

#[test]
fn room_is_what_the_scarcest_resource_leaves() {
    let rule = rule(&[1], &json!({}));
    let fits = |requests: Requests, room: NodeRoom| {
        of(&rule, vec![Member { requests, ..pod("p", "a") }], &[room, node("b", 99)]).entries[0].fits
    };
    let asked = Requests { cpu: 100, memory: 1 << 28 };
    assert_eq!(fits(asked, node("a", 3)), 3);
    assert_eq!(fits(asked, node("a", 9)), 4, "memory");
    assert_eq!(fits(asked, NodeRoom { free_pods: 1, ..node("a", 9) }), 1);
    assert_eq!(fits(Requests::default(), node("a", 0)), 110);
}

#[test]
fn pods_of_a_statefulset_belong_where_their_number_says() {
    let rule = rule(&[1, 1], &json!({"target": {"kind": "StatefulSet", "name": "db"}}));
    let numbered = |n: u64, pool: &str| Member {
        owner: Some(owner("StatefulSet")),
        revision: if n > 11 { "new" } else { "old" }.to_owned(),
        ..pod(&format!("db-{n}"), pool)
    };
    let members = vec![numbered(10, "a"), numbered(12, "a"), numbered(14, "a")];
    let allocation = of(&rule, members, &[]);
    assert_eq!((allocation.pods, allocation.entries[0].desired, allocation.entries[1].desired), (3, 3, 0));
    assert!(allocation.is_balanced());
}

#[test]
fn a_pod_that_waits_counts_in_the_entry_that_it_waits_for() {
    let rule = rule(&[1, 1], &json!({}));
    assert_eq!(of(&rule, vec![stuck("p", "b", 0)], &[]).counts(), [0, 1]);
}

#[test]
fn a_pod_that_somebody_made_by_hand_is_no_new_revision() {
    let rule = rule(&[1, 1], &json!({}));
    let bare = || Member { owner: None, revision: String::new(), created: 9, ..unmarked("bare", "a") };
    let allocation = of(&rule, vec![pod("p", "a"), pod("q", "b"), bare()], &[]);
    assert_eq!((allocation.revision.as_deref(), allocation.counts()), (Some("r1"), vec![1, 1]));
    assert_eq!(of(&rule, vec![bare()], &[node("a", 1)]).counts(), [1, 0], "unless there are no others");
    let numbered = |n: u64| Member {
        owner: Some(owner("StatefulSet")),
        ..pod(&format!("db-{n}"), if n == 0 { "a" } else { "b" })
    };
    let allocation = of(&rule, vec![numbered(0), numbered(1), bare()], &[]);
    assert_eq!((allocation.pods, allocation.is_balanced()), (2, true));
}

#[test]
fn what_first_fit_comes_to_is_what_it_asks_for() {
    let rule = rule(&[7, 13, 80], &json!({"strategy": "FirstFit"}));
    let weights = rule.weights().unwrap();
    let mut members: Vec<Member> = Vec::new();
    let mut strayed = 0;
    for n in 0..120 {
        let allocation = of(&rule, members.clone(), &[]);
        assert!(allocation.is_balanced(), "{allocation:?}");
        let total = allocation.total();
        strayed +=
            usize::from(allocation.entries.iter().any(|entry| allocation.excess(entry).abs() >= total));
        let entry = weights.first_fit(&allocation.counts(), |_| true).unwrap();
        members.push(pod(&format!("p{n}"), ["a", "b", "c"][entry]));
    }
    assert!(strayed > 0, "by the other strategy's measure it is off now and then");
    members.truncate(40);
    for pod in members.iter_mut().take(20) {
        pod.mark.as_mut().unwrap().entry = "pool=a".to_owned();
    }
    assert!(!of(&rule, members, &[]).is_balanced());
}
