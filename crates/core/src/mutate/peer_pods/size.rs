use std::fmt;

use podwright_api::{config::VmSizing, keys};

use super::{
    CPU, MEMORY, PeerPods,
    account::{Account, Accounts},
};
use crate::{
    pod::{Resources, RestartPolicy},
    quantity::Quantity,
};

/// The size of a pod's VM, as far as its containers say anything about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VmSize {
    pub(super) vcpus: Option<i128>,
    pub(super) memory_mib: Option<i128>,
    /// Resource, annotation, amount.
    devices: Vec<(String, String, Quantity)>,
}

impl VmSize {
    pub(super) fn of(accounts: &Accounts<'_>, rules: &PeerPods) -> Self {
        let need = |resource: &str| match rules.sizing {
            VmSizing::Sum => sum(accounts, resource),
            VmSizing::Effective => effective(accounts, resource),
        };
        let devices = rules.devices.iter().filter_map(|(resource, annotation)| {
            let count = match rules.sizing {
                VmSizing::Sum => total(accounts, resource, Resources::request),
                VmSizing::Effective => effective(accounts, resource),
            };
            count.is_positive().then(|| (resource.clone(), annotation.clone(), count))
        });
        let whole = |resource, unit: Quantity| {
            Some(need(resource)).filter(Quantity::is_positive).map(|amount| amount.ceil_to(&unit))
        };
        Self {
            vcpus: whole(CPU, Quantity::units(1)),
            memory_mib: whole(MEMORY, Quantity::mebibytes(1)),
            devices: devices.collect(),
        }
    }

    /// What the cloud adaptor reads.
    pub(super) fn annotations(&self) -> impl Iterator<Item = (&str, String)> {
        let vcpus = self.vcpus.iter().map(|vcpus| (keys::VM_VCPUS, vcpus.to_string()));
        let memory = self.memory_mib.iter().map(|mib| (keys::VM_MEMORY, mib.to_string()));
        let devices =
            self.devices.iter().map(|(_, annotation, count)| (annotation.as_str(), count.to_string()));
        vcpus.chain(memory).chain(devices)
    }
}

impl fmt::Display for VmSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vcpus = self.vcpus.iter().map(|vcpus| format!("{vcpus} vCPU"));
        let memory = self.memory_mib.iter().map(|mib| format!("{mib} MiB"));
        let devices = self.devices.iter().map(|(resource, _, count)| format!("{count} {resource}"));
        let parts: Vec<String> = vcpus.chain(memory).chain(devices).collect();
        f.write_str(&if parts.is_empty() {
            "the provider's default size".to_owned()
        } else {
            parts.join(" / ")
        })
    }
}

/// All limits where they cover all requests, else all requests; nothing where nothing is requested.
fn sum(accounts: &Accounts<'_>, resource: &str) -> Quantity {
    let requests = total(accounts, resource, Resources::request);
    let limits = total(accounts, resource, Resources::limit);
    if requests.is_positive() { requests.max(limits) } else { Quantity::ZERO }
}

/// Added up over all containers, unless the pod as a whole says otherwise.
pub(super) fn total(
    accounts: &Accounts<'_>,
    resource: &str,
    part: impl Fn(&Resources, &str) -> Quantity,
) -> Quantity {
    let whole = accounts.pod.as_ref().map(|pod| part(pod, resource)).filter(Quantity::is_positive);
    whole.unwrap_or_else(|| accounts.all().map(|account| part(&account.original, resource)).sum())
}

/// The most that runs at one time: an init container beside the sidecars that started before it, or all containers
/// beside all sidecars. Each counts with the larger of its request and its limit.
fn effective(accounts: &Accounts<'_>, resource: &str) -> Quantity {
    let larger = |resources: &Resources| resources.request(resource).max(resources.limit(resource));
    if let Some(whole) = accounts.pod.as_ref().map(larger).filter(Quantity::is_positive) {
        return whole;
    }
    let need = |account: &Account<'_>| larger(&account.original);
    let mut sidecars = Quantity::ZERO;
    let mut peak = Quantity::ZERO;
    for account in &accounts.init {
        if account.container.restart_policy == Some(RestartPolicy::Always) {
            sidecars = sidecars + need(account);
        } else {
            peak = peak.max(sidecars + need(account));
        }
    }
    peak.max(sidecars + accounts.main.iter().map(need).sum())
}
