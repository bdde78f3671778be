//! A pod as distribution counts it.

use std::collections::BTreeMap;

use podwright_api::{distributor::Toleration, keys};
use serde::{Deserialize, Serialize};

use crate::{node::NodeTerms, pod::OwnerReference};

/// What admission wrote on a pod that it has placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The rule.
    pub rule: String,
    /// The entry, by name.
    pub entry: String,
    /// Which reservation it used. Empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ticket: String,
}

impl Mark {
    /// As it stands in the annotation.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the annotation; none if it is not one of ours.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The labels of its entry, of which the entry's name is made, even if the rule has no such entry any more.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entry.split(',').filter_map(|label| label.split_once('='))
    }
}

/// How far a pod is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not all of it runs yet.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// It has ended, well or badly, and will not run again.
    Ended,
}

/// What a pod asks of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// In thousandths.
    pub cpu: u64,
    /// In bytes.
    pub memory: u64,
}

/// A pod as distribution counts it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Member {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which of all pods that ever had the name.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Its controller.
    pub owner: Option<OwnerReference>,
    /// Its label `app`.
    pub app: Option<String>,
    /// The revision of its workload.
    pub revision: String,
    /// What admission wrote on it.
    pub mark: Option<Mark>,
    /// Its node selector.
    pub node_selector: BTreeMap<String, String>,
    /// What its node affinity insists on. None of a pod that has its own node, such as a DaemonSet's.
    pub required: Option<Box<NodeTerms>>,
    /// Its tolerations.
    pub tolerations: Vec<Toleration>,
    /// Where it runs.
    pub node: Option<String>,
    /// How far it is.
    pub phase: Phase,
    /// Whether it is on its way out.
    pub deleting: bool,
    /// Whether it serves.
    pub ready: bool,
    /// Since when the scheduler finds no node for it, in seconds since 1970.
    pub unschedulable_since: Option<i64>,
    /// What it asks of its node.
    pub requests: Requests,
    /// Its deletion cost as it stands.
    pub cost: Option<String>,
    /// The deletion cost that we gave it.
    pub our_cost: Option<String>,
}

impl Member {
    /// Whether it counts: it is neither on its way out nor at its end.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        !self.deleting && !matches!(self.phase, Phase::Ended)
    }

    /// Whether its deletion cost is somebody else's.
    #[must_use]
    pub fn has_own_cost(&self) -> bool {
        self.cost.is_some() && self.cost != self.our_cost
    }

    /// Whether it was admission that marked it. A pod that was adopted later has no ticket.
    #[must_use]
    pub fn was_admitted(&self) -> bool {
        self.ticket().is_some() || (self.mark.is_some() && self.is_numbered())
    }

    /// Whether it is a StatefulSet's, where a pod's number says where it belongs.
    #[must_use]
    pub fn is_numbered(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.kind == "StatefulSet")
    }

    /// The ticket that it used.
    #[must_use]
    pub fn ticket(&self) -> Option<&str> {
        self.mark.as_ref().map(|mark| mark.ticket.as_str()).filter(|ticket| !ticket.is_empty())
    }
}

/// The revision of its workload that a pod with these labels and this controller belongs to.
///
/// The controller's own name comes before anything else where it has one for each revision: a ReplicaSet is one.
#[must_use]
pub fn revision(label: impl Fn(&str) -> Option<String>, owner: Option<&OwnerReference>) -> String {
    [keys::POD_TEMPLATE_HASH, keys::ROLLOUTS_POD_TEMPLATE_HASH, keys::CONTROLLER_REVISION_HASH]
        .into_iter()
        .find_map(label)
        .or_else(|| owner.map(|owner| owner.name.clone()))
        .unwrap_or_default()
}
