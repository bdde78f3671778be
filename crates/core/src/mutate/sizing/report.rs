use podwright_api::keys;

use super::{OptIn, PodView, Share};
use crate::sizing::InvalidTemplate;

pub(super) fn no_template(opt_in: &OptIn) -> String {
    format!(
        "there is no FlexDaemonsetTemplate {:?}, by which {} wants its pods sized: create it, or correct the annotation {}",
        opt_in.template,
        opt_in.workload,
        keys::RESOURCE_TEMPLATE,
    )
}

pub(super) fn invalid(opt_in: &OptIn, error: &InvalidTemplate) -> String {
    format!("FlexDaemonsetTemplate {:?} cannot be used, {error}", opt_in.template)
}

pub(super) fn no_node(opt_in: &OptIn, node: Option<&str>) -> String {
    format!(
        "there is no Node {:?}, of which this pod of {} would get its share: it is tried again once the node has registered",
        node.unwrap_or_default(),
        opt_in.workload,
    )
}

pub(super) fn no_target(opt_in: &OptIn) -> String {
    format!(
        "sizing: not sized: this pod of {} names no node, neither in spec.nodeName nor in its required node affinity",
        opt_in.workload,
    )
}

/// What the owner of the template should look at, a sentence each.
pub(super) fn oddities(pod: &PodView, share: &Share) -> Vec<String> {
    let too_much = share.resources.iter().filter(|one| one.exceeds_node()).map(|one| {
        let has = one.allocatable.map_or_else(|| "none".to_owned(), |amount| amount.to_string());
        format!(
            "sizing: the template's {} of {} {} is more than node {} has ({has}), so the pod stays pending; see capAtAllocatable",
            one.rule,
            one.resource.name(),
            one.amount,
            share.node,
        )
    });
    let whole = pod.spec.resources.as_ref().filter(|all| all.names().next().is_some()).map(|_| {
        "sizing: the containers were sized; the resources of the pod as a whole stay and must be large enough".to_owned()
    });
    too_much.chain(whole).collect()
}

/// For the audit log.
pub(super) fn summary(template: &str, share: &Share) -> String {
    let amounts: Vec<String> = share
        .resources
        .iter()
        .map(|one| format!("{}={} ({})", one.resource.name(), one.amount, one.rule))
        .collect();
    format!("{template} on {}: {}", share.node, amounts.join(", "))
}
