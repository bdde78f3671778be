//! What the planner is told.

use std::{collections::BTreeMap, sync::Arc};

use podwright_api::{
    Moment, NodeSelector,
    config::ValidationMode,
    eds::{
        EffectiveStrategy, ExtendedDaemonSetReplicaSetStatus, ExtendedDaemonSetSpec, ExtendedDaemonSetStatus,
    },
};

use crate::node::{Placement, Taint};

/// Everything that is known of one ExtendedDaemonSet at one moment. Only its own namespace is looked at, nodes apart.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The ExtendedDaemonSet.
    pub set: SetFacts,
    /// Replica sets that carry its label.
    pub replica_sets: Vec<ReplicaSetFacts>,
    /// Pods that carry its label, and those of the DaemonSet that it takes over from. A creation that has been asked for and
    /// is not seen yet stands here as a pod without uid; a pod whose deletion has been asked for is deleting.
    pub pods: Vec<ObservedPod>,
    /// All nodes.
    pub nodes: Vec<Arc<NodeFacts>>,
    /// The uid of the DaemonSet that it takes over from.
    pub old_daemon_set: Option<String>,
    /// The PodTemplate of its name.
    pub pod_template: Option<PodTemplateFacts>,
    /// What the API server said when it last refused something, until something succeeds.
    pub refusal: Option<Refusal>,
}

/// The ExtendedDaemonSet.
#[derive(Clone, Debug)]
pub struct SetFacts {
    /// Its name.
    pub name: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it is being deleted: then nothing is done for it.
    pub deleting: bool,
    /// Its annotations; those of our keys are looked at.
    pub annotations: BTreeMap<String, String>,
    /// `spec.selector`, which selects nodes.
    pub selector: NodeChoice,
    /// The labels of its template, only for telling a person that a selector was meant for pods.
    pub template_labels: BTreeMap<String, String>,
    /// The hash of its template.
    pub template_hash: String,
    /// What its strategy comes to, defaults and all.
    pub strategy: EffectiveStrategy,
    /// What is wrong with its spec. While there is anything, running pods are not replaced.
    pub problems: Vec<String>,
    /// Its status as stored.
    pub status: ExtendedDaemonSetStatus,
}

impl Default for SetFacts {
    fn default() -> Self {
        let (strategy, _) = ExtendedDaemonSetSpec::default().effective(ValidationMode::Auto);
        Self {
            name: String::new(),
            generation: 0,
            deleting: false,
            annotations: BTreeMap::new(),
            selector: NodeChoice::All,
            template_labels: BTreeMap::new(),
            template_hash: String::new(),
            strategy,
            problems: Vec::new(),
            status: ExtendedDaemonSetStatus::default(),
        }
    }
}

/// A replica set.
#[derive(Clone, Debug, Default)]
pub struct ReplicaSetFacts {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// When it was created.
    pub created: Moment,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Who controls it.
    pub controller: Controller,
    /// The hash that its annotation has.
    pub template_hash: String,
    /// `spec.templateGeneration`: pods with this hash are of its template.
    pub template_generation: String,
    /// Whether its template is the ExtendedDaemonSet's, compared field by field.
    pub same_template: bool,
    /// Where its template lets pods run. Nothing, if that cannot be read: then pods stay where they are and none are made.
    pub placement: Option<Arc<Placement>>,
    /// `spec.selector`.
    pub selector: NodeChoice,
    /// Its status as stored.
    pub status: ExtendedDaemonSetReplicaSetStatus,
}

/// Which nodes a `spec.selector` means.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodeChoice {
    /// All: there is none.
    #[default]
    All,
    /// Those with matching labels.
    Matching(NodeSelector),
    /// It cannot be read, so nobody knows: pods stay where they are and none are made.
    Unclear,
}

/// Who controls a replica set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Controller {
    /// The ExtendedDaemonSet.
    #[default]
    Us,
    /// Nobody: it was left behind, and may be taken on.
    Nobody,
    /// Another object: it is none of our business.
    Another,
}

/// A pod, and what was compared for it.
#[derive(Clone, Debug, Default)]
pub struct ObservedPod {
    /// The pod.
    pub facts: Arc<PodFacts>,
    /// Whether its resources are what its own template, its node's annotations and its setting come to.
    pub as_wanted: bool,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodFacts {
    /// Its name.
    pub name: String,
    /// Its uid; empty while its creation is under way.
    pub uid: String,
    /// The node that it is bound to or made for.
    pub node: Option<String>,
    /// Whether it is bound.
    pub scheduled: bool,
    /// Who owns it.
    pub owner: PodOwner,
    /// The hash of the template that it was made from.
    pub template_hash: String,
    /// How many pods before it failed on its node in a row.
    pub failures: u32,
    /// When it was created.
    pub created: Moment,
    /// `status.startTime`.
    pub started: Option<Moment>,
    /// Its phase.
    pub phase: Phase,
    /// Since when it is Ready, if it is.
    pub ready_since: Option<Moment>,
    /// When it came to its end, if its phase is terminal: the newest time among its containers' ends and its conditions.
    pub ended: Option<Moment>,
    /// `metadata.deletionTimestamp`, which is when it should be gone.
    pub deleting: Option<Moment>,
    /// Whether the scheduler found no room for it.
    pub unschedulable: bool,
    /// Whether it carries the canary label.
    pub canary_label: bool,
    /// Its containers, init and ephemeral ones among them, that restarted or wait.
    pub containers: Vec<ContainerFacts>,
    /// Restarts of its ordinary containers, added up.
    pub restarts: u32,
}

/// A container that restarted or waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerFacts {
    /// Its name.
    pub name: String,
    /// How often it restarted.
    pub restarts: u32,
    /// Why it ended last, if it did.
    pub last_end: Option<ContainerEnd>,
    /// Why it waits, if it does.
    pub waiting: Option<String>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerEnd {
    /// `reason`; may be empty.
    pub reason: String,
    /// `finishedAt`.
    pub at: Option<Moment>,
}

/// Who owns a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PodOwner {
    /// A replica set of an ExtendedDaemonSet, by uid.
    ReplicaSet(String),
    /// A DaemonSet, by uid.
    DaemonSet(String),
    /// Nobody.
    #[default]
    Nobody,
    /// Something else: it is none of our business.
    Another,
}

/// A pod's phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not all of its containers have started.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// It has come to its end.
    Succeeded,
    /// It has come to its end, and not well; evicted pods too.
    Failed,
    /// Its node does not answer.
    Unknown,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Whether it is Ready.
    pub ready: bool,
}

/// The PodTemplate of the ExtendedDaemonSet's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTemplateFacts {
    /// Whether the ExtendedDaemonSet controls it, or nobody.
    pub ours: bool,
    /// The hash in its annotation.
    pub template_hash: String,
}

/// What the API server refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// What was refused and why.
    pub message: String,
    /// Until when nothing is created.
    pub until: Moment,
}
