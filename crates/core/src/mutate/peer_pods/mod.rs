//! Peer pods: a pod that runs in a VM of its own is charged to its node as one VM, not by its cpu and memory.
//!
//! The containers' resources size the VM (annotations that the cloud adaptor reads), then leave the containers; the
//! first container gets one unit of the VM resource. A record of what the containers had asked for is kept on the pod,
//! so that a second invocation, after somebody else has changed the pod, counts each container once:
//!
//! ```text
//! containers ─┬─ recorded: by the record ─┐
//!             └─ new: by what it asks ────┴─ size ─→ annotations     resources ─→ what the mode leaves + one VM
//! ```

mod account;
mod downward;
mod record;
mod report;
mod resources;
mod size;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use json_patch::jsonptr::Token;
use podwright_api::{
    Feature,
    config::{DownwardApi, PeerPodsConfig, PeerPodsMode, VmSizing},
    keys,
};

use self::{account::Accounts, record::Record, size::VmSize};
use super::{Ask, Facts, Mutator, Outcome, Request, Review};
use crate::{
    pod::{PatchBuilder, PodView},
    quantity::{BadQuantity, Quantity},
};

const CPU: &str = "cpu";
const MEMORY: &str = "memory";

/// The mutator of peer pods.
#[derive(Clone, Debug)]
pub struct PeerPods {
    runtime_classes: BTreeSet<String>,
    resource: String,
    leaves: Leaves,
    sizing: VmSizing,
    override_annotations: bool,
    devices: BTreeMap<String, String>,
    keep: BTreeSet<String>,
    downward_api: DownwardApi,
}

/// What is left of a container's requests.
#[derive(Clone, Copy, Debug)]
enum Leaves {
    Nothing,
    AtMost { cpu: Quantity, memory: Quantity },
}

impl Leaves {
    /// The largest request that may stay.
    fn request(self, resource: &str) -> Quantity {
        match self {
            Self::AtMost { cpu, .. } if resource == CPU => cpu,
            Self::AtMost { memory, .. } if resource == MEMORY => memory,
            Self::AtMost { .. } | Self::Nothing => Quantity::ZERO,
        }
    }
}

/// An amount in the configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadAmount {
    /// Not a quantity.
    #[error("peerPods.shrinkTo.{key}: {source}")]
    Unreadable {
        /// Which of the two.
        key: &'static str,
        /// What is wrong with it.
        source: BadQuantity,
    },
    /// Zero or less.
    #[error("peerPods.shrinkTo.{key}: must be more than zero; to leave no requests at all, use mode: strip")]
    NotPositive {
        /// Which of the two.
        key: &'static str,
    },
}

impl PeerPods {
    /// Reads the configuration.
    pub fn new(config: &PeerPodsConfig) -> Result<Self, BadAmount> {
        let amount = |key: &'static str, text: &str| match text.parse::<Quantity>() {
            Ok(amount) if amount.is_positive() => Ok(amount),
            Ok(_) => Err(BadAmount::NotPositive { key }),
            Err(source) => Err(BadAmount::Unreadable { key, source }),
        };
        let leaves = match config.mode {
            PeerPodsMode::Strip => Leaves::Nothing,
            PeerPodsMode::Shrink => Leaves::AtMost {
                cpu: amount(CPU, &config.shrink_to.cpu)?,
                memory: amount(MEMORY, &config.shrink_to.memory)?,
            },
        };
        Ok(Self {
            runtime_classes: config.runtime_classes.iter().cloned().collect(),
            resource: config.resource.clone(),
            leaves,
            sizing: config.sizing,
            override_annotations: config.override_annotations,
            devices: config.devices.clone(),
            keep: config.keep.iter().cloned().collect(),
            downward_api: config.downward_api,
        })
    }

    fn create(&self, pod: &PodView) -> Outcome {
        let accounts = Accounts::of(pod, self);
        let size = VmSize::of(&accounts, self);
        let mut patch = PatchBuilder::default();

        let annotations = self.annotations(pod, &accounts, &size);
        let at = crate::pod::pointer([Token::new("metadata"), Token::new("annotations")]);
        patch.merge(&at, pod.metadata.annotations.as_ref(), annotations.entries);
        resources::patch(&mut patch, pod, &accounts, self);
        if self.downward_api == DownwardApi::Literal {
            downward::make_literal(&mut patch, &accounts);
        }

        let patch = patch.finish();
        if patch.is_empty() {
            return Outcome { concerned: true, ..Outcome::default() };
        }
        Outcome {
            concerned: true,
            patch,
            warnings: report::warnings(pod, &accounts, &size, &annotations.replaced, self),
            denial: None,
            audit: BTreeMap::from([("peer-pod-vm", size.to_string())]),
        }
    }

    /// The sizing annotations and the record, and which of the user's own were replaced.
    fn annotations(&self, pod: &PodView, accounts: &Accounts<'_>, size: &VmSize) -> Annotations {
        let mut written = BTreeMap::new();
        let mut replaced = Vec::new();
        for (key, value) in size.annotations() {
            let users = pod.annotation(key).filter(|current| accounts.wrote(key) != Some(*current));
            match users {
                Some(_) if !self.override_annotations => continue,
                Some(current) if current != value => replaced.push(format!("{key}={current}")),
                _ => {}
            }
            written.insert(key.to_owned(), value);
        }
        let record = Record::new(accounts, written.clone());
        written.insert(keys::PEER_POD_RECORD.to_owned(), record.to_string());
        Annotations { entries: written, replaced }
    }

    /// A running peer pod's containers may not come to weigh on the node.
    fn resize(&self, pod: &PodView) -> Outcome {
        let spec = &pod.spec;
        let all =
            spec.containers.iter().chain(&spec.init_containers).filter_map(|one| one.resources.as_ref());
        let heavy = all.chain(&spec.resources).any(|resources| {
            [CPU, MEMORY]
                .into_iter()
                .filter(|name| !self.keep.contains(*name))
                .any(|name| resources.request(name) > self.leaves.request(name))
        });
        if !heavy {
            return Outcome { concerned: true, ..Outcome::default() };
        }
        Outcome::denied(
            "this pod runs in a VM of its own (peer pod), whose size is fixed when it starts; a resize in place would charge \
             its cpu and memory to the node instead. Delete the pod and create it with the new resources",
        )
    }
}

struct Annotations {
    entries: BTreeMap<String, String>,
    replaced: Vec<String>,
}

impl Mutator for PeerPods {
    fn feature(&self) -> Feature {
        Feature::PeerPods
    }

    fn review(&self, request: &Request<'_>, pod: &PodView, _: &Facts) -> Review {
        let class = pod.spec.runtime_class_name.as_deref();
        if class.is_none_or(|class| !self.runtime_classes.contains(class)) || pod.spec.containers.is_empty() {
            return Review::Done(Outcome::skipped());
        }
        Review::Done(match request.ask {
            Ask::Create => self.create(pod),
            Ask::Resize => self.resize(pod),
        })
    }
}
