use std::{collections::BTreeMap, fmt};

use podwright_api::keys;
use serde::{Deserialize, Serialize};

use super::account::Accounts;
use crate::pod::{PodView, Resources};

/// What the pod's containers asked for before we took it away, kept on the pod as an annotation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// By container name; init containers too, whose names differ from the others'.
    pub(super) containers: BTreeMap<String, Resources>,
    /// Of the pod as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<Resources>,
    /// The annotations that we wrote.
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
}

impl Record {
    /// The record of an earlier invocation.
    ///
    /// It counts only on a pod that carries the VM resource: a record on any other pod is not ours, whoever wrote it.
    /// One that cannot be read is as good as none, and is written anew.
    pub(super) fn of(pod: &PodView, vm_resource: &str) -> Option<Self> {
        let carries = pod.spec.containers.iter().any(|container| {
            container.resources.as_ref().is_some_and(|resources| resources.request(vm_resource).is_positive())
        });
        pod.annotation(keys::PEER_POD_RECORD)
            .filter(|_| carries)
            .and_then(|text| serde_json::from_str(text).ok())
    }

    pub(super) fn new(accounts: &Accounts<'_>, annotations: BTreeMap<String, String>) -> Self {
        let containers = accounts
            .all()
            .map(|account| (account.container.name.clone(), account.original.clone()))
            .collect();
        Self { containers, pod: accounts.pod.clone(), annotations }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}
