//! In which order nodes get their turn: those without a working pod first, then zone by zone.

use std::collections::BTreeMap;

use super::slots::Slot;

const ZONES: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];

/// The zone that a node is in; nothing is a zone of its own.
fn zone<'s>(slot: &Slot<'s>) -> &'s str {
    ZONES.iter().find_map(|key| slot.node.labels.get(*key)).map_or("", String::as_str)
}

/// Nodes without a working pod, by zone.
pub(super) fn burden<'s>(slots: &[Slot<'s>]) -> BTreeMap<&'s str, usize> {
    let mut burden = BTreeMap::new();
    for slot in slots.iter().filter(|slot| slot.wanted() && !slot.standing.available()) {
        *burden.entry(zone(slot)).or_default() += 1;
    }
    burden
}

/// The slots in an order in which any number of them, taken from the front, burdens the zones alike. They come in the order
/// of their names, which settles ties.
pub(super) fn spread<'a, 's>(
    chosen: impl Iterator<Item = &'a Slot<'s>>,
    mut burden: BTreeMap<&'s str, usize>,
) -> Vec<&'a Slot<'s>> {
    let mut ranked: Vec<(usize, &str, &Slot<'s>)> = chosen
        .map(|slot| {
            let zone = zone(slot);
            let rank = burden.entry(zone).or_default();
            *rank += 1;
            (*rank, zone, slot)
        })
        .collect();
    ranked.sort_by_key(|(rank, zone, _)| (*rank, *zone));
    ranked.into_iter().map(|(_, _, slot)| slot).collect()
}
