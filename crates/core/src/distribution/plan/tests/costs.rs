use super::*;
use samples::node;

#[test]
fn costs_change_once_the_pods_have_settled_and_then_never_again() {
    let mut case = Case::new(&[1, 1], &json!({}), pods("abab"), vec![node("a", 9), node("b", 9)]);
    let first = case.write();
    assert_eq!((first.costs.len(), first.wake_at), (0, Some(START + SETTLED_AFTER)));
    case.now += SETTLED_AFTER;
    assert_eq!(case.write().costs.len(), 4);
    let rest = case.write();
    assert_eq!((rest.costs.len(), rest.wake_at), (0, None));
}

#[test]
fn costs_wait_for_pods_that_are_on_their_way() {
    let mut case = Case::new(&[1, 1], &json!({}), pods("ab"), vec![node("a", 9), node("b", 9)]);
    case.ledger_quiet = false;
    let plan = case.settle();
    assert!(plan.costs.is_empty() && plan.wake_at > Some(case.now), "{plan:?}");
    case.ledger_quiet = true;
    assert_eq!(case.write().costs.len(), 2);
}

#[test]
fn a_change_of_pods_starts_the_wait_anew() {
    let mut case = Case::new(&[1, 1], &json!({}), pods("ab"), vec![node("a", 9), node("b", 9)]);
    case.write();
    case.now += SETTLED_AFTER;
    case.members.push(samples::pod("late", "a"));
    assert!(case.write().costs.is_empty());
    case.now += SETTLED_AFTER;
    assert_eq!(case.write().costs.len(), 3);
}
