use std::collections::BTreeSet;

use podwright_api::config::DownwardApi;

use super::{
    CPU, Leaves, MEMORY, PeerPods,
    account::{Account, Accounts},
    downward,
    size::{VmSize, total},
};
use crate::pod::{PodView, Resources, Volume};

/// What the person who created the pod should know, a sentence each.
///
/// The API server may cut a warning after 256 characters, so the sentences are short.
pub(super) fn warnings(
    pod: &PodView,
    accounts: &Accounts<'_>,
    size: &VmSize,
    replaced: &[String],
    rules: &PeerPods,
) -> Vec<String> {
    let mut warnings = vec![summary(accounts, size, rules)];
    if !replaced.is_empty() {
        warnings.push(format!(
            "peer pod: {} replaced by the computed size (peerPods.overrideAnnotations)",
            replaced.join(", ")
        ));
    }
    if size.vcpus.is_some() != size.memory_mib.is_some() {
        let missing = if size.vcpus.is_some() { MEMORY } else { CPU };
        warnings.push(format!(
            "peer pod: no {missing} is requested; cloud adaptors choose a VM by size only when both cpu and memory are known"
        ));
    }
    let lost: Vec<String> =
        names(accounts).filter(|name| is_device(name) && !rules.devices.contains_key(name)).collect();
    if !lost.is_empty() {
        warnings.push(format!(
            "peer pod: {} removed and not passed on to the VM; see peerPods.devices and peerPods.keep",
            lost.join(", ")
        ));
    }
    let claiming: Vec<&str> = accounts
        .all()
        .filter(|account| account.container.resources.as_ref().is_some_and(|all| !all.claims.is_empty()))
        .map(|account| account.container.name.as_str())
        .collect();
    if !claiming.is_empty() {
        warnings.push(format!(
            "peer pod: {} keep their resource claims, which are allocated on the node and not in the VM",
            claiming.join(", ")
        ));
    }
    warnings.extend(downward(pod, accounts, rules));
    warnings
}

fn summary(accounts: &Accounts<'_>, size: &VmSize, rules: &PeerPods) -> String {
    let moved: Vec<String> = names(accounts)
        .map(|name| {
            let requested = total(accounts, &name, Resources::request);
            let limit = || total(accounts, &name, Resources::limit);
            format!("{name}={}", if requested.is_positive() { requested } else { limit() })
        })
        .collect();
    let deed = match (moved.is_empty(), rules.leaves) {
        (true, _) => return format!("peer pod: asks for no resources; the VM has {size}"),
        (false, Leaves::Nothing) => "removed",
        (false, Leaves::AtMost { .. }) => "shrank",
    };
    format!("peer pod: {deed} {}; the VM has {size}", moved.join(" "))
}

/// Which containers' variables, and which volumes' files, read another number than they would have.
fn downward(pod: &PodView, accounts: &Accounts<'_>, rules: &PeerPods) -> Vec<String> {
    let shrinks = matches!(rules.leaves, Leaves::AtMost { .. });
    let mut warnings = Vec::new();
    let changed = |account: &&Account<'_>| {
        downward::references(account, accounts)
            .any(|(_, field, _)| !shrinks || field.starts_with("requests."))
    };
    let readers: Vec<&str> =
        accounts.all().filter(changed).map(|account| account.container.name.as_str()).collect();
    if rules.downward_api == DownwardApi::Keep && !readers.is_empty() {
        warnings.push(format!(
            "peer pod: variables of {} that read cpu or memory get other numbers now; see peerPods.downwardApi",
            readers.join(", ")
        ));
    }
    let reads = |volume: &&Volume| {
        volume
            .downward_api
            .iter()
            .flat_map(|files| &files.items)
            .any(|file| file.resource_field_ref.is_some())
    };
    for volume in pod.spec.volumes.iter().filter(reads) {
        warnings.push(format!(
            "peer pod: files of volume {} that hold cpu or memory may get other numbers now",
            volume.name
        ));
    }
    warnings
}

/// Every resource that moved, once.
fn names(accounts: &Accounts<'_>) -> impl Iterator<Item = String> {
    let containers = accounts.all().flat_map(|account| account.original.names());
    let whole = accounts.pod.iter().flat_map(Resources::names);
    containers.chain(whole).map(str::to_owned).collect::<BTreeSet<_>>().into_iter()
}

/// Extended resources have a domain; the node's own have not.
fn is_device(resource: &str) -> bool {
    resource.contains('/')
}
