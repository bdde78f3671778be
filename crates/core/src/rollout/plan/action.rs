//! What the planner answers.

use std::fmt;

use podwright_api::{
    Moment,
    eds::{ExtendedDaemonSetReplicaSetStatus, ExtendedDaemonSetStatus},
};

/// What is to be done now. What is empty here needs no write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// A replica set is to be created from the ExtendedDaemonSet's template, under the name that follows from it.
    pub create_replica_set: bool,
    /// Replica sets to be taken on, by name: they get the ExtendedDaemonSet as their controller.
    pub adopt: Vec<String>,
    /// The replica set whose `spec.selector` is to become the ExtendedDaemonSet's.
    pub copy_selector: Option<String>,
    /// Replica sets to be deleted.
    pub delete_replica_sets: Vec<Deleted>,
    /// The ExtendedDaemonSet's status, if it changed.
    pub status: Option<ExtendedDaemonSetStatus>,
    /// Whether the status gives replica sets other roles. Then it must be stored before pods are touched.
    pub roles_changed: bool,
    /// Replica sets' statuses that changed, by name.
    pub replica_set_statuses: Vec<(String, ExtendedDaemonSetReplicaSetStatus)>,
    /// Pods to create, those that matter most first.
    pub creations: Vec<Creation>,
    /// Pods to delete, those that matter most first.
    pub deletions: Vec<Deletion>,
    /// Pods whose canary label is to be put on or taken off.
    pub labels: Vec<CanaryLabel>,
    /// The replica set whose template is to be put back into the ExtendedDaemonSet's spec.
    pub restore_template: Option<String>,
    /// Annotations to be taken off the ExtendedDaemonSet.
    pub drop_annotations: Vec<&'static str>,
    /// What becomes of the PodTemplate.
    pub pod_template: Option<PodTemplateChange>,
    /// What a person may want to know, to be told once the statuses are stored.
    pub events: Vec<Event>,
    /// Whether pods wait to be replaced and the budget does not let any go.
    pub stuck: bool,
    /// When to plan again though nothing happens.
    pub next: Option<Moment>,
}

/// An object to be deleted, if it is still the one that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// A pod to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    /// For this node.
    pub node: String,
    /// From this replica set's template.
    pub replica_set: String,
    /// Whether it is a canary's: then it carries the label.
    pub canary: bool,
    /// How many pods before it failed there in a row. The pod carries it, so that the back-off outlives us.
    pub failures: u32,
}

/// A pod to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The pod.
    pub pod: Deleted,
    /// The node that it is on or meant for.
    pub node: String,
    /// Why.
    pub why: Why,
}

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// It has come to its end and a new one takes its place.
    Failed,
    /// A better pod is on its node.
    Duplicate,
    /// Its node is no longer there.
    NodeGone,
    /// It may not run on its node any more.
    Unfit,
    /// It was made from another template.
    Outdated,
    /// Its resources are not those that its node should have.
    Overrides,
}

impl Why {
    /// A word for labels of metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Duplicate => "duplicate",
            Self::NodeGone => "node-gone",
            Self::Unfit => "unfit",
            Self::Outdated => "outdated",
            Self::Overrides => "overrides",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "it failed",
            Self::Duplicate => "its node has a better pod",
            Self::NodeGone => "its node is gone",
            Self::Unfit => "it may not run on its node any more",
            Self::Outdated => "it is of another template",
            Self::Overrides => "its resources are not those of its node",
        })
    }
}

/// A pod's canary label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanaryLabel {
    /// The pod.
    pub pod: String,
    /// Whether it gets the label or loses it.
    pub on: bool,
}

/// What becomes of the PodTemplate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodTemplateChange {
    /// It is created.
    Create,
    /// It gets the ExtendedDaemonSet's template, labels and annotations.
    Update,
}

/// An event on the ExtendedDaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether something is wrong.
    pub warning: bool,
    /// A word.
    pub reason: &'static str,
    /// A sentence.
    pub note: String,
}

impl Event {
    pub(super) const fn normal(reason: &'static str, note: String) -> Self {
        Self { warning: false, reason, note }
    }

    pub(super) const fn warning(reason: &'static str, note: String) -> Self {
        Self { warning: true, reason, note }
    }
}
