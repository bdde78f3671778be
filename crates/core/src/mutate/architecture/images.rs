//! The images of a pod, and what is known of them.

use crate::{
    architecture::Offer,
    image::{Platforms, PullPolicy, Reference},
    mutate::{Facts, ImageFact, ImageLookup, Known, Lookup, Request},
    pod::{Container, PodView},
};

/// The images of a pod, each once.
#[derive(Debug, Default)]
pub(super) struct Images<'a> {
    /// Those whose platforms are known.
    pub(super) known: Vec<(&'a str, &'a Platforms)>,
    /// Those whose platforms could not be had, and why.
    pub(super) unknown: Vec<(&'a str, String)>,
}

impl<'a> Images<'a> {
    /// What is known of the images, or what has to be looked up first.
    pub(super) fn of(request: &Request<'_>, pod: &'a PodView, facts: &'a Facts) -> Result<Self, Vec<Lookup>> {
        let (mut images, mut needs) = (Self::default(), Vec::new());
        for (image, lookup) in lookups(request, pod) {
            match facts.image(&lookup) {
                Known::Found(ImageFact::Offers(platforms)) => images.known.push((image, platforms)),
                Known::Found(ImageFact::Unknown(reason)) => images.unknown.push((image, reason.clone())),
                Known::Absent => images.unknown.push((image, "nobody could be asked".to_owned())),
                Known::Unknown => needs.push(lookup),
            }
        }
        if needs.is_empty() { Ok(images) } else { Err(needs) }
    }

    /// What the known ones offer.
    pub(super) fn offers(&self) -> Vec<Offer<'a>> {
        self.known.iter().map(|(image, platforms)| Offer { image, platforms }).collect()
    }
}

/// What there is to look up, by the image's name in the pod: containers, init containers and sidecars alike.
pub(super) fn lookups<'a>(request: &Request<'_>, pod: &'a PodView) -> Vec<(&'a str, Lookup)> {
    let mut found: Vec<(&str, Lookup)> = Vec::new();
    for container in pod.spec.init_containers.iter().chain(&pod.spec.containers) {
        let Some(lookup) = lookup(request.namespace, pod, container) else { continue };
        let lookup = Lookup::Image(Box::new(lookup));
        if !found.iter().any(|(_, other)| *other == lookup) {
            found.push((container.image.as_deref().unwrap_or_default(), lookup));
        }
    }
    found
}

/// What there is to look up of the image of one container of a pod, if anything.
#[must_use]
pub fn image_lookup(namespace: &str, pod: &PodView, container: &str) -> Option<ImageLookup> {
    let mut all = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    lookup(namespace, pod, all.find(|one| one.name == container)?)
}

/// What is never pulled is not considered, because no registry says what the node has; nor is what is no image's name,
/// because no node can pull it.
fn lookup(namespace: &str, pod: &PodView, container: &Container) -> Option<ImageLookup> {
    let reference: Reference = container.image.as_deref()?.parse().ok()?;
    Some(ImageLookup {
        policy: PullPolicy::of(container.image_pull_policy.as_deref(), &reference)?,
        reference,
        namespace: namespace.to_owned(),
        secrets: pod.spec.image_pull_secrets.iter().map(|secret| secret.name.clone()).collect(),
        service_account: pod.spec.service_account_name.clone().unwrap_or_else(|| "default".to_owned()),
    })
}
