//! Who is where: nodes by name, and on each the pods that concern us.

use super::observed::{Controller, NodeFacts, Observed, ObservedPod, PodFacts, PodOwner};

/// Nodes in the order of their names, whatever order they came in, with their pods.
pub(super) struct Census<'o> {
    nodes: Vec<&'o NodeFacts>,
    /// Pods by node; those of `nodes[i]` are `pods[starts[i]..starts[i + 1]]`.
    pods: Vec<Resident<'o>>,
    starts: Vec<usize>,
    /// Pods of nodes that are not there.
    pub(super) homeless: Vec<Resident<'o>>,
}

/// A pod that concerns us.
#[derive(Clone, Copy)]
pub(super) struct Resident<'o> {
    pub(super) pod: &'o ObservedPod,
    pub(super) tie: Tie,
}

/// What ties a pod to us.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tie {
    /// A replica set of ours owns it, by its place among those observed.
    Owned(usize),
    /// It comes from before us: an old DaemonSet's, or nobody's with our label. Whatever it was made from, it is outdated.
    Inherited,
    /// A replica set owns it that is not known (yet, or any more). It fills its node and is left alone.
    Strange,
}

impl<'o> Resident<'o> {
    pub(super) fn facts(&self) -> &'o PodFacts {
        &self.pod.facts
    }

    /// Whether a deletion may be asked for: it exists, is ours, and has not been asked to go yet.
    pub(super) fn can_go(&self) -> bool {
        let facts = self.facts();
        self.tie != Tie::Strange && !facts.uid.is_empty() && facts.deleting.is_none()
    }
}

impl<'o> Census<'o> {
    pub(super) fn take(seen: &'o Observed) -> Self {
        let mut nodes: Vec<&NodeFacts> = seen.nodes.iter().map(AsRef::as_ref).collect();
        nodes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let mut placed: Vec<(usize, Resident<'o>)> = Vec::with_capacity(seen.pods.len());
        let mut homeless = Vec::new();
        for pod in &seen.pods {
            let (Some(tie), Some(node)) = (tie(seen, pod), pod.facts.node.as_deref()) else {
                continue;
            };
            let resident = Resident { pod, tie };
            match nodes.binary_search_by(|known| known.name.as_str().cmp(node)) {
                Ok(index) => placed.push((index, resident)),
                Err(_) => homeless.push(resident),
            }
        }
        placed.sort_unstable_by(|(at, one), (there, other)| {
            at.cmp(there).then_with(|| one.facts().name.cmp(&other.facts().name))
        });
        homeless.sort_unstable_by(|one, other| one.facts().name.cmp(&other.facts().name));
        let mut starts = vec![0; nodes.len() + 1];
        for (index, _) in &placed {
            starts[index + 1] += 1;
        }
        for index in 0..nodes.len() {
            starts[index + 1] += starts[index];
        }
        Self { nodes, pods: placed.into_iter().map(|(_, resident)| resident).collect(), starts, homeless }
    }

    /// Every node with its pods.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'o NodeFacts, &[Resident<'o>])> {
        self.nodes
            .iter()
            .zip(self.starts.windows(2))
            .map(|(node, range)| (*node, &self.pods[range[0]..range[1]]))
    }

    /// Every pod that concerns us, wherever it is.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Resident<'o>> {
        self.pods.iter().chain(&self.homeless)
    }

    /// A node by its name, with its pods.
    pub(super) fn node(&self, name: &str) -> Option<(&'o NodeFacts, &[Resident<'o>])> {
        let index = self.nodes.binary_search_by(|known| known.name.as_str().cmp(name)).ok()?;
        Some((self.nodes[index], &self.pods[self.starts[index]..self.starts[index + 1]]))
    }
}

/// Nothing, if it is none of our business.
fn tie(seen: &Observed, pod: &ObservedPod) -> Option<Tie> {
    match &pod.facts.owner {
        PodOwner::ReplicaSet(uid) => {
            match seen.replica_sets.iter().position(|replica_set| replica_set.uid == *uid) {
                Some(index) if seen.replica_sets[index].controller == Controller::Another => None,
                Some(index) => Some(Tie::Owned(index)),
                None => Some(Tie::Strange),
            }
        }
        PodOwner::DaemonSet(uid) => {
            seen.old_daemon_set.as_ref().is_some_and(|old| old == uid).then_some(Tie::Inherited)
        }
        PodOwner::Nobody => Some(Tie::Inherited),
        PodOwner::Another => None,
    }
}
