//! The required node affinity. Its terms are alternatives to each other, so what must hold in any case goes into every one
//! of them; a term of its own would be a way around the others.

use json_patch::jsonptr::{PointerBuf, Token};
use podwright_api::keys;
use serde_json::{Map, Value, json};

use crate::{
    architecture::{Requirements, is_arch_label},
    pod::{NodeRequirement, NodeTerm, PatchBuilder, PodView, pointer},
};

/// Makes every term imply one of the alternatives.
///
/// A term that leaves several of them open is copied, once for each: together the copies say the same as the term, and the
/// alternatives beside. Where no term may be added (a pod that waits for the scheduler allows that no more) only the
/// alternative with the architecture `first`, or the first of all, is left.
///
/// Gives back the whole required affinity where the pod has none yet.
pub(super) fn require(
    patch: &mut PatchBuilder,
    pod: &PodView,
    mut alternatives: Vec<Requirements>,
    first: Option<&str>,
    may_add_terms: bool,
) -> Option<Value> {
    let has = |one: &Requirements| {
        first.is_some_and(|first| one.get(keys::ARCH_LABEL).is_some_and(|values| values.contains(first)))
    };
    alternatives.sort_by_key(|one| !has(one));
    let Some(terms) = pod.required_terms() else {
        let terms: Vec<Value> = alternatives
            .iter()
            .map(|one| json!({"matchExpressions": one.iter().map(expression).collect::<Vec<_>>()}))
            .collect();
        return Some(json!({"nodeSelectorTerms": terms}));
    };
    let mut length = terms.len();
    for (index, term) in terms.iter().enumerate() {
        if term.is_empty() || alternatives.iter().any(|one| implies(term, one)) {
            continue;
        }
        let open: Vec<&Requirements> = alternatives.iter().filter(|one| !contradicts(term, one)).collect();
        // Where none is left open the term must not match either.
        let (here, others) = match &open[..] {
            [] => (&alternatives[0], &[][..]),
            [one, others @ ..] => (*one, if may_add_terms { others } else { &[] }),
        };
        for other in others {
            patch.copy_to_end(term_at(index), &terms_at());
            demand(patch, length, term, other);
            length += 1;
        }
        demand(patch, index, term, here);
    }
    None
}

/// Makes sure that no node fits, by a label that none has and that says why.
///
/// Gives back the whole required affinity where the pod has none yet.
pub(super) fn make_impossible(patch: &mut PatchBuilder, pod: &PodView, label: &str) -> Option<Value> {
    let reason = NodeRequirement::exists(label);
    let Some(terms) = pod.required_terms() else {
        return Some(json!({"nodeSelectorTerms": [{"matchExpressions": [reason]}]}));
    };
    for (index, term) in terms.iter().enumerate().filter(|(_, term)| !term.is_empty()) {
        if !term.expressions().any(|own| *own == reason) {
            patch.extend(
                &expressions_at(index),
                term.match_expressions.is_some(),
                std::slice::from_ref(&reason),
            );
        }
    }
    None
}

/// Puts what the term does not say yet into it.
fn demand(patch: &mut PatchBuilder, index: usize, term: &NodeTerm, requirements: &Requirements) {
    let missing: Vec<NodeRequirement> =
        requirements.iter().filter(|one| !implies_one(term, one)).map(expression).collect();
    patch.extend(&expressions_at(index), term.match_expressions.is_some(), &missing);
}

fn expression((label, values): (&String, &std::collections::BTreeSet<String>)) -> NodeRequirement {
    NodeRequirement::is_in(label, values.iter().cloned())
}

/// Whether whatever fulfils the term fulfils the requirements too.
fn implies(term: &NodeTerm, requirements: &Requirements) -> bool {
    requirements.iter().all(|one| implies_one(term, &one))
}

fn implies_one(term: &NodeTerm, (label, values): &(&String, &std::collections::BTreeSet<String>)) -> bool {
    of_label(term, label)
        .any(|own| own.operator == "In" && own.values.iter().all(|value| values.contains(value)))
}

/// Whether nothing can fulfil both.
fn contradicts(term: &NodeTerm, requirements: &Requirements) -> bool {
    requirements.iter().any(|(label, values)| {
        of_label(term, label).any(|own| match own.operator.as_str() {
            "In" => !own.values.iter().any(|value| values.contains(value)),
            "NotIn" => values.iter().all(|value| own.values.contains(value)),
            "DoesNotExist" => true,
            _ => false,
        })
    })
}

/// The term's own conditions on the label, under each of its names.
fn of_label<'t>(term: &'t NodeTerm, label: &str) -> impl Iterator<Item = &'t NodeRequirement> {
    let (is_arch, is_os) = (is_arch_label(label), label == keys::OS_LABEL);
    let label = label.to_owned();
    term.expressions().filter(move |own| {
        own.key == label || (is_arch && is_arch_label(&own.key)) || (is_os && own.key == keys::OLD_OS_LABEL)
    })
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Creates the required node affinity, adds to the preferred one, and creates whatever above them is missing.
pub(super) fn write(patch: &mut PatchBuilder, pod: &PodView, required: Option<Value>, preferred: Vec<Value>) {
    let at = ["spec", "affinity", "nodeAffinity"].map(Token::new);
    let node_affinity = pod.spec.affinity.as_ref().map(|affinity| affinity.node_affinity.as_ref());
    if let Some(Some(own)) = node_affinity {
        let field = |name: &'static str| pointer(at.iter().cloned().chain([Token::new(name)]));
        if let Some(required) = required {
            patch.add(field(REQUIRED), &required);
        }
        patch.extend(&field(PREFERRED), own.preferred.is_some(), &preferred);
        return;
    }
    let mut whole = Map::new();
    whole.extend(required.map(|required| (REQUIRED.to_owned(), required)));
    if !preferred.is_empty() {
        whole.insert(PREFERRED.to_owned(), Value::from(preferred));
    }
    match node_affinity {
        _ if whole.is_empty() => {}
        Some(_) => patch.add(pointer(at), &whole),
        None => patch.add(pointer(at.into_iter().take(2)), &json!({"nodeAffinity": whole})),
    }
}

fn terms_at() -> PointerBuf {
    pointer(["spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"].map(Token::new))
}

fn term_at(index: usize) -> PointerBuf {
    let mut at = terms_at();
    at.push_back(Token::from(index));
    at
}

fn expressions_at(index: usize) -> PointerBuf {
    let mut at = term_at(index);
    at.push_back(Token::new("matchExpressions"));
    at
}
