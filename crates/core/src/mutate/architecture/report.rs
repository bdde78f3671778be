//! What people are told.

use std::collections::BTreeSet;

use podwright_api::keys;

use super::{images::Images, record::Record};
use crate::architecture::{ClusterPlatforms, Rules};

/// One line for each image whose platforms are not known.
pub(super) fn unknown(images: &Images<'_>) -> Vec<String> {
    let line = |(image, reason): &(&str, String)| {
        format!(
            "architecture: not known what image {image} runs on, so it has no say in where the pod goes: {reason}"
        )
    };
    images.unknown.iter().map(line).collect()
}

pub(super) fn held(images: &Images<'_>) -> Vec<String> {
    let line = |(image, reason): &(&str, String)| {
        format!(
            "architecture: the pod waits (scheduling gate {}) until it is known what image {image} runs on: {reason}",
            keys::ARCHITECTURE
        )
    };
    images.unknown.iter().map(line).collect()
}

pub(super) fn unknown_denied(images: &Images<'_>) -> String {
    let each: Vec<String> =
        images.unknown.iter().map(|(image, reason)| format!("{image}: {reason}")).collect();
    format!(
        "not known what these images run on, and architecture.onUnknown is Deny: {}. Try again once their registries answer, or \
         label the pod {}={}",
        each.join("; "),
        keys::ARCHITECTURE,
        keys::OFF,
    )
}

fn offered(images: &Images<'_>) -> impl Iterator<Item = String> {
    images.known.iter().map(|(image, platforms)| format!("image {image} offers {platforms}"))
}

fn nodes(cluster: &ClusterPlatforms, rules: &Rules) -> String {
    let kinds: Vec<String> = rules.kinds(cluster).iter().map(ToString::to_string).collect();
    kinds.join(", ")
}

/// What is wrong, then a line for each image.
pub(super) fn no_common_platform(
    images: &Images<'_>,
    cluster: &ClusterPlatforms,
    rules: &Rules,
) -> Vec<String> {
    let head = format!(
        "architecture: no node can run all images of this pod (nodes are {}); use images that have a platform in common",
        nodes(cluster, rules),
    );
    std::iter::once(head).chain(offered(images).map(|line| format!("architecture: {line}"))).collect()
}

pub(super) fn absent(architectures: &BTreeSet<String>, cluster: &ClusterPlatforms, rules: &Rules) -> String {
    let names: Vec<&str> = architectures.iter().map(String::as_str).collect();
    format!(
        "architecture: the pod waits for a node of architecture {}, of which the cluster has none (nodes are {})",
        names.join(" or "),
        nodes(cluster, rules),
    )
}

pub(super) fn no_machine_type(images: &Images<'_>, rules: &Rules) -> Vec<String> {
    let names: Vec<&str> = rules.machines().map(|(name, _)| name).collect();
    let head = format!(
        "architecture: no machine type is configured for what all images of this peer pod run on (there are some for {}); see \
         architecture.architectures.*.machineType",
        names.join(", "),
    );
    std::iter::once(head).chain(offered(images).map(|line| format!("architecture: {line}"))).collect()
}

/// For the audit log.
pub(super) fn summary(record: &Record, state: Option<&str>) -> String {
    match state {
        Some(state) => state.to_owned(),
        None => format!("runs on {}", record.runs_on.join(", ")),
    }
}
