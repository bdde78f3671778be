use std::collections::BTreeMap;

use json_patch::{
    PatchOperation,
    jsonptr::{PointerBuf, Token},
};
use podwright_api::{distributor::Mode, keys};
use serde_json::{Value, json};

use super::Given;
use crate::{
    distribution::{Mark, Rule},
    pod::{PatchBuilder, PodView, Toleration, pointer},
};

/// The scheduler's highest weight: the entry comes before whatever else the pod would rather have.
const PREFERENCE: i32 = 100;

pub(super) fn is_preferred(rule: &Rule) -> bool {
    rule.spec.mode == Mode::Preferred
}

/// What makes the pod go where it was given a place. Nothing if it goes there already.
pub(super) fn of(pod: &PodView, given: &Given<'_>, deletion_costs: bool) -> Vec<PatchOperation> {
    let mut patch = PatchBuilder::default();
    let before = pod.annotation(keys::DISTRIBUTION).and_then(Mark::read);
    let same = before
        .as_ref()
        .is_some_and(|before| (&before.rule, &before.entry) == (&given.mark.rule, &given.mark.entry));
    if is_preferred(given.rule) {
        if !same && !given.entry.node_label.is_empty() {
            prefer(&mut patch, pod, &given.entry.node_label);
        }
    } else {
        require(&mut patch, pod, given, before.as_ref().filter(|_| !same));
    }
    tolerate(&mut patch, pod, given);
    annotate(&mut patch, pod, given, deletion_costs);
    patch.finish()
}

fn at(tokens: &[&str]) -> PointerBuf {
    pointer(tokens.iter().map(|token| Token::new(*token)))
}

/// The entry's labels join the pod's own. What an earlier entry had put there goes.
fn require(patch: &mut PatchBuilder, pod: &PodView, given: &Given<'_>, before: Option<&Mark>) {
    let place = at(&["spec", "nodeSelector"]);
    let current = pod.spec.node_selector.as_ref();
    let stale = before
        .filter(|before| before.rule == given.rule.name)
        .and_then(|before| given.rule.entry(&before.entry))
        .map(|entry| &given.rule.entries()[entry].node_label);
    for (key, value) in stale.into_iter().flatten() {
        let is_there = current.is_some_and(|current| current.get(key) == Some(value));
        if !given.entry.node_label.contains_key(key) {
            let mut place = place.clone();
            place.push_back(Token::new(key));
            patch.remove(place, is_there);
        }
    }
    patch.merge(&place, current, given.entry.node_label.clone());
}

fn prefer(patch: &mut PatchBuilder, pod: &PodView, labels: &BTreeMap<String, String>) {
    let expressions: Vec<Value> =
        labels.iter().map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]})).collect();
    let term = json!({"weight": PREFERENCE, "preference": {"matchExpressions": expressions}});
    let list = "preferredDuringSchedulingIgnoredDuringExecution";
    let affinity = pod.spec.affinity.as_ref();
    let node_affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let (place, value) = match (affinity, node_affinity) {
        (None, _) => (at(&["spec", "affinity"]), json!({"nodeAffinity": {list: [term]}})),
        (Some(_), None) => (at(&["spec", "affinity", "nodeAffinity"]), json!({list: [term]})),
        (Some(_), Some(node)) if node.preferred.is_none() => {
            (at(&["spec", "affinity", "nodeAffinity", list]), json!([term]))
        }
        (Some(_), Some(_)) => (at(&["spec", "affinity", "nodeAffinity", list, "-"]), term),
    };
    patch.set(place, None, &value);
}

fn tolerate(patch: &mut PatchBuilder, pod: &PodView, given: &Given<'_>) {
    let place = at(&["spec", "tolerations"]);
    let Some(current) = &pod.spec.tolerations else {
        if !given.entry.tolerations.is_empty() {
            patch.set(place, None, &given.entry.tolerations);
        }
        return;
    };
    for toleration in
        given.entry.tolerations.iter().map(Toleration::from).filter(|one| !current.contains(one))
    {
        let mut place = place.clone();
        place.push_back(Token::new("-"));
        patch.set(place, None, &toleration);
    }
}

fn annotate(patch: &mut PatchBuilder, pod: &PodView, given: &Given<'_>, deletion_costs: bool) {
    let mut entries = BTreeMap::from([
        (keys::MUTATED_BY.to_owned(), keys::MUTATED_BY_VERSPREI.to_owned()),
        (keys::DISTRIBUTION.to_owned(), given.mark.text()),
    ]);
    let cost = pod.annotation(keys::POD_DELETION_COST);
    let users = cost.is_some() && cost != pod.annotation(keys::OUR_DELETION_COST);
    if let Some(ours) = given.cost.filter(|_| deletion_costs && !users) {
        entries.insert(keys::POD_DELETION_COST.to_owned(), ours.to_string());
        entries.insert(keys::OUR_DELETION_COST.to_owned(), ours.to_string());
    }
    patch.merge(&at(&["metadata", "annotations"]), pod.metadata.annotations.as_ref(), entries);
}
