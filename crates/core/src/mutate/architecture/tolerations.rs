//! Tolerations of the taints that architectures have.

use json_patch::jsonptr::Token;
use podwright_api::config::TaintConfig;

use crate::pod::{PatchBuilder, PodView, Toleration, pointer};

/// Tolerates these taints, as far as the pod does not yet.
pub(super) fn add(patch: &mut PatchBuilder, pod: &PodView, taints: &[TaintConfig]) {
    let own = pod.spec.tolerations.as_ref();
    let missing: Vec<Toleration> = taints
        .iter()
        .filter(|taint| !own.into_iter().flatten().any(|toleration| toleration.tolerates(taint)))
        .map(Toleration::of)
        .collect();
    let at = pointer([Token::new("spec"), Token::new("tolerations")]);
    patch.extend(&at, own.is_some(), &missing);
}
