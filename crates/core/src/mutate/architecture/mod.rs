//! Architecture: a pod goes where all its images can run.
//!
//! ```text
//! pod ─→ left alone? ─→ kinds of node ─→ images ─→ platforms ─→ placement ─→ affinity, tolerations, preference, a record of why
//!                                           └─ not known in time ─→ allow | gate | deny
//! ```
//!
//! The same function finishes pods that were held back: with more facts, and once the deadline has passed, without them.

mod affinity;
mod gate;
mod images;
mod peer;
mod preference;
mod record;
mod report;
mod skip;
#[cfg(test)]
mod tests;
mod tolerations;

use std::collections::{BTreeMap, BTreeSet};

use json_patch::jsonptr::Token;
use podwright_api::{
    Feature,
    config::{Config, OnDeadline, OnNoCommonPlatform, OnUnknown},
    keys,
};
use serde_json::Value;

use self::{images::Images, record::Record};
pub use self::{images::image_lookup, record::architecture_record};
use super::{Ask, Facts, Known, Lookup, Mutator, Outcome, Request, Review};
use crate::{
    architecture::{self, AskedOs, ClusterPlatforms, Placement, Rules},
    pod::{PatchBuilder, PodView, pointer},
};

/// The mutator of pods in clusters with more than one kind of node.
#[derive(Clone, Debug)]
pub struct Architecture {
    rules: Rules,
    on_unknown: OnUnknown,
    on_deadline: OnDeadline,
    on_no_common_platform: OnNoCommonPlatform,
    peer_pods: BTreeSet<String>,
}

/// When a pod is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// As it is created.
    Creation,
    /// While it is held back.
    Held,
    /// When it has been held back for too long.
    Expired,
}

impl Architecture {
    /// Reads the configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let ours = &config.architecture;
        Self {
            rules: ours.architectures.clone().into(),
            on_unknown: ours.on_unknown,
            on_deadline: ours.gate.on_deadline,
            on_no_common_platform: ours.on_no_common_platform,
            peer_pods: config.peer_pods.runtime_classes.iter().cloned().collect(),
        }
    }

    /// What is to happen to a pod that is held back: no patch means that it waits on, for what the warnings say.
    #[must_use]
    pub fn finish(&self, namespace: &str, pod: &PodView, facts: &Facts, expired: bool) -> Review {
        // Whoever has chosen meanwhile, or has had enough of us, need not wait.
        if skip::is_left_alone(pod, &self.rules) {
            return Review::Done(Draft::new(pod, &Images::default()).finish(None));
        }
        let request = Request { ask: Ask::Create, namespace, uid: "", dry_run: true };
        self.decide(&request, pod, facts, if expired { Moment::Expired } else { Moment::Held })
    }

    /// What has to be looked up for the images of a pod, such as one that a workload is going to make.
    #[must_use]
    pub fn lookups(&self, namespace: &str, pod: &PodView, cluster: &ClusterPlatforms) -> Vec<Lookup> {
        if skip::is_left_alone(pod, &self.rules) || self.has_nothing_to_choose(pod, cluster) {
            return Vec::new();
        }
        images::lookups(&Request { ask: Ask::Create, namespace, uid: "", dry_run: true }, pod)
            .into_iter()
            .map(|(_, lookup)| lookup)
            .collect()
    }

    /// Whether the pod's images run in a VM of its own.
    #[must_use]
    pub fn runs_in_a_vm(&self, pod: &PodView) -> bool {
        pod.spec.runtime_class_name.as_ref().is_some_and(|class| self.peer_pods.contains(class))
    }

    fn has_nothing_to_choose(&self, pod: &PodView, cluster: &ClusterPlatforms) -> bool {
        if self.runs_in_a_vm(pod) {
            self.rules.machines().next().is_none() || peer::is_chosen(pod)
        } else {
            self.rules.leaves_no_choice(cluster)
        }
    }

    fn decide(&self, request: &Request<'_>, pod: &PodView, facts: &Facts, moment: Moment) -> Review {
        let cluster = match facts.cluster() {
            Known::Found(cluster) => cluster,
            Known::Unknown => return Review::Needs(vec![Lookup::Cluster]),
            Known::Absent => return Review::Done(Outcome::skipped()),
        };
        // Whoever is held back must come free, whatever has changed since.
        if self.has_nothing_to_choose(pod, cluster) && !gate::holds(pod) {
            return Review::Done(Outcome::skipped());
        }
        let images = match Images::of(request, pod, facts) {
            Ok(images) => images,
            Err(needs) => return Review::Needs(needs),
        };
        let waits = !images.unknown.is_empty();
        match (moment, self.on_unknown) {
            (Moment::Creation, OnUnknown::Deny) if waits => {
                return Review::Done(Outcome::denied(report::unknown_denied(&images)));
            }
            (Moment::Creation, OnUnknown::Gate) if waits => return Review::Done(gate::hold(pod, &images)),
            (Moment::Held, _) if waits => {
                return Review::Done(Outcome {
                    concerned: true,
                    warnings: report::unknown(&images),
                    ..Outcome::default()
                });
            }
            _ => {}
        }
        let hopeless = moment == Moment::Expired && waits && self.on_deadline == OnDeadline::Pend;
        Review::Done(self.settle(pod, cluster, &images, moment, hopeless))
    }

    /// All that can be known is known: writes down what follows.
    fn settle(
        &self,
        pod: &PodView,
        cluster: &ClusterPlatforms,
        images: &Images<'_>,
        moment: Moment,
        hopeless: bool,
    ) -> Outcome {
        let mut draft = Draft::new(pod, images);
        if hopeless {
            draft.required = affinity::make_impossible(&mut draft.patch, pod, keys::IMPOSSIBLE_UNKNOWN);
            return draft.finish(None);
        }
        if self.runs_in_a_vm(pod) {
            peer::choose(&mut draft, images, &self.rules);
            return draft.finish(None);
        }
        match architecture::place(&images.offers(), cluster, &self.rules, asked_os(pod)) {
            Placement::Nowhere => {
                let reasons = report::no_common_platform(images, cluster, &self.rules);
                if self.on_no_common_platform == OnNoCommonPlatform::Deny && moment == Moment::Creation {
                    return Outcome::denied(reasons.join("; "));
                }
                draft.required =
                    affinity::make_impossible(&mut draft.patch, pod, keys::IMPOSSIBLE_NO_COMMON_PLATFORM);
                draft.warnings.extend(reasons);
                return draft.finish(Some(keys::NO_COMMON_PLATFORM));
            }
            Placement::Anywhere(architectures) => self.welcome(&mut draft, cluster, images, &architectures),
            Placement::Within { alternatives, architectures, absent } => {
                if absent {
                    draft.warnings.push(report::absent(&architectures, cluster, &self.rules));
                }
                let first = preference::best(pod, &architectures, &self.rules);
                let may_add_terms = moment == Moment::Creation;
                draft.required = affinity::require(&mut draft.patch, pod, alternatives, first, may_add_terms);
                self.welcome(&mut draft, cluster, images, &architectures);
            }
        }
        draft.finish(None)
    }

    /// Lets the pod in where it can run: the taints that would keep it out, and what it would rather have.
    ///
    /// An image of which nothing is known may be the reason for which a taint keeps pods out. Then it goes on doing so,
    /// unless there is nowhere else to go.
    fn welcome(
        &self,
        draft: &mut Draft<'_>,
        cluster: &ClusterPlatforms,
        images: &Images<'_>,
        architectures: &BTreeSet<String>,
    ) {
        draft.record.runs_on = architectures.iter().cloned().collect();
        let all_known = images.unknown.is_empty() && !images.known.is_empty();
        if !all_known && (images.known.is_empty() || architectures.len() > 1) {
            return;
        }
        tolerations::add(&mut draft.patch, draft.pod, &self.rules.taints(architectures, cluster));
        let (preferred, unread) = preference::terms(draft.pod, architectures, &self.rules);
        draft.preferred = preferred;
        draft.warnings.extend(unread);
    }
}

