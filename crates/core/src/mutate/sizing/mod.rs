//! Sizing: a DaemonSet's pod gets its template's share of the node that it is made for.
//!
//! ```text
//! pod ─→ owner ─→ opt-in (its annotation, or the pod's) ─→ template + node ─→ share ─→ requests, limits, a record of why
//! ```

mod opt_in;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use json_patch::{
    PatchOperation,
    jsonptr::{PointerBuf, Token},
};
use podwright_api::{
    Feature,
    config::{OnError, SizingConfig},
    flex::FlexDaemonsetTemplateSpec,
    keys,
};

use self::opt_in::OptIn;
use super::{Ask, Facts, Known, Lookup, Mutator, Outcome, Request, Review};
use crate::{
    pod::{Container, PatchBuilder, PodView, Resources, pointer},
    sizing::{self, NodeFacts, Share, SizedBy, Wanted},
};

/// The mutator of DaemonSet pods.
#[derive(Clone, Debug)]
pub struct Sizing {
    on_error: OnError,
}

impl Sizing {
    /// Reads the configuration.
    #[must_use]
    pub fn new(config: &SizingConfig) -> Self {
        Self { on_error: config.on_error }
    }

    /// The pod is opted in: by which template, on which node?
    fn decide(&self, opt_in: &OptIn, pod: &PodView, facts: &Facts) -> Review {
        let template = Lookup::Template { name: opt_in.template.clone() };
        let node = pod.target_node().map(|name| Lookup::Node { name: name.to_owned() });
        let needs: Vec<Lookup> = std::iter::once(&template)
            .chain(&node)
            .filter(|lookup| facts.get(lookup) == Known::Unknown)
            .cloned()
            .collect();
        if !needs.is_empty() {
            return Review::Needs(needs);
        }
        let Known::Found(spec) = facts.template(&template) else {
            return self.fail(opt_in, report::no_template(opt_in));
        };
        if let Err(invalid) = sizing::check(spec) {
            return self.fail(opt_in, report::invalid(opt_in, &invalid));
        }
        let Some(node) = node else {
            return Review::Done(let_through(vec![report::no_target(opt_in)], opt_in));
        };
        match facts.node(&node) {
            Known::Found(node) => self.size(opt_in, spec, node, pod),
            Known::Absent | Known::Unknown => self.fail(opt_in, report::no_node(opt_in, pod.target_node())),
        }
    }

    fn size(
        &self,
        opt_in: &OptIn,
        spec: &FlexDaemonsetTemplateSpec,
        node: &NodeFacts,
        pod: &PodView,
    ) -> Review {
        let share = match sizing::share(spec, node) {
            Ok(share) => share,
            Err(invalid) => return self.fail(opt_in, report::invalid(opt_in, &invalid)),
        };
        let wanted = sizing::wanted(pod, spec, &share);
        let patch = patch(pod, &wanted, &SizedBy::new(&opt_in.template, &share, pod));
        if patch.is_empty() {
            return Review::Done(Outcome { concerned: true, ..Outcome::default() });
        }
        let mut warnings = opt_in.remarks.clone();
        warnings.extend(report::oddities(pod, &share));
        Review::Done(Outcome {
            concerned: true,
            patch,
            warnings,
            denial: None,
            audit: BTreeMap::from([("sizing", report::summary(&opt_in.template, &share))]),
        })
    }

    /// The pod can't be sized. Denied, its DaemonSet tries again and the reason stands in its events.
    fn fail(&self, opt_in: &OptIn, reason: String) -> Review {
        Review::Done(match opt_in.on_error.unwrap_or(self.on_error) {
            OnError::Deny => {
                let mut message = vec![reason];
                message.extend(opt_in.remarks.iter().cloned());
                Outcome::denied(message.join(". "))
            }
            OnError::Allow => let_through(vec![format!("sizing: not sized: {reason}")], opt_in),
        })
    }
}

fn let_through(mut warnings: Vec<String>, opt_in: &OptIn) -> Outcome {
    warnings.extend(opt_in.remarks.iter().cloned());
    Outcome { concerned: true, warnings, ..Outcome::default() }
}

fn patch(pod: &PodView, wanted: &Wanted, record: &SizedBy) -> Vec<PatchOperation> {
    let mut patch = PatchBuilder::default();
    let at = pointer([Token::new("metadata"), Token::new("annotations")]);
    let entry = BTreeMap::from([(keys::SIZED_BY.to_owned(), record.to_string())]);
    patch.merge(&at, pod.metadata.annotations.as_ref(), entry);
    for (section, containers, wanted) in [
        ("containers", &pod.spec.containers, &wanted.containers),
        ("initContainers", &pod.spec.init_containers, &wanted.init_containers),
    ] {
        for (index, (container, wanted)) in containers.iter().zip(wanted).enumerate() {
            let at = [Token::new("spec"), Token::new(section), Token::from(index), Token::new("resources")];
            if let Some(wanted) = wanted {
                put(&mut patch, &pointer(at), container, wanted);
            }
        }
    }
    patch.finish()
}

/// Entry by entry, so that whatever else stands beside them stays.
fn put(patch: &mut PatchBuilder, at: &PointerBuf, container: &Container, wanted: &Resources) {
    let Some(current) = &container.resources else {
        if wanted.names().next().is_some() {
            patch.set(at.clone(), None, wanted);
        }
        return;
    };
    for (field, current, wanted) in
        [("requests", &current.requests, &wanted.requests), ("limits", &current.limits, &wanted.limits)]
    {
        let mut at = at.clone();
        at.push_back(Token::new(field));
        if let Some(wanted) = wanted {
            patch.exactly(&at, current.as_ref(), wanted);
        }
    }
}

impl Mutator for Sizing {
    fn feature(&self) -> Feature {
        Feature::Sizing
    }

    fn review(&self, request: &Request<'_>, pod: &PodView, facts: &Facts) -> Review {
        let Some(owner) = pod.daemon_owner().filter(|_| request.ask == Ask::Create) else {
            return Review::Done(Outcome::skipped());
        };
        if sizing::is_peer_pod(pod) {
            return Review::Done(Outcome { concerned: true, ..Outcome::default() });
        }
        match OptIn::of(owner, request.namespace, pod, facts) {
            Ok(Some(opt_in)) => self.decide(&opt_in, pod, facts),
            Ok(None) => Review::Done(Outcome::skipped()),
            Err(needs) => Review::Needs(vec![needs]),
        }
    }
}
