use serde_json::json;

use super::*;
use crate::distribution::{
    Phase,
    samples::{node, pod, rule, unmarked},
};

fn counts_in(rule: &Rule, member: &Member, labels: &[(&str, &str)]) -> Option<usize> {
    let labels: Arc<Labels> =
        Arc::new(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
    rule.entry_of(member, |_| Some(Arc::clone(&labels)))
}

#[test]
fn a_pod_counts_where_its_node_is_whatever_it_was_given() {
    for mode in ["Required", "Preferred"] {
        let rule = rule(&[1, 1], &json!({"mode": mode}));
        let given = pod("p", "a");
        assert_eq!(counts_in(&rule, &given, &[("pool", "a")]), Some(0));
        assert_eq!(counts_in(&rule, &given, &[("pool", "b")]), Some(1), "the node has other labels now");
        assert_eq!(counts_in(&rule, &given, &[("pool", "z")]), None);
        let unknown = |_: &str| None::<Arc<Labels>>;
        assert_eq!(rule.entry_of(&given, unknown), Some(0), "as long as nobody knows better");
        let pending = Member { node: None, phase: Phase::Pending, ..given };
        assert_eq!(counts_in(&rule, &pending, &[("pool", "b")]), Some(0));
    }
}

#[test]
fn a_pod_stays_in_the_entry_that_it_was_given_while_its_node_fits_that() {
    let entries = json!([{"nodeLabel": {}, "weight": 1}, {"nodeLabel": {"pool": "a"}, "weight": 1}]);
    let rule = rule(&[], &json!({"distribution": entries}));
    let mut anywhere = unmarked("p", "a");
    assert_eq!(counts_in(&rule, &anywhere, &[("pool", "a")]), Some(1), "the most particular");
    anywhere.mark =
        Some(Mark { rule: "rule".to_owned(), entry: "anywhere".to_owned(), ticket: String::new() });
    assert_eq!(counts_in(&rule, &anywhere, &[("pool", "a")]), Some(0));
}

#[test]
fn a_rule_is_in_force_for_its_target_since_it_was_first_seen_to_be() {
    let mut rule = rule(&[1], &json!({}));
    assert_eq!(rule.in_force_since(1000), 0);
    rule.spec.target.name = "another".to_owned();
    assert_eq!(rule.in_force_since(1000), 1000, "its pods were nobody's until now");
    rule.status = PodDistributorStatus::default();
    assert_eq!(rule.in_force_since(1000), 1000, "it is from before we came");
    rule.created = 950;
    assert_eq!(rule.in_force_since(1000), 950, "it is new");
}

#[test]
fn a_rule_whose_pods_would_be_refused_is_not_used() {
    for (entry, named) in [
        (json!({"nodeLabel": {"my pool": "a"}, "weight": 1}), "my pool"),
        (json!({"nodeLabel": {"pool": "not a value"}, "weight": 1}), "not a value"),
        (json!({"nodeLabel": {}, "weight": 1, "tolerations": [{"key": "a", "effect": "Never"}]}), "Never"),
    ] {
        let problem = rule(&[], &json!({"distribution": [entry]})).weights().unwrap_err();
        assert!(problem.starts_with("spec.distribution[0]") && problem.contains(named), "{problem}");
    }
}

#[test]
fn only_what_is_the_pods_own_contradicts_a_rule() {
    let rule = rule(&[1, 1, 0], &json!({}));
    let own = pod("p", "a");
    let found = rule.contradiction(&own.node_selector, None).unwrap();
    assert_eq!((found.key, found.value, found.entry.name().as_str()), ("pool", "a", "pool=b"));
    assert_eq!(rule.contradiction(&own.node_selector, own.mark.as_ref()), None);
    assert_eq!(rule.contradiction(&node("z", 1).labels, own.mark.as_ref()).unwrap().value, "z");
    assert_eq!(rule.contradiction(&Labels::new(), None), None);
}
