//! Peer pods: their images run in a VM of their own, so it is the VM that must fit, not the node.

use podwright_api::keys;

use super::{Draft, images::Images, preference, report};
use crate::{
    architecture::{NodeKind, Rules, runs_everywhere},
    pod::PodView,
};

/// Whether its author has chosen the machine type.
pub(super) fn is_chosen(pod: &PodView) -> bool {
    pod.annotation(keys::VM_MACHINE_TYPE).is_some() && pod.annotation(keys::ARCHITECTURE).is_none()
}

/// Chooses the machine type of an architecture that all images run on: the most preferred, else the first by name.
pub(super) fn choose(draft: &mut Draft<'_>, images: &Images<'_>, rules: &Rules) {
    let offers = images.offers();
    if offers.is_empty() {
        return;
    }
    let fitting =
        rules.machines().filter(|(name, _)| runs_everywhere(&offers, &NodeKind::linux(name), rules));
    let names = fitting.map(|(name, _)| name.to_owned()).collect();
    let best = preference::best(draft.pod, &names, rules).or_else(|| names.first().map(String::as_str));
    let Some((name, machine)) = rules.machines().find(|(name, _)| Some(*name) == best) else {
        draft.warnings.extend(report::no_machine_type(images, rules));
        return;
    };
    for (key, value) in
        [(keys::VM_MACHINE_TYPE, &machine.machine_type), (keys::VM_IMAGE, &machine.machine_image)]
    {
        if let Some(value) = value {
            draft.annotations.insert(key.to_owned(), value.clone());
        }
    }
    draft.record.runs_on = vec![name.to_owned()];
}
