//! How much of its node a pod gets: a template's percentages and bounds, applied to what the node can give.
//!
//! ```text
//! template + node ─→ share ─┬─ pod about to be created ─→ wanted ─→ patch (mutate::Sizing)
//!                           └─ pod that runs ──────────→ drift  ─→ nothing, resize in place, or recreate
//! ```

mod drift;
mod exempt;
mod figures;
mod record;
#[cfg(test)]
mod tests;
mod wanted;

use std::{collections::BTreeMap, fmt};

use podwright_api::flex::{FlexDaemonsetTemplateSpec, ManagedResource};

pub use drift::{ContainerResize, Drift, drift};
pub(crate) use exempt::is_peer_pod;
pub use figures::{InvalidTemplate, check};
pub use record::SizedBy;
pub use wanted::{Wanted, wanted};

use self::figures::Figures;
use crate::{
    node,
    pod::ResourceList,
    quantity::{Grain, Quantity},
};

/// What is known of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// `status.allocatable`: what its pods together may request.
    pub allocatable: ResourceList,
}

/// A template's share of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The node.
    pub node: String,
    /// Which of the template's overrides selects the node, by index.
    pub overridden: Option<usize>,
    /// The resources that are given out, in the order cpu, memory, ephemeral storage. One that the node does not have, or
    /// of which nothing is left after rounding, is not among them.
    pub resources: Vec<ResourceShare>,
}

/// The share of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceShare {
    /// Which.
    pub resource: ManagedResource,
    /// How much.
    pub amount: Quantity,
    /// Why so much.
    pub rule: Rule,
    /// What the node can give, if it says anything about this resource.
    pub allocatable: Option<Quantity>,
}

impl ResourceShare {
    /// Whether the node has less than that: a pod with this request is never scheduled to it.
    #[must_use]
    pub fn exceeds_node(&self) -> bool {
        self.allocatable.is_none_or(|allocatable| self.amount > allocatable)
    }
}

/// Why a share is as large as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It is so many percent of the node.
    Percentage(u32),
    /// The percentage would be less than the minimum.
    Minimum,
    /// The percentage, or the minimum, would be more than the maximum.
    Maximum,
    /// It would be more than the node has.
    Allocatable,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentage(percent) => write!(f, "{percent}%"),
            Self::Minimum => f.write_str("minimum"),
            Self::Maximum => f.write_str("maximum"),
            Self::Allocatable => f.write_str("allocatable"),
        }
    }
}

/// The step in which a resource is given out.
const fn grain(resource: ManagedResource) -> Grain {
    match resource {
        ManagedResource::Cpu => Grain::Milli,
        ManagedResource::Memory | ManagedResource::EphemeralStorage => Grain::Byte,
    }
}

/// What a template gives out on this node.
///
/// A template with anything wrong in it gives nothing on any node, so that a mistake shows at once and everywhere.
pub fn share(spec: &FlexDaemonsetTemplateSpec, node: &NodeFacts) -> Result<Share, InvalidTemplate> {
    check(spec)?;
    let overridden =
        spec.overrides.iter().position(|entry| node::selects(&entry.node_selector, &node.labels));
    let mut resources = Vec::new();
    for resource in ManagedResource::ALL.into_iter().filter(|resource| spec.manages(*resource)) {
        let figures = Figures::of(spec, overridden, resource)?;
        let allocatable = node.allocatable.get(resource.name()).copied();
        let (amount, rule) = figures.apply(allocatable, grain(resource), spec.cap_at_allocatable);
        if amount.is_positive() {
            resources.push(ResourceShare { resource, amount, rule, allocatable });
        }
    }
    Ok(Share { node: node.name.clone(), overridden, resources })
}
