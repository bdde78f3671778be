//! Pods that admission has not marked: those that stay get their mark now, and those that it leaves alone are named.

use super::{Adoption, removals::Scene};
use crate::distribution::{Mark, Member, rule::Contradiction};

impl Scene<'_> {
    /// Pods without a mark that are in an entry and may stay there. Whoever slipped by where there are too many waits until that
    /// is repaired.
    pub(super) fn adoptions(&self) -> Vec<Adoption> {
        if !self.is_settled {
            return Vec::new();
        }
        let tally = self.tally();
        let stays = |member: &Member, entry: usize| {
            !self.has_slipped_by(member) || self.repaired_to(&tally, Some(entry), false).is_none()
        };
        let unmarked = self.placed.iter().filter(|(member, _)| member.mark.is_none());
        unmarked
            .filter_map(|(member, entry)| Some((*member, (*entry)?)))
            .filter(|(member, entry)| self.contradiction(member).is_none() && stays(member, *entry))
            .map(|(member, entry)| Adoption {
                name: member.name.clone(),
                uid: member.uid.clone(),
                mark: Mark {
                    rule: self.rule.name.clone(),
                    entry: self.allocation.entries[entry].name.clone(),
                    ticket: String::new(),
                },
            })
            .collect()
    }

    /// Why admission leaves such a pod alone, and why to remove it would be of no use: its successor would be the same.
    pub(super) fn contradiction<'c>(&'c self, member: &'c Member) -> Option<Contradiction<'c>> {
        self.rule.contradiction(&member.node_selector, member.mark.as_ref())
    }

    /// What is to be said of pods that are left alone.
    pub(super) fn left_alone(&self) -> Option<String> {
        let those = self.placed.iter().filter_map(|(member, _)| Some((*member, self.contradiction(member)?)));
        let (example, Contradiction { key, value, entry }) =
            those.clone().min_by_key(|(member, _)| &member.name)?;
        let (name, entry) = (&example.name, entry.name());
        let who = match those.count() {
            1 => format!("pod {name} is left alone"),
            pods => format!("{pods} pods are left alone, such as {name}"),
        };
        Some(format!(
            "{who}: its own nodeSelector has {key}={value}, but the rule also sends pods to {entry}; take {key} out of the \
             nodeSelector, or the workload out of the rule"
        ))
    }
}
