//! What admission does to a pod: mutators in a fixed order, each a pure function of the pod and of known facts.
//!
//! A mutator is idempotent: run on its own result it gives no patch, because the API server calls again whenever
//! somebody else has changed the pod since. It appends and never reorders.
//!
//! What it has to know beside the pod it asks for: a review either is done or says what must be looked up first. Whoever runs
//! the pipeline looks that up and runs it again with the facts so far:
//!
//! ```text
//! pod, facts ─→ run ─┬─ Done(outcome)
//!     ↑              └─ Needs(lookups) ─→ caches, or the API server ─┐
//!     └────────────────────────── facts, now more ←──────────────────┘
//! ```

mod architecture;
mod distribution;
mod facts;
mod peer_pods;
mod pipeline;
mod sizing;

use std::collections::BTreeMap;

use json_patch::PatchOperation;
use podwright_api::Feature;

pub use architecture::{Architecture, architecture_record, image_lookup};
pub use distribution::Distribution;
pub use facts::{Fact, Facts, ImageFact, ImageLookup, Known, Lookup, WorkloadFacts};
pub use peer_pods::{BadAmount, PeerPods};
pub use pipeline::{Pipeline, PipelineError, RawPod};
pub use sizing::Sizing;

use crate::pod::PodView;

/// What the API server asks about the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// It is about to be created.
    Create,
    /// The resources of a running pod are about to be changed in place.
    Resize,
}

/// What the API server asks, beside the pod itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'r> {
    /// What is about to happen to the pod.
    pub ask: Ask,
    /// The namespace that it is in, which a pod about to be created may not say itself.
    pub namespace: &'r str,
    /// Which question it is, of all that are ever asked.
    pub uid: &'r str,
    /// Whether nothing may come of it.
    pub dry_run: bool,
}

/// What comes of looking at a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Review {
    /// A decision.
    Done(Outcome),
    /// Not yet a decision: this has to be looked up first.
    Needs(Vec<Lookup>),
}

/// One feature's change to pods.
pub trait Mutator: Send + Sync {
    /// Whose change it is.
    fn feature(&self) -> Feature;

    /// What is to happen to this pod, by what is known so far. It asks only for what it does not know yet.
    fn review(&self, request: &Request<'_>, pod: &PodView, facts: &Facts) -> Review;
}

/// What is to happen to a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Whether the feature has anything to do with this pod.
    pub concerned: bool,
    /// The change, if any.
    pub patch: Vec<PatchOperation>,
    /// What the person who created the pod should know.
    pub warnings: Vec<String>,
    /// Why the pod must not be, if so, and what to do about it.
    pub denial: Option<String>,
    /// What the audit log should say: short key, value.
    pub audit: BTreeMap<&'static str, String>,
}

/// An outcome in one word, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Nothing to do with this pod.
    Skipped,
    /// Already as it should be.
    Unchanged,
    /// Changed.
    Mutated,
    /// Refused.
    Denied,
}

impl Verdict {
    /// The word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Unchanged => "unchanged",
            Self::Mutated => "mutated",
            Self::Denied => "denied",
        }
    }
}

impl Outcome {
    /// The feature has nothing to do with this pod.
    #[must_use]
    pub fn skipped() -> Self {
        Self::default()
    }

    /// The pod must not be, and why.
    #[must_use]
    pub fn denied(reason: impl Into<String>) -> Self {
        Self { concerned: true, denial: Some(reason.into()), ..Self::default() }
    }

    /// The outcome in one word.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self {
            Self { denial: Some(_), .. } => Verdict::Denied,
            Self { patch, .. } if !patch.is_empty() => Verdict::Mutated,
            Self { concerned: true, .. } => Verdict::Unchanged,
            Self { .. } => Verdict::Skipped,
        }
    }
}
