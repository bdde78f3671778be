//! What a person, or a fault in the spec, holds back.

use podwright_api::keys;

use super::{
    observed::{NodeChoice, Observed, SetFacts},
    roles,
};

/// A label's value may have so many characters, and the name becomes one.
const LONGEST_NAME: usize = 63;

/// What is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holds {
    /// `rollout-frozen`: no pod is created or deleted, for whatever reason.
    pub(super) frozen: bool,
    /// `rolling-update-paused`: no pod is replaced; missing ones are made, failed ones made again.
    pub(super) paused: bool,
    /// The name is too long to be a label, so that nothing can be made for it.
    pub(super) unnamable: bool,
    /// What is wrong with the spec. While there is anything: as if paused, and no replica set gets another part.
    pub(super) troubles: Vec<String>,
}

impl Holds {
    pub(super) fn of(seen: &Observed) -> Self {
        let unnamable = seen.set.name.len() > LONGEST_NAME;
        let mut troubles = seen.set.problems.clone();
        if unnamable {
            troubles.push(format!(
                "the name has {} characters, and pods carry it as a label, which takes {LONGEST_NAME}: choose a shorter one",
                seen.set.name.len()
            ));
        }
        if seen.set.selector == NodeChoice::Unclear {
            troubles.push(
                "spec.selector: it cannot be read, so that it is not known which nodes are meant".to_owned(),
            );
        }
        if roles::up_to_date(seen).is_some_and(|newest| newest.placement.is_none()) {
            let what = "spec.template.spec: nodeSelector, affinity or tolerations cannot be read, so that it is not known \
                        which nodes are meant";
            troubles.push(what.to_owned());
        }
        Self {
            frozen: is_true(&seen.set, keys::EDS_ROLLOUT_FROZEN),
            paused: is_true(&seen.set, keys::EDS_ROLLING_UPDATE_PAUSED),
            unnamable,
            troubles,
        }
    }

    /// Whether it is not known what the spec means.
    pub(super) const fn unclear(&self) -> bool {
        !self.troubles.is_empty()
    }

    /// Whether pods may be created and deleted at all.
    pub(super) const fn moves(&self) -> bool {
        !self.frozen && !self.unnamable
    }

    /// Whether running pods may be replaced.
    pub(super) const fn replaces(&self) -> bool {
        self.moves() && !self.paused && !self.unclear()
    }

    /// Whether replica sets may get other parts.
    pub(super) const fn recasts(&self) -> bool {
        !self.frozen && !self.unclear()
    }
}

/// Whether an annotation says exactly `true`.
fn is_true(set: &SetFacts, key: &str) -> bool {
    set.annotations.get(key).is_some_and(|value| value == "true")
}
