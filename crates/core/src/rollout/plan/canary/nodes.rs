//! Where a trial runs: few nodes, in good health, and as different from each other as the user asks for.

use std::{cmp::Reverse, collections::BTreeMap};

use podwright_api::eds::{CanaryStatus, EffectiveCanary};

use super::super::{
    census::{Census, Resident},
    observed::{NodeFacts, Observed, ReplicaSetFacts},
    slots,
};
use crate::node::{self, Fit};

/// What the choice is made from.
pub(super) struct Choice<'a, 'o> {
    pub(super) seen: &'o Observed,
    pub(super) census: &'a Census<'o>,
    pub(super) active: &'o ReplicaSetFacts,
    pub(super) newest: &'o ReplicaSetFacts,
    pub(super) strategy: &'a EffectiveCanary,
    /// Whether nodes may be added.
    pub(super) grows: bool,
}

/// The choice.
pub(super) struct Chosen {
    pub(super) nodes: Vec<String>,
    /// How many there should be.
    pub(super) wanted: usize,
    pub(super) seed: String,
}

/// A node that could take part.
struct Candidate<'o> {
    node: &'o NodeFacts,
    /// The bucket that it is in by the anti-affinity keys, and the stratum by the keys to spread by.
    bucket: usize,
    stratum: usize,
    /// The smaller the better.
    merit: (bool, u32, u64),
    taken: bool,
}

/// Nothing changes.
pub(super) fn as_stored(stored: &CanaryStatus) -> Chosen {
    Chosen { nodes: stored.nodes.clone(), wanted: stored.nodes.len(), seed: stored.seed.clone() }
}

impl<'o> Choice<'_, 'o> {
    pub(super) fn choose(&self, stored: &CanaryStatus) -> Chosen {
        // Of the nodes that the version which runs has, not of a figure that was stored once.
        let everywhere = self
            .census
            .iter()
            .filter(|(node, _)| slots::fit(node, self.active, &self.active.selector) == Fit::Run);
        let wanted = self.strategy.replicas.of(everywhere.count());
        let seed = if self.strategy.spread_by.is_empty() {
            String::new()
        } else if stored.seed.is_empty() {
            self.newest.template_generation.clone()
        } else {
            stored.seed.clone()
        };
        let mut nodes = self.keep(&stored.nodes, wanted);
        if self.grows && nodes.len() < wanted {
            self.add(&mut nodes, wanted, &seed);
        }
        Chosen { nodes, wanted, seed }
    }

    /// Those of the chosen nodes that are still good for it, where it runs already before others.
    fn keep(&self, stored: &[String], wanted: usize) -> Vec<String> {
        let mut kept: Vec<(bool, usize, &String)> = Vec::new();
        for (place, name) in stored.iter().enumerate() {
            let Some((node, residents)) = self.census.node(name) else {
                continue;
            };
            let runs = residents.iter().any(|resident| super::is_of(resident.facts(), self.newest));
            let fit = self.fit(node);
            if node::selects(&self.strategy.node_selector, &node.labels)
                && (fit == Fit::Run || (fit == Fit::Stay && runs))
            {
                kept.push((!runs, place, name));
            }
        }
        if kept.len() > wanted {
            kept.sort_unstable();
            kept.truncate(wanted);
            kept.sort_unstable_by_key(|(_, place, _)| *place);
        }
        kept.into_iter().map(|(_, _, name)| name.clone()).collect()
    }

    fn fit(&self, node: &NodeFacts) -> Fit {
        slots::fit(node, self.newest, &self.seen.set.selector)
    }

    /// Takes node after node: from the bucket that has the fewest, for the stratum that is represented worst, the one with the
    /// fewest restarts.
    fn add(&self, nodes: &mut Vec<String>, wanted: usize, seed: &str) {
        let mut buckets = Groups::default();
        let mut strata = Groups::default();
        let mut candidates: Vec<Candidate<'o>> = Vec::new();
        for (node, residents) in self.census.iter() {
            if self.fit(node) != Fit::Run || !node::selects(&self.strategy.node_selector, &node.labels) {
                continue;
            }
            let bucket = buckets.enter(values(node, &self.strategy.anti_affinity_keys));
            let stratum = strata.enter(values(node, &self.strategy.spread_by));
            let taken = nodes.contains(&node.name);
            if taken {
                buckets.chosen[bucket] += 1;
                strata.chosen[stratum] += 1;
            }
            let merit = (!node.ready, restarts(residents), order(seed, &node.name));
            candidates.push(Candidate { node, bucket, stratum, merit, taken });
        }
        while nodes.len() < wanted {
            let free = candidates.iter_mut().filter(|candidate| !candidate.taken);
            let Some(best) = free.min_by(|one, other| {
                let key = |candidate: &Candidate<'_>| {
                    (buckets.chosen[candidate.bucket], strata.need(candidate.stratum))
                };
                key(one).cmp(&key(other)).then_with(|| one.merit.cmp(&other.merit))
            }) else {
                break;
            };
            best.taken = true;
            buckets.chosen[best.bucket] += 1;
            strata.chosen[best.stratum] += 1;
            nodes.push(best.node.name.clone());
        }
    }
}

/// Nodes in groups by values of labels.
#[derive(Default)]
struct Groups {
    names: BTreeMap<String, usize>,
    members: Vec<u64>,
    chosen: Vec<u64>,
}

impl Groups {
    fn enter(&mut self, name: String) -> usize {
        let next = self.members.len();
        let group = *self.names.entry(name).or_insert(next);
        if group == next {
            self.members.push(0);
            self.chosen.push(0);
        }
        self.members[group] += 1;
        group
    }

    /// How badly a group needs another, by the highest averages of Sainte-Laguë, the neediest first: so each group comes to
    /// have its share, whatever the number chosen.
    fn need(&self, group: usize) -> Reverse<u64> {
        Reverse((self.members[group] << 32) / (2 * self.chosen[group] + 1))
    }
}

/// The values of labels, as one text. A label that is missing is an empty value.
fn values(node: &NodeFacts, keys: &[String]) -> String {
    let values: Vec<&str> = keys.iter().map(|key| node.labels.get(key).map_or("", String::as_str)).collect();
    values.join("$")
}

/// How often the set's containers have restarted on a node.
fn restarts(residents: &[Resident<'_>]) -> u32 {
    residents.iter().map(|resident| resident.facts().restarts).fold(0, u32::saturating_add)
}

/// The place of a node among equals: by name, or mixed by the seed if there is one.
fn order(seed: &str, name: &str) -> u64 {
    if seed.is_empty() {
        return 0;
    }
    // FNV-1a, and a last stir, because names differ mostly at their end.
    let hash = seed.bytes().chain([0]).chain(name.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_joined_as_with_the_go_controller() {
        let labels = [("app", "foo"), ("service", "bar")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let node = NodeFacts { labels, ..NodeFacts::default() };
        let keys = ["app", "missing", "service"].map(str::to_owned);
        assert_eq!(values(&node, &keys), "foo$$bar");
    }
}
