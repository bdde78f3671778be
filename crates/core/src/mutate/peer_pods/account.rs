use std::collections::BTreeMap;

use super::{PeerPods, Record};
use crate::pod::{Container, PodView, ResourceList, Resources};

/// One container and what it asked for originally, without what stays on the node.
pub(super) struct Account<'p> {
    pub(super) container: &'p Container,
    pub(super) original: Resources,
    /// Not counted by an earlier invocation.
    pub(super) new: bool,
}

/// All of a pod's containers with what they asked for originally.
pub(super) struct Accounts<'p> {
    pub(super) init: Vec<Account<'p>>,
    pub(super) main: Vec<Account<'p>>,
    /// What the pod as a whole asked for.
    pub(super) pod: Option<Resources>,
    written: BTreeMap<String, String>,
}

impl<'p> Accounts<'p> {
    /// Takes recorded containers by the record, whatever has reappeared on them since, and new ones by what they ask.
    pub(super) fn of(pod: &'p PodView, rules: &PeerPods) -> Self {
        let record = Record::of(pod, &rules.resource);
        let account = |container: &'p Container| {
            let recorded = record.as_ref().and_then(|record| record.containers.get(&container.name));
            Account {
                container,
                original: recorded.cloned().unwrap_or_else(|| rules.counted(container.resources.as_ref())),
                new: recorded.is_none(),
            }
        };
        let init = pod.spec.init_containers.iter().map(account).collect();
        let main = pod.spec.containers.iter().map(account).collect();
        let (whole, written) = match record {
            Some(record) => (record.pod, record.annotations),
            None => (pod.spec.resources.as_ref().map(|all| rules.counted(Some(all))), BTreeMap::new()),
        };
        Self { init, main, pod: whole, written }
    }

    /// Init containers, then containers.
    pub(super) fn all(&self) -> impl Iterator<Item = &Account<'p>> {
        self.init.iter().chain(&self.main)
    }

    /// What an earlier invocation wrote into this annotation.
    pub(super) fn wrote(&self, key: &str) -> Option<&str> {
        self.written.get(key).map(String::as_str)
    }

    /// The container that carries the VM: the one that does already, else the first.
    pub(super) fn carrier(&self, vm_resource: &str) -> usize {
        let carries = |account: &Account<'_>| {
            !account.new
                && account
                    .container
                    .resources
                    .as_ref()
                    .is_some_and(|all| all.request(vm_resource).is_positive())
        };
        self.main.iter().position(carries).unwrap_or(0)
    }
}

impl PeerPods {
    /// The part of these resources that moves to the VM.
    fn counted(&self, resources: Option<&Resources>) -> Resources {
        let moved = |list: Option<&ResourceList>| {
            let moved: ResourceList = list?
                .iter()
                .filter(|(name, _)| **name != self.resource && !self.keep.contains(*name))
                .map(|(name, amount)| (name.clone(), *amount))
                .collect();
            (!moved.is_empty()).then_some(moved)
        };
        let resources = resources.map(|all| (moved(all.requests.as_ref()), moved(all.limits.as_ref())));
        let (requests, limits) = resources.unwrap_or_default();
        Resources { requests, limits, claims: Vec::new() }
    }
}
