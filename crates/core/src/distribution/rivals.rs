//! Which rules are in each other's way. The older one counts, whatever the rank of their targets: so a rule that works is never
//! undone by one that somebody adds.

#[cfg(test)]
mod tests;

use std::{cmp::Ordering, sync::Arc};

use super::{Lineage, Rule, rule::group};
use crate::pod::OwnerReference;

/// The rules that count instead of one, for all that it is for or for a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rivals<'r> {
    /// Counts for its target. What is left to it are pods without a controller, if the other is for what controls its target.
    pub shadow: Option<&'r Rule>,
    /// Counts for pods without a controller: those find their rule by a label, whatever the kind of its target.
    pub bare: Option<&'r Rule>,
    /// Each counts for the pods of its own target, a ReplicaSet that the rule's target controls.
    pub replica_sets: Vec<&'r Rule>,
}

/// The rules of its namespace that count instead of this one. `controller` knows what controls a ReplicaSet of the namespace.
#[must_use]
pub fn rivals<'r>(
    rule: &Rule,
    rules: &'r [Arc<Rule>],
    controller: impl Fn(&str) -> Option<OwnerReference>,
) -> Rivals<'r> {
    let mut elders: Vec<&Rule> = elders(rule, rules).collect();
    elders.sort_by(|one, other| one.precedence(other));
    let own = replica_set(rule, &controller);
    let shadows = |other: &Rule| {
        is_same(rule, other) || own.as_ref().is_some_and(|replica_set| other.targets(replica_set))
    };
    let takes = |other: &Rule| replica_set(other, &controller).is_some_and(|part| rule.targets(&part));
    Rivals {
        shadow: elders.iter().copied().find(|other| shadows(other)),
        bare: elders.iter().copied().find(|other| rule.spec.target.name == other.spec.target.name),
        replica_sets: elders.iter().copied().filter(|other| takes(other)).collect(),
    }
}

/// The lineage of its pods, if it is for a ReplicaSet.
fn replica_set(rule: &Rule, controller: impl Fn(&str) -> Option<OwnerReference>) -> Option<Lineage> {
    let name = &rule.spec.target.name;
    let itself = OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        name: name.clone(),
        controller: Some(true),
    };
    let mut lineage = Lineage { owners: vec![itself], app: None };
    if !rule.targets(&lineage) {
        return None;
    }
    lineage.owners.extend(controller(name));
    Some(lineage)
}

/// The rules of its namespace that come before it and can be used.
fn elders<'r>(rule: &Rule, rules: &'r [Arc<Rule>]) -> impl Iterator<Item = &'r Rule> {
    rules.iter().map(|other| &**other).filter(move |other| {
        other.namespace == rule.namespace
            && other.name != rule.name
            && other.precedence(rule) == Ordering::Less
            && other.weights().is_ok()
    })
}

/// Whether they have the same target.
pub(super) fn is_same(rule: &Rule, other: &Rule) -> bool {
    let (mine, its) = (&rule.spec.target, &other.spec.target);
    let groups = mine.api_version.as_deref().zip(its.api_version.as_deref());
    mine.name == its.name
        && mine.kind() == its.kind()
        && groups.is_none_or(|(mine, its)| group(mine) == group(its))
}
