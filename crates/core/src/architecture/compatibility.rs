//! Which platforms run on which nodes.

use super::NodeKind;
use crate::image::Platform;

/// Whether what is built for the platform runs on such a node, whose variant is the given one.
pub(super) fn runs_on(platform: &Platform, kind: &NodeKind, variant: Option<&str>) -> bool {
    is_for(platform, kind) && runs_on_variant(platform.architecture(), platform.variant(), variant)
}

/// The same, whatever the variant.
pub(super) fn is_for(platform: &Platform, kind: &NodeKind) -> bool {
    platform.os() == kind.os
        && platform.architecture() == kind.architecture
        && match (platform.version().filter(|_| kind.os == "windows"), &kind.windows_build) {
            (Some(version), Some(build)) => build_of(version) == build_of(build),
            // Nothing is known of one of them, so nothing speaks against it.
            _ => true,
        }
}

/// Windows runs containers of its own build only; the last part of the version is the patch level.
pub(super) fn build_of(version: &str) -> String {
    version.split('.').take(3).collect::<Vec<_>>().join(".")
}

/// A node of a variant runs what is built for it and for those below: arm v7 runs v6.
fn runs_on_variant(architecture: &str, image: Option<&str>, node: Option<&str>) -> bool {
    let base = if architecture == "arm" {
        7.0
    } else if architecture == "arm64" {
        8.0
    } else {
        1.0
    };
    match (level(image, base), level(node, base)) {
        (Some(image), Some(node)) => image <= node,
        // Names without a number have no order.
        _ => image == node,
    }
}

fn level(variant: Option<&str>, base: f64) -> Option<f64> {
    variant.map_or(Some(base), |variant| variant.strip_prefix('v')?.parse().ok())
}
