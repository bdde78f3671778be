//! Places given to pods that have been admitted and are not seen yet, and the choice of the next place.
//!
//! The ledger stands in the rule's status, and every replica of the webhook writes it by compare-and-swap. A ticket counts as a
//! pod until the pod itself is seen. Replicas see a pod at different moments, so a ticket stays in the ledger for a while
//! after it has been used, and whoever has seen its pod no longer counts it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use podwright_api::distributor::{EntryState, Reserved, Strategy};

use super::{Rule, Sequence, Weights};

/// How long a ticket counts when its pod never appears, in milliseconds.
pub const LIFETIME: i64 = 30_000;
/// How long a ticket stays after its pod was seen, for replicas that have not seen it yet.
const LINGER: i64 = 3_000;
/// A pod that is not there so long after its ticket was given, while pods of later tickets are, has been refused by somebody
/// after us, such as a quota.
const REFUSED: i64 = 5_000;

/// A pod that asks for a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// What its ticket would be called.
    pub ticket: String,
    /// The revision that it belongs to.
    pub revision: String,
    /// The ticket that it says it has, from an earlier look at it.
    pub held: Option<String>,
}

/// A place for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The entry's index in the rule.
    pub entry: usize,
    /// The ticket.
    pub ticket: String,
    /// The deletion cost that keeps the ratio when the workload shrinks. None: it has one already, from an earlier look.
    pub cost: Option<i32>,
}

/// A place that has been given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// What stands in the pod's annotation.
    pub id: String,
    /// The revision of the pod.
    pub revision: String,
    /// The entry, by name.
    pub entry: String,
    /// When it was given, in milliseconds since 1970.
    pub at: i64,
}

/// All places that have been given lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    tickets: Vec<Ticket>,
}

/// What the choice rests on beside the ledger.
pub struct Scene<'s> {
    /// The rule.
    pub rule: &'s Rule,
    /// Its weights.
    pub weights: &'s Weights,
    /// The order in which its entries come.
    pub sequence: &'s mut Sequence,
    /// How many active pods of a revision each entry has.
    pub counts: &'s dyn Fn(&str) -> Vec<u64>,
    /// When the pod of a ticket was first seen, if it was, in milliseconds since 1970.
    pub seen: &'s dyn Fn(&str) -> Option<i64>,
    /// Milliseconds since 1970.
    pub now: i64,
}

impl Ledger {
    /// Reads it from a rule's status. What cannot be read has been written by somebody else and is passed over.
    #[must_use]
    pub fn read(reserved: &[Reserved]) -> Self {
        let tickets = reserved.iter().flat_map(|group| {
            group.tickets.iter().filter_map(|text| {
                let (id, at) = text.rsplit_once('@')?;
                Some(Ticket {
                    id: id.to_owned(),
                    revision: group.revision.clone(),
                    entry: group.entry.clone(),
                    at: at.parse().ok()?,
                })
            })
        });
        Self { tickets: tickets.collect() }
    }

    /// As it stands in a rule's status.
    #[must_use]
    pub fn write(&self) -> Vec<Reserved> {
        let mut groups: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
        for ticket in &self.tickets {
            let group = groups.entry((&ticket.revision, &ticket.entry)).or_default();
            group.push(format!("{}@{}", ticket.id, ticket.at));
        }
        let reserved = |((revision, entry), tickets): ((&str, &str), Vec<String>)| Reserved {
            revision: revision.to_owned(),
            entry: entry.to_owned(),
            tickets,
        };
        groups.into_iter().map(reserved).collect()
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// The names of all tickets.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.tickets.iter().map(|ticket| ticket.id.as_str())
    }

    /// How many places wait for a pod that has not been seen.
    pub fn outstanding(&self, seen: impl Fn(&str) -> Option<i64>) -> usize {
        self.tickets.iter().filter(|ticket| seen(&ticket.id).is_none()).count()
    }

    /// Writes down places that have been given without it.
    pub fn add(&mut self, tickets: &[Ticket]) {
        for ticket in tickets {
            if !self.ids().any(|id| id == ticket.id) {
                self.tickets.push(ticket.clone());
            }
        }
    }

    /// The tickets of these names.
    #[must_use]
    pub fn of(&self, ids: &[&str]) -> Vec<Ticket> {
        self.tickets.iter().filter(|ticket| ids.contains(&ticket.id.as_str())).cloned().collect()
    }

    /// When the next ticket can be taken out, in milliseconds since 1970.
    #[must_use]
    pub fn due(&self, seen: impl Fn(&str) -> Option<i64>) -> Option<i64> {
        let due = |ticket: &Ticket| seen(&ticket.id).map_or(ticket.at + LIFETIME, |since| since + LINGER);
        self.tickets.iter().map(due).min()
    }

