//! What a pod carries of why it was placed so, for people and for `explain`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::images::Images;

/// Longer texts of others are cut, so that an annotation stays readable.
const LONGEST: usize = 200;

/// Why a pod was placed so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Record {
    /// The architectures that it can run on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) runs_on: Vec<String>,
    /// What each image offers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    images: BTreeMap<String, Vec<String>>,
    /// Images of which that is not known, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unknown: BTreeMap<String, String>,
}

impl Record {
    pub(super) fn of(images: &Images<'_>) -> Self {
        let offered = images.known.iter().map(|(image, platforms)| {
            ((*image).to_owned(), platforms.iter().map(ToString::to_string).collect())
        });
        let unknown = images
            .unknown
            .iter()
            .map(|(image, reason)| ((*image).to_owned(), reason.chars().take(LONGEST).collect()));
        Self { runs_on: Vec::new(), images: offered.collect(), unknown: unknown.collect() }
    }
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| std::fmt::Error)?)
    }
}

/// What the annotation [`ARCHITECTURE`](podwright_api::keys::ARCHITECTURE) of a pod that can run nowhere says, in words.
#[must_use]
pub fn architecture_record(annotation: &str) -> String {
    let record: Record = serde_json::from_str(annotation).unwrap_or_default();
    let offers = record
        .images
        .iter()
        .map(|(image, platforms)| format!("image {image} offers {}", platforms.join(", ")));
    let head = "no node can run all images of this pod; use images that have a platform in common".to_owned();
    std::iter::once(head).chain(offers).collect::<Vec<_>>().join("; ")
}
