//! How many peer-pod VMs a node offers, and what has to be written for it to do so.
//!
//! The amount comes from the Node's own annotation, else from the first configured selector that matches, else from the
//! default. An adaptor that says it owns the node is left alone.

use std::collections::BTreeMap;

use podwright_api::{config::CapacityConfig, keys};

use crate::node;

/// What there is to know about a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeOffer {
    /// The Node's labels.
    pub labels: BTreeMap<String, String>,
    /// The Node's annotations.
    pub annotations: BTreeMap<String, String>,
    /// VMs in `status.capacity`.
    pub capacity: Option<u64>,
    /// VMs in `status.allocatable`, which is what the scheduler counts with.
    pub allocatable: Option<u64>,
    /// Whether what is in the status was written by us.
    pub ours: bool,
}

/// What a node should offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// So many VMs.
    Vms(u64),
    /// None: nothing speaks of this node, or it has opted out.
    Nothing,
    /// It is the adaptor's: hands off.
    Adaptors,
    /// The annotation cannot be read: nothing is changed until it can.
    Unreadable {
        /// What it says.
        value: String,
    },
}

/// What has to be done about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Leave,
    /// Count the VMs that its pods hold, then ask again: its offer is about to shrink.
    Count,
    /// Write this offer.
    Offer {
        /// VMs to write as capacity and as allocatable.
        vms: u64,
        /// Whether it would be less, were it not for the pods that hold VMs. To be looked at again.
        held: bool,
    },
    /// Take our offer away.
    Withdraw,
    /// Stay as it is, because its pods hold all that it offers. To be looked at again.
    Hold,
}

/// What this node should offer.
#[must_use]
pub fn wanted(node: &NodeOffer, config: &CapacityConfig) -> Wanted {
    if node.annotations.contains_key(keys::ADAPTOR_OWNER) {
        return Wanted::Adaptors;
    }
    if let Some(value) = node.annotations.get(keys::NODE_VM_CAPACITY) {
        return match value.trim() {
            "off" => Wanted::Nothing,
            number => number
                .parse::<u32>()
                .map_or_else(|_| Wanted::Unreadable { value: value.clone() }, |vms| Wanted::Vms(vms.into())),
        };
    }
    let selected = config.nodes.iter().find(|entry| node::selects(&entry.selector, &node.labels));
    match selected.map(|entry| entry.vms).or(config.default) {
        Some(vms) => Wanted::Vms(vms.into()),
        None => Wanted::Nothing,
    }
}

