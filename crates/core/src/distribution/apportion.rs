//! Which entry gets the next pod.
//!
//! Entry `i` with the weight `w` of a total `W` should have `n·w/W` of `n` pods, which is seldom a whole number. Serving whoever
//! is furthest behind comes close, but with many entries it can stray by more than a pod on the way. Tijdeman's rule for the
//! chairman assignment problem does not: among those that would not get too far ahead, serve the one that would be late first.
//! All of it is in whole numbers, so that every replica reaches the same answer.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;

/// The weights of a rule's entries, of which at least one is above 0, without a common divisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    each: Vec<u32>,
    total: u64,
}

/// An entry that may take a pod.
struct Candidate {
    index: usize,
    weight: i128,
    count: i128,
}

/// The entries that may take a pod, and what they sum to.
struct Field {
    candidates: Vec<Candidate>,
    total: i128,
    pods: i128,
}

impl Weights {
    /// None if all are 0.
    #[must_use]
    pub fn new(weights: &[u32]) -> Option<Self> {
        let divisor = weights.iter().copied().fold(0, gcd);
        if divisor == 0 {
            return None;
        }
        let each: Vec<u32> = weights.iter().map(|weight| weight / divisor).collect();
        let total = each.iter().copied().map(u64::from).sum();
        Some(Self { each, total })
    }

    /// How many entries there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is always an entry")]
    pub const fn len(&self) -> usize {
        self.each.len()
    }

    /// The sum of the weights.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The weight of an entry, 0 if there is no such entry.
    #[must_use]
    pub fn of(&self, entry: usize) -> u32 {
        self.each.get(entry).copied().unwrap_or_default()
    }

    /// The entry for one more pod, given how many each has. None if no entry that is open has a weight.
    ///
    /// Entries that are closed, or have the weight 0, do not take part: neither their weights nor their pods count, so the others
    /// share in proportion. From nothing, each is always less than one pod away from its share. From any other counts, as
    /// deletions leave them, the one that is furthest behind is served until that holds again. Of equals, the first in the list.
    #[must_use]
    pub fn next(&self, counts: &[u64], open: impl Fn(usize) -> bool) -> Option<usize> {
        let field = self.field(counts, open);
        if !field.is_settled() {
            return field
                .candidates
                .iter()
                .min_by_key(|one| Reverse(field.deficit(one)))
                .map(|one| one.index);
        }
        // With k entries, nobody is ever more than 1 - 1/(2k-2) of a pod away from its share.
        let slack = i128::try_from(field.candidates.len())
            .unwrap_or(i128::MAX)
            .saturating_mul(2)
            .saturating_sub(2)
            .max(1);
        let grace = |one: &Candidate| (slack - 1) * field.total - slack * field.deficit(one);
        field
            .candidates
            .iter()
            .filter(|one| slack * field.deficit(one) >= field.total)
            .min_by(|one, other| (grace(one) * other.weight).cmp(&(grace(other) * one.weight)))
            .map(|one| one.index)
    }

    /// The first entry in the list whose share of the pods is not above its weight. One always is while any is open.
    #[must_use]
    pub fn first_fit(&self, counts: &[u64], open: impl Fn(usize) -> bool) -> Option<usize> {
        let field = self.field(counts, open);
        field
            .candidates
            .iter()
            .find(|one| one.count * field.total <= one.weight * field.pods)
            .map(|one| one.index)
    }

    fn field(&self, counts: &[u64], open: impl Fn(usize) -> bool) -> Field {
        let candidates: Vec<Candidate> = self
            .each
            .iter()
            .enumerate()
            .filter(|(index, weight)| **weight > 0 && open(*index))
            .map(|(index, weight)| Candidate {
                index,
                weight: i128::from(*weight),
                count: i128::from(counts.get(index).copied().unwrap_or_default()),
            })
            .collect();
        let total = candidates.iter().map(|one| one.weight).sum();
        let pods = candidates.iter().map(|one| one.count).sum();
        Field { candidates, total, pods }
    }
}