    /// Takes out what no longer counts: tickets of pods that everybody has had time to see, of pods that have been refused, and
    /// of pods that never appeared.
    pub fn tidy(&mut self, seen: impl Fn(&str) -> Option<i64>, now: i64) {
        let latest_seen =
            self.tickets.iter().filter(|ticket| seen(&ticket.id).is_some()).map(|ticket| ticket.at).max();
        self.tickets.retain(|ticket| {
            if let Some(since) = seen(&ticket.id) {
                return now - since < LINGER;
            }
            let age = now - ticket.at;
            let overtaken = latest_seen.is_some_and(|latest| latest > ticket.at);
            // One from the future was given by a clock that is wrong, and would stay for as long as it is.
            age > -LIFETIME && age < if overtaken { REFUSED } else { LIFETIME }
        });
    }

    /// Gives each pod a place and writes its ticket down. None where no entry can ever take a pod.
    pub fn place(&mut self, asks: &[Ask], scene: &mut Scene<'_>) -> Vec<Option<Place>> {
        self.tidy(scene.seen, scene.now);
        let mut counts: HashMap<&str, Vec<u64>> = HashMap::new();
        asks.iter()
            .map(|ask| {
                if let Some(kept) = self.kept(ask, scene) {
                    return Some(kept);
                }
                let counts = counts.entry(&ask.revision).or_insert_with(|| self.counts(&ask.revision, scene));
                let entry = choose(scene.rule, scene.weights, counts)?;
                counts[entry] += 1;
                self.tickets.push(Ticket {
                    id: ask.ticket.clone(),
                    revision: ask.revision.clone(),
                    entry: scene.rule.entries()[entry].name(),
                    at: scene.now,
                });
                let position = scene.sequence.position(entry, counts[entry]);
                let cost = i32::try_from(position).map_or(i32::MIN, |position| -position);
                Some(Place { entry, ticket: ask.ticket.clone(), cost: Some(cost) })
            })
            .collect()
    }

    /// The place that the pod got when it was looked at before. One that carries the ticket of a pod that exists is a copy of that
    /// pod, and gets a place of its own.
    fn kept(&self, ask: &Ask, scene: &Scene<'_>) -> Option<Place> {
        let held = ask.held.as_ref().filter(|held| (scene.seen)(held).is_none())?;
        let ticket = self.tickets.iter().find(|ticket| ticket.id == *held)?;
        Some(Place { entry: scene.rule.entry(&ticket.entry)?, ticket: ticket.id.clone(), cost: None })
    }

    /// How many pods of a revision each entry has, with those on their way.
    fn counts(&self, revision: &str, scene: &Scene<'_>) -> Vec<u64> {
        let mut counts = (scene.counts)(revision);
        for ticket in self.tickets.iter().filter(|ticket| ticket.revision == revision) {
            if let Some(entry) =
                scene.rule.entry(&ticket.entry).filter(|_| (scene.seen)(&ticket.id).is_none())
            {
                counts[entry] += 1;
            }
        }
        counts
    }
}

/// Which entries take pods now, given how many each has: where pods spill, not those that have no nodes or no room, unless that
/// leaves none. One without nodes takes a pod now and then.
#[must_use]
pub fn open(rule: &Rule, counts: &[u64]) -> Vec<bool> {
    let all = vec![true; rule.entries().len()];
    if !rule.spills() {
        return all;
    }
    let is_open = |index: usize, name: &str| {
        let count = counts.get(index).copied().unwrap_or_default();
        let takes = |up_to: i32| u64::try_from(up_to).is_ok_and(|up_to| count < up_to);
        let known = rule.status.entries.iter().find(|entry| entry.entry == name);
        known.is_none_or(|entry| entry.state == EntryState::Open || entry.up_to.is_some_and(takes))
    };
    let entries = rule.entries().iter().enumerate();
    let open: Vec<bool> = entries.map(|(index, entry)| is_open(index, &entry.name())).collect();
    let usable = rule.entries().iter().zip(&open).any(|(entry, open)| *open && entry.weight > 0);
    if usable { open } else { all }
}

/// The entry of the next pod.
#[must_use]
pub fn choose(rule: &Rule, weights: &Weights, counts: &[u64]) -> Option<usize> {
    let open = open(rule, counts);
    match rule.spec.strategy {
        Strategy::LargestDeficit => weights.next(counts, |entry| open[entry]),
        Strategy::FirstFit => weights.first_fit(counts, |entry| open[entry]),
    }
}
