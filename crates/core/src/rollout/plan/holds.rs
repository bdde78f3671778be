//! What a person, or a fault in the spec, holds back.

use podwright_api::keys;

use super::observed::{Observed, SetFacts};

/// What is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holds {
    /// `rollout-frozen`: no pod is created or deleted, for whatever reason.
    pub(super) frozen: bool,
    /// `rolling-update-paused`: no pod is replaced; missing ones are made, failed ones made again.
    pub(super) paused: bool,
    /// Something is wrong with the spec: as if paused, and no replica set gets another part.
    pub(super) unclear: bool,
}

impl Holds {
    pub(super) fn of(seen: &Observed) -> Self {
        Self {
            frozen: is_true(&seen.set, keys::EDS_ROLLOUT_FROZEN),
            paused: is_true(&seen.set, keys::EDS_ROLLING_UPDATE_PAUSED),
            unclear: !seen.set.problems.is_empty(),
        }
    }

    /// Whether running pods may be replaced.
    pub(super) const fn replaces(self) -> bool {
        !self.frozen && !self.paused && !self.unclear
    }
}

/// Whether an annotation says exactly `true`.
pub(super) fn is_true(set: &SetFacts, key: &str) -> bool {
    set.annotations.get(key).is_some_and(|value| value == "true")
}