/// What is being written on a pod.
struct Draft<'p> {
    pod: &'p PodView,
    patch: PatchBuilder,
    /// The required node affinity of a pod that had none.
    required: Option<Value>,
    /// Terms of the preferred node affinity to be added.
    preferred: Vec<Value>,
    annotations: BTreeMap<String, String>,
    warnings: Vec<String>,
    record: Record,
}

impl<'p> Draft<'p> {
    fn new(pod: &'p PodView, images: &Images<'_>) -> Self {
        Self {
            pod,
            patch: PatchBuilder::default(),
            required: None,
            preferred: Vec::new(),
            annotations: BTreeMap::new(),
            warnings: report::unknown(images),
            record: Record::of(images),
        }
    }

    /// Whoever was held back comes free. Where anything is changed, a record says why.
    fn finish(mut self, state: Option<&'static str>) -> Outcome {
        affinity::write(&mut self.patch, self.pod, self.required, self.preferred);
        gate::release(&mut self.patch, self.pod, state);
        let kept = self.pod.metadata.annotations.as_ref();
        let changes = self.annotations.iter().any(|(key, value)| self.pod.annotation(key) != Some(value));
        let recorded = self.pod.annotation(keys::ARCHITECTURE).is_some();
        if changes || recorded || !self.patch.is_empty() {
            self.annotations.insert(keys::ARCHITECTURE.to_owned(), self.record.to_string());
        }
        let at = pointer([Token::new("metadata"), Token::new("annotations")]);
        self.patch.merge(&at, kept, self.annotations);
        let patch = self.patch.finish();
        let audit = if patch.is_empty() {
            BTreeMap::new()
        } else {
            BTreeMap::from([("architecture", report::summary(&self.record, state))])
        };
        Outcome { concerned: true, patch, warnings: self.warnings, denial: None, audit }
    }
}

fn asked_os(pod: &PodView) -> AskedOs<'_> {
    let selector = pod.spec.node_selector.as_ref();
    let selected = selector.and_then(|all| all.get(keys::OS_LABEL).or_else(|| all.get(keys::OLD_OS_LABEL)));
    AskedOs {
        selected: selected.map(String::as_str),
        declared: pod.spec.os.as_ref().map(|os| os.name.as_str()).filter(|name| !name.is_empty()),
    }
}

impl Mutator for Architecture {
    fn feature(&self) -> Feature {
        Feature::Architecture
    }

    fn review(&self, request: &Request<'_>, pod: &PodView, facts: &Facts) -> Review {
        if request.ask != Ask::Create || skip::is_left_alone(pod, &self.rules) {
            return Review::Done(Outcome::skipped());
        }
        self.decide(request, pod, facts, Moment::Creation)
    }
}