/// What has to be done about this node. `in_use` is how many VMs its pods hold, if they have been counted.
#[must_use]
pub fn plan(node: &NodeOffer, config: &CapacityConfig, in_use: Option<u64>) -> Step {
    let (goal, withdraw) = match wanted(node, config) {
        Wanted::Vms(vms) => (vms, false),
        Wanted::Nothing if node.ours && node.capacity.is_some() => (0, true),
        Wanted::Nothing | Wanted::Adaptors | Wanted::Unreadable { .. } => return Step::Leave,
    };
    let offered = node.capacity.unwrap_or(0);
    let as_wanted = node.capacity == Some(goal) && node.allocatable == Some(goal);
    if as_wanted && !withdraw {
        return Step::Leave;
    }
    let floor = match in_use {
        _ if config.allow_below_use || goal >= offered => 0,
        None => return Step::Count,
        Some(count) => count.min(offered),
    };
    let held = floor > goal;
    let vms = goal.max(floor);
    if held && node.capacity == Some(vms) && node.allocatable == Some(vms) {
        return Step::Hold;
    }
    if withdraw && !held { Step::Withdraw } else { Step::Offer { vms, held } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeOffer {
        NodeOffer::default()
    }

    impl NodeOffer {
        fn offering(mut self, vms: u64) -> Self {
            self.capacity = Some(vms);
            self.allocatable = Some(vms);
            self.ours = true;
            self
        }

        fn annotated(mut self, key: &str, value: &str) -> Self {
            self.annotations.insert(key.to_owned(), value.to_owned());
            self
        }

        fn labelled(mut self, key: &str, value: &str) -> Self {
            self.labels.insert(key.to_owned(), value.to_owned());
            self
        }
    }

    fn config() -> CapacityConfig {
        serde_json::from_str(r#"{"default":10,"nodes":[{"selector":{"matchLabels":{"pool":"big"}},"vms":20},{"selector":{},"vms":15}]}"#)
            .unwrap()
    }

    fn by_default(vms: u32) -> CapacityConfig {
        CapacityConfig { default: Some(vms), ..CapacityConfig::default() }
    }

    #[test]
    fn the_annotation_comes_first_then_the_first_selector_then_the_default() {
        let big = node().labelled("pool", "big");
        assert_eq!(wanted(&big.clone().annotated(keys::NODE_VM_CAPACITY, "3"), &config()), Wanted::Vms(3));
        assert_eq!(wanted(&big, &config()), Wanted::Vms(20));
        assert_eq!(wanted(&node(), &config()), Wanted::Vms(15));
        assert_eq!(wanted(&node(), &by_default(10)), Wanted::Vms(10));
        assert_eq!(wanted(&node(), &CapacityConfig::default()), Wanted::Nothing);
    }

    #[test]
    fn a_node_at_its_wanted_offer_is_not_written_to() {
        assert_eq!(plan(&node().offering(10), &by_default(10), None), Step::Leave);
        assert_eq!(plan(&node(), &CapacityConfig::default(), None), Step::Leave);
    }

    #[test]
    fn a_node_that_a_kubelet_has_zeroed_gets_its_offer_back() {
        let mut zeroed = node().offering(0);
        zeroed.ours = false;
        assert_eq!(plan(&zeroed, &by_default(10), None), Step::Offer { vms: 10, held: false });
        let mut half = node().offering(10);
        half.allocatable = Some(0);
        assert_eq!(plan(&half, &by_default(10), None), Step::Offer { vms: 10, held: false });
    }

    #[test]
    fn an_offer_shrinks_only_as_far_as_its_pods_allow() {
        let node = node().offering(10);
        assert_eq!(plan(&node, &by_default(4), None), Step::Count);
        assert_eq!(plan(&node, &by_default(4), Some(2)), Step::Offer { vms: 4, held: false });
        assert_eq!(plan(&node, &by_default(4), Some(6)), Step::Offer { vms: 6, held: true });
        assert_eq!(plan(&node, &by_default(4), Some(10)), Step::Hold);
        assert_eq!(plan(&node, &by_default(4), Some(99)), Step::Hold, "never raised by what is in use");
        let forced = CapacityConfig { allow_below_use: true, ..by_default(4) };
        assert_eq!(plan(&node, &forced, None), Step::Offer { vms: 4, held: false });
    }

    #[test]
    fn a_node_that_opts_out_loses_our_offer_but_never_somebody_elses() {
        let out = node().offering(10).annotated(keys::NODE_VM_CAPACITY, "off");
        assert_eq!(plan(&out, &by_default(10), None), Step::Count);
        assert_eq!(plan(&out, &by_default(10), Some(0)), Step::Withdraw);
        assert_eq!(plan(&out, &by_default(10), Some(3)), Step::Offer { vms: 3, held: true });
        let foreign = NodeOffer { ours: false, ..out };
        assert_eq!(plan(&foreign, &by_default(10), Some(0)), Step::Leave);
        let zero = node().offering(0).annotated(keys::NODE_VM_CAPACITY, "off");
        assert_eq!(
            plan(&zero, &by_default(10), None),
            Step::Withdraw,
            "an offer of nothing goes without counting"
        );
    }

    #[test]
    fn an_adaptor_that_owns_the_node_is_left_alone() {
        let owned = node().offering(7).annotated(keys::ADAPTOR_OWNER, "uid");
        assert_eq!(plan(&owned, &by_default(10), None), Step::Leave);
    }

    #[test]
    fn an_annotation_that_is_no_number_changes_nothing() {
        for value in ["many", "-1", "1.5", ""] {
            let node = node().offering(7).annotated(keys::NODE_VM_CAPACITY, value);
            assert_eq!(wanted(&node, &config()), Wanted::Unreadable { value: value.to_owned() });
            assert_eq!(plan(&node, &config(), None), Step::Leave);
        }
    }
}
