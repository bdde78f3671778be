use podwright_api::Feature;
use serde_json::Value;

use super::{Facts, Mutator, Outcome, Request, Review, Verdict};
use crate::pod::PodView;

/// The mutators that are switched on, in their order.
pub struct Pipeline {
    mutators: Vec<Box<dyn Mutator>>,
}

/// A pod as it came in: its JSON, and the view of it, read once however often the pipeline runs.
#[derive(Clone, Debug)]
pub struct RawPod<'j> {
    json: &'j str,
    view: PodView,
}

impl<'j> RawPod<'j> {
    /// Reads the view.
    pub fn read(json: &'j str) -> Result<Self, PipelineError> {
        Ok(Self { json, view: PodView::read(json)? })
    }
}

/// A pod that cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The pod's JSON is not a pod's.
    #[error("the object is not a Pod that can be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// A mutator made a patch that does not apply: our own fault.
    #[error("the patch of feature {feature} does not apply: {source}")]
    BadPatch {
        /// Whose patch.
        feature: Feature,
        /// Why not.
        source: json_patch::PatchError,
    },
}

impl Pipeline {
    /// Puts the mutators into their order.
    #[must_use]
    pub fn new(mut mutators: Vec<Box<dyn Mutator>>) -> Self {
        mutators.sort_by_key(|mutator| mutator.feature());
        Self { mutators }
    }

    /// The features that have a mutator here.
    pub fn features(&self) -> impl Iterator<Item = Feature> {
        self.mutators.iter().map(|mutator| mutator.feature())
    }

