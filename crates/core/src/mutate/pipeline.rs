use podwright_api::Feature;
use serde_json::Value;

use super::{Ask, Mutator, Outcome, Verdict};
use crate::pod::PodView;

/// The mutators that are switched on, in their order.
pub struct Pipeline {
    mutators: Vec<Box<dyn Mutator>>,
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

    /// Runs the mutators of these features over a pod's JSON, each on the result of the one before.
    ///
    /// `observe` learns each feature's verdict. The first denial ends it.
    pub fn run(
        &self,
        features: &[Feature],
        ask: Ask,
        json: &str,
        mut observe: impl FnMut(Feature, Verdict),
    ) -> Result<Outcome, PipelineError> {
        let mut view = PodView::read(json)?;
        let mut total = Outcome::default();
        let mut selected =
            self.mutators.iter().filter(|mutator| features.contains(&mutator.feature())).peekable();
        while let Some(mutator) = selected.next() {
            let outcome = mutator.review(ask, &view);
            observe(mutator.feature(), outcome.verdict());
            if outcome.denial.is_some() {
                return Ok(outcome);
            }
            total.concerned |= outcome.concerned;
            total.warnings.extend(outcome.warnings);
            total.audit.extend(outcome.audit);
            let changed = !outcome.patch.is_empty();
            total.patch.extend(outcome.patch);
            // Only where somebody comes after is the whole document needed.
            if changed && selected.peek().is_some() {
                let mut document: Value = serde_json::from_str(json)?;
                json_patch::patch(&mut document, &total.patch)
                    .map_err(|source| PipelineError::BadPatch { feature: mutator.feature(), source })?;
                view = serde::Deserialize::deserialize(&document)?;
            }
        }
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use podwright_api::config::PeerPodsConfig;

    use super::*;
    use crate::mutate::PeerPods;

    fn pipeline() -> Pipeline {
        Pipeline::new(vec![Box::new(PeerPods::new(&PeerPodsConfig::default()).unwrap())])
    }

    #[test]
    fn only_the_features_asked_for_run() {
        let peer_pod = r#"{"spec":{"runtimeClassName":"kata-remote","containers":[{"name":"app"}]}}"#;
        let mut seen = Vec::new();
        let outcome = pipeline().run(&[], Ask::Create, peer_pod, |feature, _| seen.push(feature)).unwrap();
        assert_eq!((outcome.verdict(), seen.len()), (Verdict::Skipped, 0));
        let outcome = pipeline()
            .run(&[Feature::PeerPods], Ask::Create, peer_pod, |feature, verdict| {
                assert_eq!((feature, verdict), (Feature::PeerPods, Verdict::Mutated));
            })
            .unwrap();
        assert_eq!(outcome.verdict(), Verdict::Mutated);
    }

    #[test]
    fn what_is_no_pod_is_an_error_that_says_so() {
        let error = pipeline().run(&[Feature::PeerPods], Ask::Create, "[1]", |_, _| {}).unwrap_err();
        assert!(error.to_string().contains("not a Pod"), "{error}");
    }
}
