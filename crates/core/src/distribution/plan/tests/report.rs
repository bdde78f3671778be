use super::*;
use samples::{node, pod, stuck};

fn conditions(plan: &Plan) -> Vec<String> {
    let word = |holds: Option<bool>| holds.map_or("Unknown", |holds| if holds { "True" } else { "False" });
    plan.conditions.iter().map(|one| format!("{}={} {}", one.kind, word(one.holds), one.reason)).collect()
}

fn events(plan: &Plan) -> Vec<&str> {
    plan.events.iter().map(|event| event.reason).collect()
}

#[test]
fn a_ratio_that_is_kept_is_balanced_and_nothing_is_said_about_it() {
    let mut case = Case::new(&[80, 20], &json!({}), pods("aaaab"), vec![node("a", 9), node("b", 9)]);
    let plan = case.settle();
    let status = &plan.status;
    assert_eq!(
        (status.status.as_deref(), status.pods, status.observed_generation),
        (Some("Balanced"), Some(5), Some(1))
    );
    assert_eq!((status.desired.as_deref(), status.actual.as_deref()), (Some("4/1"), Some("4/1")));
    assert_eq!(status.scale_target_kind.as_deref(), Some("Deployment"));
    assert_eq!(
        conditions(&plan),
        ["Ready=True InForce", "Balanced=True WithinOnePod", "Satisfiable=True Open"]
    );
    assert_eq!(events(&plan), [""; 0]);
}

#[test]
fn a_ratio_that_is_off_is_told_once() {
    let mut case = Case::new(&[1, 1], &json!({}), pods("aaab"), vec![node("a", 9), node("b", 9)]);
    let burst = case.write();
    assert_eq!(
        (burst.status.status.as_deref(), events(&burst).len()),
        (Some("Balanced"), 0),
        "it may come right yet"
    );
    case.now += SETTLED_AFTER;
    let plan = case.write();
    assert_eq!((plan.status.status.as_deref(), events(&plan)), (Some("Unbalanced"), vec!["Unbalanced"]));
    assert_eq!(plan.conditions[1].message, "pool=a has 3 of 2 pods; pool=b has 1 of 2 pods");
    assert_eq!(events(&case.write()), [""; 0]);
    case.members.push(pod("more", "b"));
    assert_eq!(events(&case.settle()), [""; 0], "it was told when the pod came");
    assert_eq!(case.rule.status.status.as_deref(), Some("Balanced"));
}

#[test]
fn a_rule_without_pods_says_so() {
    let mut case = Case::new(&[1, 1], &json!({}), Vec::new(), vec![node("a", 9), node("b", 9)]);
    let plan = case.settle();
    assert_eq!(
        (plan.status.status.as_deref(), plan.status.desired.as_deref()),
        (Some("NoPods"), Some("0/0"))
    );
    assert_eq!(plan.wake_at, None);
}

#[test]
fn an_entry_without_nodes_or_room_is_shown_while_its_pods_wait() {
    let cordoned = NodeRoom { ready_and_schedulable: false, ..node("b", 9) };
    let mut case = Case::new(
        &[1, 1],
        &json!({}),
        vec![pod("p", "a"), stuck("s", "b", START)],
        vec![node("a", 9), cordoned],
    );
    let plan = case.write();
    assert_eq!(
        (plan.status.status.as_deref(), events(&plan)),
        (Some("Unsatisfied"), vec!["EntryWithoutNodes"])
    );
    assert_eq!(plan.status.entries[1].state, podwright_api::distributor::EntryState::NoNodes);
    let told = "pool=b: the one node with these labels is not ready, cordoned, or closed to these pods";
    assert_eq!((plan.conditions[2].reason, plan.conditions[2].message.as_str()), ("NoNodes", told));

    case.nodes[1] = node("b", 0);
    let plan = case.write();
    assert_eq!((plan.status.status.as_deref(), events(&plan)), (Some("Balanced"), vec!["EntryOpen"]));
    assert!(plan.wake_at <= Some(START + 15));
    case.now = START + 15;
    let plan = case.write();
    assert_eq!(
        (plan.status.status.as_deref(), events(&plan)),
        (Some("Unsatisfied"), vec!["EntryWithoutRoom"])
    );
    assert_eq!(
        told_of(&plan),
        "pool=b: the scheduler finds no room for 1 pod on its nodes: they wait until there is"
    );
    assert!(plan.removals.is_empty(), "waiting is what was asked for");
}

fn told_of(plan: &Plan) -> &str {
    &plan.conditions[2].message
}

