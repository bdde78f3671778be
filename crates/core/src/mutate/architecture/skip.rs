//! Pods that are left alone.

use podwright_api::keys;

use crate::{
    architecture::{Rules, is_arch_label},
    pod::{NodeRequirement, NodeTerm, PodView},
};

/// Whether there is nothing to choose for us: somebody else says where it runs.
pub(super) fn is_left_alone(pod: &PodView, rules: &Rules) -> bool {
    let spec = &pod.spec;
    pod.label(keys::ARCHITECTURE) == Some(keys::OFF)
        || pod.annotation(keys::MIRROR_POD).is_some()
        || pod.daemon_owner().is_some()
        || spec.node_name.as_deref().is_some_and(|name| !name.is_empty())
        || spec.node_selector.as_ref().is_some_and(|labels| labels.keys().any(|key| is_arch_label(key)))
        || every_term(pod, |term| term.match_fields.iter().any(|field| field.key == "metadata.name"))
        // What we wrote ourselves, before another webhook changed the pod, is nobody's choice.
        || (pod.annotation(keys::ARCHITECTURE).is_none() && is_chosen(pod, rules))
}

/// Whether its author has chosen an architecture, or has already written what is configured to be added.
fn is_chosen(pod: &PodView, rules: &Rules) -> bool {
    let tolerates = pod
        .spec
        .tolerations
        .iter()
        .flatten()
        .any(|own| rules.configured_taints().any(|taint| own.tolerates(taint) && own.key.is_some()));
    let required = || pod.required_terms().into_iter().flatten().flat_map(NodeTerm::expressions);
    let demands = |key: &str, value: &String| {
        required().any(|own| own.key == key && own.operator == "In" && own.values == [value.as_str()])
            || pod.spec.node_selector.as_ref().is_some_and(|labels| labels.get(key) == Some(value))
    };
    tolerates
        || every_term(pod, |term| term.expressions().any(names_architecture))
        || rules.configured_labels().any(|(key, value)| demands(key, value))
}

fn names_architecture(requirement: &NodeRequirement) -> bool {
    is_arch_label(&requirement.key)
}

/// Whether it holds for all terms that can match a node at all, and there is one.
fn every_term(pod: &PodView, holds: impl Fn(&NodeTerm) -> bool) -> bool {
    let mut terms = pod.required_terms().into_iter().flatten().filter(|term| !term.is_empty()).peekable();
    terms.peek().is_some() && terms.all(holds)
}