    /// Runs the mutators of these features over a pod, each on the result of the one before.
    ///
    /// The first denial ends it. Where one has to know more, it ends with what that is, to be run again from the start.
    /// `observe` learns each feature's verdict once there is a decision.
    pub fn run(
        &self,
        features: &[Feature],
        request: &Request<'_>,
        pod: &RawPod<'_>,
        facts: &Facts,
        mut observe: impl FnMut(Feature, Verdict),
    ) -> Result<Review, PipelineError> {
        let mut changed_view: Option<PodView> = None;
        let mut total = Outcome::default();
        let mut verdicts = Vec::new();
        let mut selected =
            self.mutators.iter().filter(|mutator| features.contains(&mutator.feature())).peekable();
        while let Some(mutator) = selected.next() {
            let outcome = match mutator.review(request, changed_view.as_ref().unwrap_or(&pod.view), facts) {
                Review::Done(outcome) => outcome,
                needs @ Review::Needs(_) => return Ok(needs),
            };
            verdicts.push((mutator.feature(), outcome.verdict()));
            if outcome.denial.is_some() {
                total = outcome;
                break;
            }
            total.concerned |= outcome.concerned;
            total.warnings.extend(outcome.warnings);
            total.audit.extend(outcome.audit);
            let changed = !outcome.patch.is_empty();
            total.patch.extend(outcome.patch);
            // Only where somebody comes after is the whole document needed.
            if changed && selected.peek().is_some() {
                let mut document: Value = serde_json::from_str(pod.json)?;
                json_patch::patch(&mut document, &total.patch)
                    .map_err(|source| PipelineError::BadPatch { feature: mutator.feature(), source })?;
                changed_view = Some(serde::Deserialize::deserialize(&document)?);
            }
        }
        for (feature, verdict) in verdicts {
            observe(feature, verdict);
        }
        Ok(Review::Done(total))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use podwright_api::{
        config::{PeerPodsConfig, SizingConfig},
        keys,
    };
    use serde_json::json;

    use super::*;
    use crate::{
        mutate::{Ask, Fact, Lookup, PeerPods, Sizing, WorkloadFacts},
        sizing::NodeFacts,
    };

    const REQUEST: Request<'static> =
        Request { ask: Ask::Create, namespace: "default", uid: "2f1c9d6e-0b1a", dry_run: false };

    fn pipeline() -> Pipeline {
        let peer_pods = PeerPods::new(&PeerPodsConfig::default()).unwrap();
        Pipeline::new(vec![Box::new(peer_pods), Box::new(Sizing::new(&SizingConfig::default()))])
    }

    fn done(review: Review) -> Outcome {
        match review {
            Review::Done(outcome) => outcome,
            Review::Needs(lookups) => panic!("not decided: {lookups:?}"),
        }
    }

    #[test]
    fn only_the_features_asked_for_run() {
        let peer_pod = r#"{"spec":{"runtimeClassName":"kata-remote","containers":[{"name":"app"}]}}"#;
        let facts = Facts::default();
        let mut seen = Vec::new();
        let review = pipeline()
            .run(&[], &REQUEST, &RawPod::read(peer_pod).unwrap(), &facts, |feature, _| seen.push(feature))
            .unwrap();
        assert_eq!((done(review).verdict(), seen.len()), (Verdict::Skipped, 0));
        let review = pipeline()
            .run(
                &[Feature::PeerPods],
                &REQUEST,
                &RawPod::read(peer_pod).unwrap(),
                &facts,
                |feature, verdict| {
                    assert_eq!((feature, verdict), (Feature::PeerPods, Verdict::Mutated));
                },
            )
            .unwrap();
        assert_eq!(done(review).verdict(), Verdict::Mutated);
    }

    #[test]
    fn what_is_no_pod_is_an_error_that_says_so() {
        let error = RawPod::read("[1]").unwrap_err();
        assert!(error.to_string().contains("not a Pod"), "{error}");
    }

    /// A peer pod that is also a sized DaemonSet's.
    fn sized_peer_pod() -> Value {
        json!({
            "metadata": {
                "annotations": {keys::RESOURCE_TEMPLATE: "tenth"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent"}],
            },
            "spec": {"nodeName": "n", "runtimeClassName": "kata-remote", "containers": [{"name": "app"}]},
        })
    }

    fn resolve(lookup: &Lookup) -> Fact {
        match lookup {
            Lookup::Workload { .. } => Fact::Workload(Arc::new(WorkloadFacts::default())),
            Lookup::Template { .. } => Fact::Template(Arc::new(
                serde_json::from_value(
                    json!({"cpuPercentage": 50, "memoryPercentage": 25, "storagePercentage": 5}),
                )
                .unwrap(),
            )),
            Lookup::Node { name } => Fact::Node(Arc::new(NodeFacts {
                name: name.clone(),
                allocatable: serde_json::from_value(json!({"cpu": "8", "memory": "16Gi"})).unwrap(),
                ..NodeFacts::default()
            })),
            other => panic!("nobody asks for {other}"),
        }
    }

    fn decide(pod: &Value, mut observe: impl FnMut(Feature, Verdict)) -> Outcome {
        let mut facts = Facts::default();
        for _ in 0..5 {
            match pipeline()
                .run(Feature::ALL, &REQUEST, &RawPod::read(&pod.to_string()).unwrap(), &facts, &mut observe)
                .unwrap()
            {
                Review::Done(outcome) => return outcome,
                Review::Needs(lookups) => {
                    for lookup in lookups {
                        let fact = resolve(&lookup);
                        facts.insert(lookup, Some(fact));
                    }
                }
            }
        }
        panic!("it never ends");
    }

    #[test]
    fn a_sized_peer_pod_gets_a_vm_of_its_share_and_verdicts_are_told_once() {
        let mut seen = Vec::new();
        let outcome = decide(&sized_peer_pod(), |feature, verdict| seen.push((feature, verdict)));
        assert_eq!(seen, [(Feature::Sizing, Verdict::Mutated), (Feature::PeerPods, Verdict::Mutated)]);
        let mut pod = sized_peer_pod();
        json_patch::patch(&mut pod, &outcome.patch).unwrap();
        assert_eq!(pod["metadata"]["annotations"][keys::VM_VCPUS], "4");
        assert_eq!(pod["metadata"]["annotations"][keys::VM_MEMORY], "4096");
        assert_eq!(
            pod["spec"]["containers"][0]["resources"]["requests"],
            json!({"kata.peerpods.io/vm": "1"})
        );
        assert!(decide(&pod, |_, _| {}).patch.is_empty());
    }

    #[test]
    fn a_pod_that_is_not_decided_yet_is_not_observed() {
        let observe = |feature, verdict| panic!("{feature}: {verdict:?}");
        let pod = sized_peer_pod().to_string();
        let review = pipeline()
            .run(Feature::ALL, &REQUEST, &RawPod::read(&pod).unwrap(), &Facts::default(), observe)
            .unwrap();
        assert!(matches!(&review, Review::Needs(lookups) if !lookups.is_empty()), "{review:?}");
    }
}
