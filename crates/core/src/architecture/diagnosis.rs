//! After the fact: was it the architecture that a container does not run for?

use super::{NodeKind, Rules, compatibility};
use crate::image::Platforms;

/// A container that fails again and again.
#[derive(Clone, Copy, Debug)]
pub struct CrashingContainer<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its image.
    pub image: &'a str,
    /// All that its status says about why.
    pub said: &'a str,
}

/// How runtimes say that there is nothing in the image for the node.
const SAYINGS: [&str; 3] = ["exec format error", "no match for platform", "no matching manifest"];

/// Whether the status of a container speaks of the wrong architecture.
fn speaks_of_architecture(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    SAYINGS.iter().any(|saying| said.contains(saying))
}

/// Says what is wrong if it is the architecture.
///
/// `platforms` is what the image offers, if that is known.
#[must_use]
pub fn diagnose(
    container: CrashingContainer<'_>,
    node: &str,
    kind: &NodeKind,
    platforms: Option<&Platforms>,
    rules: &Rules,
) -> Option<String> {
    let CrashingContainer { name, image, said } = container;
    let variant = rules.variant(&kind.architecture);
    let runs = platforms.map(|all| all.iter().any(|one| compatibility::runs_on(one, kind, variant)));
    let head = format!("container {name} cannot run on node {node}, which is {kind}");
    match (runs, platforms) {
        (Some(false), Some(platforms)) => Some(format!("{head}: its image {image} offers {platforms}")),
        (Some(true), Some(platforms)) if speaks_of_architecture(said) => Some(format!(
            "{head}, although its image {image} claims to offer {platforms}: the program in it is built for another architecture"
        )),
        (None, _) if speaks_of_architecture(said) => {
            Some(format!("{head}: what its image {image} offers is not known, and the runtime says: {said}"))
        }
        _ => None,
    }
}
