use serde_json::{Value, json};

use super::*;
use crate::distribution::{governing, samples::rule};

fn named(name: &str, created: i64, target: &Value) -> Arc<Rule> {
    let rule = rule(&[1, 1], &json!({"target": target}));
    Arc::new(Rule { name: name.to_owned(), created, ..rule })
}

/// Names of the rules that count for its target, for bare pods, and for some of its ReplicaSets. All ReplicaSets are those of the
/// Deployment `web`.
fn told(rules: &[Arc<Rule>], index: usize) -> (Option<&str>, Option<&str>, Vec<&str>) {
    let rivals = rivals(&rules[index], rules, |_| Some(deployment()));
    let name = |rule: &&'_ Rule| rules.iter().find(|one| one.name == rule.name).map(|one| one.name.as_str());
    (
        rivals.shadow.as_ref().and_then(name),
        rivals.bare.as_ref().and_then(name),
        rivals.replica_sets.iter().filter_map(name).collect(),
    )
}

fn deployment() -> OwnerReference {
    owner("Deployment", "web")
}

fn owner(kind: &str, name: &str) -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        controller: Some(true),
    }
}

#[test]
fn of_rules_that_overlap_the_older_counts_for_what_both_are_for() {
    let rules = [
        named("deployment", 1, &json!({"kind": "Deployment", "name": "web"})),
        named("set", 2, &json!({"kind": "StatefulSet", "name": "web"})),
        named("again", 3, &json!({"apiVersion": "apps/v1", "name": "web"})),
        named("other", 4, &json!({"name": "other"})),
    ];
    let older = Some("deployment");
    assert_eq!([told(&rules, 0), told(&rules, 1)], [(None, None, vec![]), (None, older, vec![])]);
    assert_eq!([told(&rules, 2), told(&rules, 3)], [(older, older, vec![]), (None, None, vec![])]);
    let bare = Lineage { owners: Vec::new(), app: Some("web".to_owned()) };
    assert_eq!(governing(&rules, &bare).map(|rule| rule.name.as_str()), older);
}

#[test]
fn a_rule_for_a_replica_set_of_an_older_rules_target_counts_for_nobody() {
    let rules = [
        named("whole", 1, &json!({"name": "web"})),
        named("part", 2, &json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1"})),
        named(
            "elsewhere",
            3,
            &json!({"apiVersion": "example.com/v1", "kind": "ReplicaSet", "name": "web-2"}),
        ),
    ];
    assert_eq!(told(&rules, 0), (None, None, vec![]));
    assert_eq!(told(&rules, 1), (Some("whole"), None, vec![]));
    assert_eq!(told(&rules, 2), (None, None, vec![]), "of another group");
    let pod = Lineage { owners: vec![owner("ReplicaSet", "web-1"), deployment()], app: None };
    assert_eq!(governing(&rules, &pod).map(|rule| rule.name.as_str()), Some("whole"));
    let orphaned = rivals(&rules[1], &rules, |_| None);
    assert_eq!(orphaned.shadow, None, "nobody controls it");
}

#[test]
fn a_rule_leaves_the_replica_sets_of_older_rules_to_them() {
    let rules = [
        named("one", 1, &json!({"kind": "ReplicaSet", "name": "web-1"})),
        named("two", 1, &json!({"kind": "ReplicaSet", "name": "web-2"})),
        named("whole", 2, &json!({"name": "web"})),
        named("late", 3, &json!({"kind": "ReplicaSet", "name": "web-1"})),
    ];
    assert_eq!(told(&rules, 2), (None, None, vec!["one", "two"]));
    assert_eq!(told(&rules, 0), (None, None, vec![]));
    assert_eq!(told(&rules, 3).0, Some("one"), "the oldest of all");
    let of = |replica_set: &str| {
        let pod = Lineage { owners: vec![owner("ReplicaSet", replica_set), deployment()], app: None };
        governing(&rules, &pod).map(|rule| rule.name.as_str())
    };
    assert_eq!([of("web-1"), of("web-2"), of("web-3")], [Some("one"), Some("two"), Some("whole")]);
}