#[test]
fn an_entry_that_gets_no_pods_is_nobodys_worry() {
    let mut case = Case::new(&[1, 0], &json!({}), pods("a"), vec![node("a", 9)]);
    let plan = case.settle();
    assert_eq!((plan.status.status.as_deref(), events(&plan).len()), (Some("Balanced"), 0));
}

#[test]
fn a_rule_that_cannot_be_used_or_is_not_used_says_why_and_does_nothing() {
    let mut case = Case::new(&[0, 0], &json!({}), pods("aab"), vec![node("a", 9)]);
    let plan = case.write();
    assert_eq!(
        conditions(&plan),
        ["Ready=False Invalid", "Balanced=Unknown NotInForce", "Satisfiable=Unknown NotInForce"]
    );
    assert_eq!((plan.status.status.as_deref(), events(&plan)), (Some("Invalid"), vec!["Invalid"]));
    assert_eq!(plan.conditions[0].message, "all weights are 0: no entry ever gets a pod");
    assert_eq!((events(&case.write()).len(), plan.costs.len(), plan.removals.len()), (0, 0, 0));

    case.rule.spec.distribution[0].weight = 1;
    let shadowed = plan_shadowed(&case);
    assert_eq!((shadowed.status.status.as_deref(), events(&shadowed)), (Some("Shadowed"), vec!["Shadowed"]));
    assert_eq!(shadowed.allocation, None);
    assert!(events(&case.write()).contains(&"InForce"), "it is told when a rule comes into force after all");
}

fn plan_with(case: &Case, rivals: &Rivals<'_>) -> Plan {
    plan(&Observed {
        rule: &case.rule,
        rivals,
        members: &[],
        nodes: &case.nodes,
        ledger_quiet: true,
        history: &case.history,
        now: case.now,
    })
}

fn plan_shadowed(case: &Case) -> Plan {
    let older = Rule { name: "older".to_owned(), ..case.rule.clone() };
    plan_with(case, &Rivals { shadow: Some(&older), ..Rivals::default() })
}

#[test]
fn a_rule_says_which_others_count_for_some_of_its_pods() {
    let case = Case::new(&[1, 1], &json!({}), pods("ab"), vec![node("a", 9), node("b", 9)]);
    let told = |rivals: &Rivals<'_>| plan_with(&case, rivals).conditions[0].message.clone();
    assert_eq!(told(&Rivals::default()), "new pods of Deployment web are spread by this rule");
    let elder = Rule { name: "elder".to_owned(), ..case.rule.clone() };
    let mut part = Rule { name: "part".to_owned(), ..case.rule.clone() };
    (part.spec.target.kind, part.spec.target.name) = (Some("ReplicaSet".to_owned()), "web-1".to_owned());
    assert_eq!(
        told(&Rivals { bare: Some(&elder), replica_sets: vec![&part], ..Rivals::default() }),
        "new pods of Deployment web are spread by this rule; those without a controller that have the label app=web by \
         PodDistributor elder, which is older; those of ReplicaSet web-1 by PodDistributor part, which is older"
    );
}

#[test]
fn a_rule_for_a_part_of_an_older_rules_target_says_so_and_does_nothing() {
    let mut case = Case::new(&[1, 1], &json!({}), pods("ab"), vec![node("a", 9), node("b", 9)]);
    let whole = Rule { name: "whole".to_owned(), ..case.rule.clone() };
    let target = &mut case.rule.spec.target;
    (target.kind, target.name) = (Some("ReplicaSet".to_owned()), "web-1".to_owned());
    let plan = plan_with(&case, &Rivals { shadow: Some(&whole), ..Rivals::default() });
    assert_eq!((plan.status.status.as_deref(), plan.allocation.is_none()), (Some("Shadowed"), true));
    assert_eq!(
        plan.conditions[0].message,
        "PodDistributor whole counts instead: it is older and for Deployment web, to which ReplicaSet web-1 belongs; \
         delete one of the two"
    );
}

#[test]
fn a_rule_that_is_not_in_force_forgets_since_when_it_was() {
    let mut case = Case::new(&[1, 1], &json!({}), pods("ab"), vec![node("a", 9), node("b", 9)]);
    assert_eq!(case.write().status.in_force_since, Some(0));
    let shadowed = plan_shadowed(&case);
    assert_eq!((&shadowed.status.target, shadowed.status.in_force_since), (&None, None));
    assert!(shadowed.conditions[0].message.contains("PodDistributor older counts instead"), "{shadowed:?}");
    write(&mut case.rule, &shadowed);
    assert_eq!(case.write().status.in_force_since, Some(START));
}