impl Field {
    /// How far an entry falls behind once there is one pod more, if it does not get it; in pods, times the total.
    const fn deficit(&self, one: &Candidate) -> i128 {
        one.weight * (self.pods + 1) - one.count * self.total
    }

    /// Whether all are less than one pod away from their share.
    fn is_settled(&self) -> bool {
        self.candidates.iter().all(|one| (one.weight * self.pods - one.count * self.total).abs() < self.total)
    }
}

/// The order in which entries get pods, from nothing: what the first `n` of it come to is what `n` pods should look like.
///
/// It is worked out as far as somebody asks, and repeats itself when every entry has had its weight in pods.
#[derive(Clone, Debug)]
pub struct Sequence {
    weights: Weights,
    period: u64,
    /// The entry of each step so far.
    steps: Vec<usize>,
    /// The steps, from 1, at which each entry gets a pod.
    turns: Vec<Vec<u64>>,
}

impl Sequence {
    /// Later than every turn that counts: for an entry that never gets one.
    pub const NEVER: u64 = 1 << 24;

    /// Weights that sum to more than this are followed so far only. The order then repeats itself a little early.
    const LONGEST: u64 = 1 << 16;

    /// Nothing is worked out yet.
    #[must_use]
    pub fn new(weights: &Weights) -> Self {
        Self {
            weights: weights.clone(),
            period: weights.total().min(Self::LONGEST),
            steps: Vec::new(),
            turns: vec![Vec::new(); weights.len()],
        }
    }

    /// The weights that it follows.
    #[must_use]
    pub const fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The entry of the pod that comes after `n` others.
    pub fn entry_at(&mut self, n: u64) -> usize {
        let step = n % self.period;
        self.extend(step + 1);
        usize::try_from(step).ok().and_then(|step| self.steps.get(step)).copied().unwrap_or_default()
    }

    /// How many of the first `n` pods each entry gets.
    pub fn prefix(&mut self, n: u64) -> Vec<u64> {
        let (rounds, rest) = (n / self.period, n % self.period);
        self.extend(if rounds > 0 { self.period } else { rest });
        let among = |turns: &Vec<u64>| turns.partition_point(|turn| *turn <= rest) as u64;
        self.turns.iter().map(|turns| rounds * turns.len() as u64 + among(turns)).collect()
    }

    /// Which pod of all is the `nth` of this entry, both counted from 1. [`Self::NEVER`] if it gets none, or only later than that.
    pub fn position(&mut self, entry: usize, nth: u64) -> u64 {
        let before = nth.saturating_sub(1);
        while self.turn(entry, before).is_none() && (self.steps.len() as u64) < self.period {
            // Twice as far each time, so that asking for one after another costs no more than asking for the last.
            self.extend((self.steps.len() as u64 * 2).max(64));
        }
        if let Some(turn) = self.turn(entry, before) {
            return turn.min(Self::NEVER);
        }
        // All of the period is known now.
        let each = self.turns.get(entry).map_or(0, |turns| turns.len() as u64);
        if each == 0 {
            return Self::NEVER;
        }
        let round = (before / each).saturating_mul(self.period);
        self.turn(entry, before % each)
            .map_or(Self::NEVER, |turn| round.saturating_add(turn).min(Self::NEVER))
    }

    fn turn(&self, entry: usize, before: u64) -> Option<u64> {
        self.turns.get(entry)?.get(usize::try_from(before).ok()?).copied()
    }

    fn extend(&mut self, steps: u64) {
        let mut counts: Vec<u64> = self.turns.iter().map(|turns| turns.len() as u64).collect();
        for step in self.steps.len() as u64 + 1..=steps.min(self.period) {
            let Some(entry) = self.weights.next(&counts, |_| true) else { return };
            counts[entry] += 1;
            self.steps.push(entry);
            self.turns[entry].push(step);
        }
    }
}

const fn gcd(one: u32, other: u32) -> u32 {
    let (mut one, mut other) = (one, other);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}
