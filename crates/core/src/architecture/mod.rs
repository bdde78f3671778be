//! Where a pod's images can run: a function of what each offers and of which kinds of node there are.
//!
//! ```text
//! images ─→ platforms of each ─┐
//! nodes, configuration ─→ kinds ┴─ the kinds that all images run on ─→ anywhere | within these alternatives | nowhere
//! ```
//!
//! Kinds of node, not names of architectures, are what is intersected: so variants, operating systems and Windows builds
//! need no rules of their own, and nothing is ever assumed of an image that does not say.

mod compatibility;
mod diagnosis;
mod kinds;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use podwright_api::keys;

pub(crate) use self::rules::is_arch_label;
pub use self::{
    diagnosis::{CrashingContainer, diagnose},
    kinds::{Census, ClusterPlatforms, NodeKind},
    rules::{BadPreference, Rules, preferences},
};
use crate::image::Platforms;

/// What an image offers.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The image as the pod names it.
    pub image: &'a str,
    /// What it is built for.
    pub platforms: &'a Platforms,
}

/// Labels with the values that they may have. All must hold.
pub type Requirements = BTreeMap<String, BTreeSet<String>>;

/// Where a pod can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On every node: these are the architectures.
    Anywhere(BTreeSet<String>),
    /// On nodes that fulfil one of these alternatives.
    Within {
        /// One of these must hold; there is at least one.
        alternatives: Vec<Requirements>,
        /// The architectures, all alternatives together.
        architectures: BTreeSet<String>,
        /// Whether no node of the cluster is such a one.
        absent: bool,
    },
    /// Nowhere: there is no platform that all images offer and that nodes are of.
    Nowhere,
}

/// What the pod itself says about its operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct AskedOs<'a> {
    /// By its node selector, which the scheduler heeds.
    pub selected: Option<&'a str>,
    /// By `spec.os`, which the scheduler does not look at.
    pub declared: Option<&'a str>,
}

/// Where a pod with these images can run.
#[must_use]
pub fn place(offers: &[Offer<'_>], cluster: &ClusterPlatforms, rules: &Rules, os: AskedOs<'_>) -> Placement {
    let all = rules.kinds(cluster);
    let wanted = |kind: &NodeKind| {
        os.selected.is_none_or(|os| kind.os == os) && os.declared.is_none_or(|os| kind.os == os)
    };
    let runs = |kind: &NodeKind| runs_everywhere(offers, kind, rules);
    let candidates: BTreeSet<NodeKind> = all.iter().filter(|kind| wanted(kind)).cloned().collect();
    let allowed: BTreeSet<NodeKind> = candidates.iter().filter(|kind| runs(kind)).cloned().collect();
    let many_os = |kinds: &mut dyn Iterator<Item = &NodeKind>| {
        os.selected.is_none() && kinds.map(|kind| &kind.os).collect::<BTreeSet<_>>().len() > 1
    };
    if !allowed.is_empty() {
        let alternatives = alternatives(&allowed, &candidates, many_os(&mut all.iter()), rules);
        let architectures = architectures(&allowed);
        if alternatives.iter().any(BTreeMap::is_empty)
            || (allowed == all && !rules.any_labels(&architectures))
        {
            return Placement::Anywhere(architectures);
        }
        return Placement::Within { alternatives, architectures, absent: false };
    }
    // A node that is not there yet may come; one that is there and does not fit never will.
    let offered: BTreeSet<NodeKind> = offers
        .iter()
        .flat_map(|offer| offer.platforms)
        .map(NodeKind::for_platform)
        .filter(|kind| wanted(kind) && !all.contains(kind) && runs_somewhere(kind, offers))
        .collect();
    if offered.is_empty() {
        return Placement::Nowhere;
    }
    let many_os = many_os(&mut all.iter().chain(&offered));
    let alternatives = alternatives(&offered, &BTreeSet::new(), many_os, rules);
    Placement::Within { alternatives, architectures: architectures(&offered), absent: true }
}

/// Whether all images run on such a node.
pub(crate) fn runs_everywhere(offers: &[Offer<'_>], kind: &NodeKind, rules: &Rules) -> bool {
    let variant = rules.variant(&kind.architecture);
    offers.iter().all(|offer| offer.platforms.iter().any(|one| compatibility::runs_on(one, kind, variant)))
}

/// Whether all images have something for this kind of node, whatever the variant.
fn runs_somewhere(kind: &NodeKind, offers: &[Offer<'_>]) -> bool {
    offers.iter().all(|offer| offer.platforms.iter().any(|one| compatibility::is_for(one, kind)))
}

fn architectures(kinds: &BTreeSet<NodeKind>) -> BTreeSet<String> {
    kinds.iter().map(|kind| kind.architecture.clone()).collect()
}

/// What nodes of these kinds have in common: as few alternatives as there are different demands.
fn alternatives(
    allowed: &BTreeSet<NodeKind>,
    candidates: &BTreeSet<NodeKind>,
    many_os: bool,
    rules: &Rules,
) -> Vec<Requirements> {
    let builds = |kinds: &BTreeSet<NodeKind>, os: &str, architecture: &str| -> BTreeSet<String> {
        let same = kinds.iter().filter(|kind| kind.os == os && kind.architecture == architecture);
        same.filter_map(|kind| kind.windows_build.clone()).collect()
    };
    let mut groups: BTreeMap<(String, Requirements), BTreeSet<String>> = BTreeMap::new();
    for kind in allowed {
        let mut demands = Requirements::new();
        if many_os {
            demands.insert(keys::OS_LABEL.to_owned(), BTreeSet::from([kind.os.clone()]));
        }
        let fitting = builds(allowed, &kind.os, &kind.architecture);
        if fitting != builds(candidates, &kind.os, &kind.architecture) {
            demands.insert(keys::WINDOWS_BUILD_LABEL.to_owned(), fitting);
        }
        for (label, value) in rules.labels(&kind.architecture) {
            demands.insert(label, BTreeSet::from([value]));
        }
        groups.entry((kind.os.clone(), demands)).or_default().insert(kind.architecture.clone());
    }
    let mut found: Vec<Requirements> = groups
        .into_iter()
        .map(|((os, mut demands), within)| {
            let every: BTreeSet<String> = candidates
                .iter()
                .filter(|kind| kind.os == os)
                .map(|kind| kind.architecture.clone())
                .collect();
            if every != within {
                demands.insert(keys::ARCH_LABEL.to_owned(), within);
            }
            demands
        })
        .collect();
    found.dedup();
    found
}
