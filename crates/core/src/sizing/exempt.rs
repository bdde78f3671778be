//! What sizing leaves alone on a pod that it is asked for.

use podwright_api::{flex::ManagedResource, keys};

use super::SizedBy;
use crate::{
    pod::{Container, DaemonOwner, PodView},
    rollout::overrides::overridden_containers,
};

/// Whether the pod's resources have moved to a VM of its own: nothing is left to be sized.
pub(crate) fn is_peer_pod(pod: &PodView) -> bool {
    pod.annotation(keys::PEER_POD_RECORD).is_some()
}

/// The containers that keep what they have, because an ExtendedDaemonSet's own override for this node set it.
///
/// Our own rollouts say for which containers. The pods of other controllers only say that there are overrides, so every
/// container that asks for anything is taken to be overridden. Only before we have sized it can that be seen; after that, our
/// own record tells.
pub(super) fn kept(pod: &PodView) -> Vec<String> {
    let extended = matches!(pod.daemon_owner(), Some(DaemonOwner::ExtendedReplicaSet(_)));
    let overridden =
        pod.annotation(keys::EDS_NODE_OVERRIDES).is_some() || pod.label(keys::EDS_SETTING).is_some();
    if !extended || !overridden {
        return Vec::new();
    }
    if let Some(record) = SizedBy::of(pod) {
        return record.kept;
    }
    if let Some(names) = pod.annotation(keys::EDS_POD_OVERRIDES).and_then(overridden_containers) {
        return names;
    }
    let asks = |container: &&Container| {
        let resources = container.resources.as_ref();
        resources.is_some_and(|all| {
            all.names().any(|name| ManagedResource::ALL.iter().any(|one| one.name() == name))
        })
    };
    pod.spec.containers.iter().filter(asks).map(|container| container.name.clone()).collect()
}
