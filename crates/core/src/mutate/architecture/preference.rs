//! Which of the architectures that a pod can run on it would rather have. Soft: where that one has no room, another does.

use std::collections::{BTreeMap, BTreeSet};

use podwright_api::keys;
use serde_json::{Value, json};

use crate::{
    architecture::{BadPreference, Rules, is_arch_label, preferences},
    pod::{NodeRequirement, PodView, PreferredTerm},
};

/// The weights that hold for a pod: its own, else the cluster's.
fn weights(pod: &PodView, rules: &Rules) -> Result<BTreeMap<String, u8>, BadPreference> {
    pod.annotation(keys::PREFERRED_ARCHITECTURES).map_or_else(|| Ok(rules.weights()), preferences)
}

/// The architecture with the most weight among these, if any has some.
pub(super) fn best<'a>(pod: &PodView, architectures: &'a BTreeSet<String>, rules: &Rules) -> Option<&'a str> {
    let weights = weights(pod, rules).unwrap_or_else(|_| rules.weights());
    let weighed = architectures.iter().filter_map(|name| Some((*weights.get(name)?, name)));
    // The first by name among equals.
    weighed.rev().max_by_key(|(weight, _)| *weight).map(|(_, name)| name.as_str())
}

/// The terms that tell the scheduler, where there is a choice and the pod's author has not told it already; and what could
/// not be read.
pub(super) fn terms(
    pod: &PodView,
    architectures: &BTreeSet<String>,
    rules: &Rules,
) -> (Vec<Value>, Option<String>) {
    let (weights, unread) = match weights(pod, rules) {
        Ok(weights) => (weights, None),
        Err(error) => (
            rules.weights(),
            Some(format!(
                "architecture: annotation {}: {error}; it has no effect",
                keys::PREFERRED_ARCHITECTURES
            )),
        ),
    };
    let node_affinity = pod.spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let told =
        node_affinity.is_some_and(|affinity| affinity.preferred.iter().flatten().any(names_architecture));
    if architectures.len() < 2 || told {
        return (Vec::new(), unread);
    }
    let terms =
        architectures.iter().filter_map(|name| Some((name, *weights.get(name)?))).map(|(name, weight)| {
            let expression = NodeRequirement::is_in(keys::ARCH_LABEL, [name.clone()]);
            json!({"weight": weight, "preference": {"matchExpressions": [expression]}})
        });
    (terms.collect(), unread)
}

fn names_architecture(term: &PreferredTerm) -> bool {
    term.preference.expressions().any(|requirement| is_arch_label(&requirement.key))
}
