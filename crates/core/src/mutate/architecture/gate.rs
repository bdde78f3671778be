//! Pods that are held back from the scheduler until the platforms of their images are known.

use std::collections::BTreeMap;

use json_patch::jsonptr::{PointerBuf, Token};
use podwright_api::keys;

use super::{images::Images, record::Record, report};
use crate::{
    mutate::Outcome,
    pod::{PatchBuilder, PodView, SchedulingGate, pointer},
};

fn gates_at() -> PointerBuf {
    pointer([Token::new("spec"), Token::new("schedulingGates")])
}

fn metadata_at(map: &'static str) -> PointerBuf {
    pointer([Token::new("metadata"), Token::new(map)])
}

fn position(pod: &PodView) -> Option<usize> {
    pod.spec.scheduling_gates.as_ref()?.iter().position(|gate| gate.name == keys::ARCHITECTURE)
}

/// Whether we hold the pod back.
pub(super) fn holds(pod: &PodView) -> bool {
    position(pod).is_some()
}

/// Holds the pod back. Nothing else is written yet: what is written then may only ever be added to.
pub(super) fn hold(pod: &PodView, images: &Images<'_>) -> Outcome {
    let mut patch = PatchBuilder::default();
    if !holds(pod) {
        let gate = SchedulingGate { name: keys::ARCHITECTURE.to_owned() };
        patch.extend(&gates_at(), pod.spec.scheduling_gates.is_some(), &[gate]);
    }
    let entry = |key: &str, value: String| BTreeMap::from([(key.to_owned(), value)]);
    let state = entry(keys::ARCHITECTURE_STATE, keys::GATED.to_owned());
    patch.merge(&metadata_at("labels"), pod.metadata.labels.as_ref(), state);
    let record = entry(keys::ARCHITECTURE, Record::of(images).to_string());
    patch.merge(&metadata_at("annotations"), pod.metadata.annotations.as_ref(), record);
    let patch = patch.finish();
    let warnings = if patch.is_empty() { Vec::new() } else { report::held(images) };
    Outcome { concerned: true, patch, warnings, ..Outcome::default() }
}

/// Lets the pod go, and says what it is now for those who watch it.
pub(super) fn release(patch: &mut PatchBuilder, pod: &PodView, state: Option<&'static str>) {
    if let Some(index) = position(pod) {
        let mut at = gates_at();
        at.push_back(Token::from(index));
        patch.remove(at, true);
    }
    let labels = pod.metadata.labels.as_ref();
    if let Some(state) = state {
        let entry = BTreeMap::from([(keys::ARCHITECTURE_STATE.to_owned(), state.to_owned())]);
        patch.merge(&metadata_at("labels"), labels, entry);
    } else {
        let mut at = metadata_at("labels");
        at.push_back(Token::new(keys::ARCHITECTURE_STATE));
        patch.remove(at, labels.is_some_and(|labels| labels.contains_key(keys::ARCHITECTURE_STATE)));
    }
}
