use json_patch::jsonptr::{PointerBuf, Token};

use super::{
    CPU, MEMORY, PeerPods,
    account::{Account, Accounts},
};
use crate::{
    pod::{PatchBuilder, PodView, ResourceList, Resources, pointer},
    quantity::Quantity,
};

/// Gives every container what the mode leaves it, and one container the VM.
pub(super) fn patch(patch: &mut PatchBuilder, pod: &PodView, accounts: &Accounts<'_>, rules: &PeerPods) {
    let carrier = accounts.carrier(&rules.resource);
    for (section, list, carrier) in
        [("containers", &accounts.main, Some(carrier)), ("initContainers", &accounts.init, None)]
    {
        for (index, account) in list.iter().enumerate() {
            let at = pointer([
                Token::new("spec"),
                Token::new(section),
                Token::from(index),
                Token::new("resources"),
            ]);
            let wanted = rules.container(account, carrier == Some(index));
            put(patch, &at, account.container.resources.as_ref(), &wanted);
        }
    }
    if let Some(current) = &pod.spec.resources {
        let at = pointer([Token::new("spec"), Token::new("resources")]);
        put(patch, &at, Some(current), &rules.whole(current, accounts));
    }
}

/// Requests and limits are set one by one, so that whatever else stands beside them stays.
fn put(patch: &mut PatchBuilder, at: &PointerBuf, current: Option<&Resources>, wanted: &Resources) {
    let Some(current) = current else {
        if wanted.names().next().is_some() {
            patch.set(at.clone(), None, wanted);
        }
        return;
    };
    for (field, current, wanted) in
        [("requests", &current.requests, &wanted.requests), ("limits", &current.limits, &wanted.limits)]
    {
        let mut at = at.clone();
        at.push_back(Token::new(field));
        match wanted {
            Some(wanted) => patch.set(at, current.as_ref(), wanted),
            None => patch.remove(at, current.is_some()),
        }
    }
}

impl PeerPods {
    fn container(&self, account: &Account<'_>, carries_vm: bool) -> Resources {
        let current = account.container.resources.as_ref();
        let mut requests = self.kept(current.and_then(|current| current.requests.as_ref()));
        let mut limits = self.kept(current.and_then(|current| current.limits.as_ref()));
        self.shrink(&account.original, &mut requests, &mut limits);
        if carries_vm {
            requests.insert(self.resource.clone(), Quantity::units(1));
            limits.insert(self.resource.clone(), Quantity::units(1));
        }
        resources(requests, limits)
    }

    /// What is left to the pod as a whole: never less than its containers together, which the API server insists on.
    fn whole(&self, current: &Resources, accounts: &Accounts<'_>) -> Resources {
        let mut requests = self.kept(current.requests.as_ref());
        let mut limits = self.kept(current.limits.as_ref());
        if let Some(original) = &accounts.pod {
            self.shrink(original, &mut requests, &mut limits);
            for (name, amount) in &mut requests {
                let together =
                    accounts.all().map(|account| self.small_request(&account.original, name)).sum();
                *amount = (*amount).max(together);
            }
        }
        resources(requests, limits)
    }

    fn shrink(&self, original: &Resources, requests: &mut ResourceList, limits: &mut ResourceList) {
        for name in [CPU, MEMORY] {
            let request = self.small_request(original, name);
            if request.is_positive() {
                requests.insert(name.to_owned(), request);
                let limit = original.limit(name);
                if limit.is_positive() {
                    limits.insert(name.to_owned(), limit);
                }
            }
        }
    }

    /// The request that stays: small, and never more than it was or than the limit allows.
    fn small_request(&self, original: &Resources, name: &str) -> Quantity {
        let asked = [original.request(name), original.limit(name)];
        let smallest = asked.into_iter().filter(Quantity::is_positive).min();
        smallest.map_or(Quantity::ZERO, |smallest| smallest.min(self.leaves.request(name)))
    }

    fn kept(&self, list: Option<&ResourceList>) -> ResourceList {
        let kept = list.into_iter().flatten().filter(|(name, _)| self.keep.contains(*name));
        kept.map(|(name, amount)| (name.clone(), *amount)).collect()
    }
}

fn resources(requests: ResourceList, limits: ResourceList) -> Resources {
    let some = |list: ResourceList| (!list.is_empty()).then_some(list);
    Resources { requests: some(requests), limits: some(limits), claims: Vec::new() }
}
