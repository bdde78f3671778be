//! What the planner is told of one ExtendedDaemonSet: what is known, with what has been asked for and is not seen yet.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use kube::{
    Resource, ResourceExt,
    runtime::events::{Event, EventType},
};
use podwright_api::{
    Moment,
    eds::{ExtendedDaemonSet, ExtendedDaemonsetSetting, LabelSelector},
};
use podwright_core::rollout::{
    Fingerprint,
    objects::{self, Origin, Parent},
    overrides::settings::{self, Setting},
    overrides::{NodeOverrides, Wanted},
    plan::{Creation, NodeChoice, Observed, ObservedPod, PodFacts, Refusal, ReplicaSetFacts, SetFacts},
};
use serde_json::Value;

use super::{
    facts::{KnownNode, KnownPod},
    keeper::Keeper,
    takeovers::OldDaemonSet,
    world::{KnownReplicaSet, View, controller},
};

/// For how long nothing is created while we may not look at a DaemonSet that is taken over from; then we look again.
const HIDDEN: Duration = Duration::from_secs(30);

/// An override that cannot be used: on which node, and what is wrong.
pub(super) type Complaint = (String, String);

/// What nodes and settings make of a template.
pub(super) struct Overrides<'v> {
    settings: Vec<Setting>,
    statuses: Vec<podwright_api::eds::ExtendedDaemonsetSettingStatus>,
    nodes: HashMap<&'v str, (&'v KnownNode, NodeOverrides)>,
    daemon_set: String,
}

impl<'v> Overrides<'v> {
    pub(super) fn read(view: &'v View) -> Self {
        let set = &view.set;
        let (namespace, daemon_set) = (set.namespace().unwrap_or_default(), set.name_any());
        let settings: Vec<Setting> = view.settings.iter().map(|setting| read_setting(setting)).collect();
        let labels: Vec<&BTreeMap<String, String>> =
            view.nodes.iter().map(|node| &node.facts.labels).collect();
        let statuses = if settings.is_empty() { Vec::new() } else { settings::judge(&settings, &labels) };
        // The others override nothing, and are most.
        let all = !settings.is_empty();
        let nodes = view.nodes.iter().filter(|node| all || !node.overrides.is_empty()).map(|node| {
            let overrides = NodeOverrides::read(&node.overrides, &namespace, &daemon_set);
            (node.facts.name.as_str(), (&**node, overrides))
        });
        Self { settings, statuses, nodes: nodes.collect(), daemon_set }
    }

    /// What a pod of this template on this node should have.
    fn wanted(&self, template: &Value, node: &str) -> Wanted {
        match self.nodes.get(node) {
            None => Wanted::of(template, &NodeOverrides::default(), None),
            Some((node, overrides)) => Wanted::of(template, overrides, self.setting(node)),
        }
    }

    fn setting(&self, node: &KnownNode) -> Option<&Setting> {
        settings::chosen(&self.settings, &self.statuses, &self.daemon_set, &node.facts.labels)
    }

    /// Whether nothing is overridden there.
    fn leaves(&self, node: &str) -> bool {
        self.nodes.get(node).is_none_or(|(node, _)| node.overrides.is_empty() && self.setting(node).is_none())
    }
}

/// A setting as the core sees it.
pub(super) fn read_setting(setting: &ExtendedDaemonsetSetting) -> Setting {
    let created = setting.metadata.creation_timestamp.as_ref().map(|time| time.0.into()).unwrap_or_default();
    Setting::read(&setting.namespace().unwrap_or_default(), &setting.name_any(), created, &setting.spec)
}

impl Keeper {
    /// What the planner is told.
    pub(super) fn observe(&mut self, view: &View, now: Moment) -> Observed {
        let overrides = Overrides::read(view);
        self.complain(view, &overrides);
        let fingerprint = self.fingerprint(&view.set);
        let mut plain: HashMap<&str, Wanted> = HashMap::new();
        let seen: HashSet<&str> = view
            .pods
            .iter()
            .filter(|pod| pod.facts.deleting.is_none())
            .map(|pod| pod.facts.uid.as_str())
            .collect();
        self.deleting.retain(|uid| seen.contains(uid.as_str()));
        let mut pods: Vec<ObservedPod> = Vec::with_capacity(view.pods.len() + self.creating.len());
        for pod in &view.pods {
            let as_wanted = as_wanted(view, pod, &overrides, &mut plain);
            let facts = if self.deleting.contains(&pod.facts.uid) {
                Arc::new(PodFacts { deleting: Some(now), ..(*pod.facts).clone() })
            } else {
                pod.facts.clone()
            };
            pods.push(ObservedPod { facts, as_wanted });
        }
        let under_way = unseen(&self.creating, &view.pods);
        pods.extend(under_way.map(|facts| ObservedPod { facts: facts.clone(), as_wanted: true }));
        Observed {
            set: self.set_facts(&view.set, &fingerprint),
            replica_sets: view
                .replica_sets
                .iter()
                .map(|known| replica_set(known, &view.set, &fingerprint))
                .collect(),
            pods,
            nodes: view.nodes.iter().map(|node| node.facts.clone()).collect(),
            old_daemon_set: match &view.old_daemon_set {
                OldDaemonSet::Known(uid) => Some(uid.clone()),
                _ => None,
            },
            pod_template: view.pod_template.clone(),
            refusal: match &view.old_daemon_set {
                // Where its pods are is not known, so none may be made beside them.
                OldDaemonSet::Hidden(message) => {
                    Some(Refusal { message: message.clone(), until: now.plus(HIDDEN) })
                }
                _ => self.refusal.as_ref().map(|(_, refusal)| refusal.clone()),
            },
        }
    }

    /// The template's, taken once for each generation.
    pub(super) fn fingerprint(&mut self, set: &ExtendedDaemonSet) -> Arc<Fingerprint> {
        let generation = (set.uid().unwrap_or_default(), set.metadata.generation.unwrap_or(0));
        match &self.fingerprint {
            Some((known, fingerprint)) if *known == generation => fingerprint.clone(),
            _ => {
                let fingerprint = Arc::new(Fingerprint::of(&set.spec.template.0));
                self.fingerprint = Some((generation, fingerprint.clone()));
                fingerprint
            }
        }
    }

    fn set_facts(&self, set: &ExtendedDaemonSet, fingerprint: &Fingerprint) -> SetFacts {
        let (strategy, problems) = set.spec.effective(self.context.config.rollout.validation_mode);
        let labels = set.spec.template.labels();
        SetFacts {
            name: set.name_any(),
            generation: set.metadata.generation.unwrap_or(0),
            deleting: set.metadata.deletion_timestamp.is_some(),
            annotations: set.annotations().clone(),
            selector: choice(set.spec.selector.as_ref()),
            template_labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            template_hash: fingerprint.hash.clone(),
            strategy,
            problems: problems.iter().map(ToString::to_string).collect(),
            status: set.status.clone().unwrap_or_default(),
        }
    }

    /// Tells once of each override that cannot be used, on the node and on the ExtendedDaemonSet.
    fn complain(&mut self, view: &View, overrides: &Overrides<'_>) {
        let mut all = HashSet::new();
        for (name, (_, overrides)) in &overrides.nodes {
            for problem in &overrides.problems {
                all.insert(((*name).to_owned(), format!("{}: {}", problem.annotation, problem.message)));
            }
        }
        for (node, text) in all.difference(&self.complaints.clone()) {
            let told = |note: String| Event {
                type_: EventType::Warning,
                reason: "UnreadableOverride".to_owned(),
                note: Some(note),
                action: "RollOut".to_owned(),
                secondary: None,
            };
            let about = k8s_openapi::api::core::v1::Node {
                metadata: kube::api::ObjectMeta { name: Some(node.clone()), ..Default::default() },
                ..Default::default()
            };
            self.publish(told(text.clone()), about.object_ref(&()));
            self.publish(told(format!("node {node}: {text}")), view.set.object_ref(&()));
        }
        self.complaints = all;
    }

    /// The pod that is to be created, as JSON.
    pub(super) fn pod_body(
        &self,
        overrides: &Overrides<'_>,
        known: &KnownReplicaSet,
        creation: &Creation,
    ) -> Value {
        let object = &known.object;
        let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
        let origin = Origin {
            namespace: &self.key.namespace,
            daemon_set: &self.key.name,
            replica_set: &name,
            uid: &uid,
            template_generation: &object.spec.template_generation,
            template: &object.spec.template.0,
            canary: creation.canary,
        };
        let wanted = overrides.wanted(&object.spec.template.0, &creation.node);
        objects::pod(&origin, &creation.node, &wanted, creation.failures)
    }
}

/// Pods that are being created and are not seen yet. One that the watch tells of before its creation was answered is not two.
fn unseen<'c>(
    creating: &'c HashMap<String, Arc<PodFacts>>,
    pods: &[Arc<KnownPod>],
) -> impl Iterator<Item = &'c Arc<PodFacts>> {
    let names: HashSet<String> = if creating.is_empty() {
        HashSet::new()
    } else {
        pods.iter().map(|pod| pod.facts.name.clone()).collect()
    };
    creating.values().filter(move |facts| !names.contains(&facts.name))
}

/// The ExtendedDaemonSet as the owner of what is made for it.
pub(super) fn owner<'s>(set: &'s ExtendedDaemonSet, none: &'s BTreeMap<String, String>) -> Parent<'s> {
    Parent {
        namespace: set.metadata.namespace.as_deref().unwrap_or_default(),
        name: set.metadata.name.as_deref().unwrap_or_default(),
        uid: set.metadata.uid.as_deref().unwrap_or_default(),
        labels: set.metadata.labels.as_ref().unwrap_or(none),
        annotations: set.metadata.annotations.as_ref().unwrap_or(none),
    }
}

/// Whether a pod has what its template, its node and its setting come to. Of templates that are not ours nobody asks.
fn as_wanted<'v>(
    view: &'v View,
    pod: &KnownPod,
    overrides: &Overrides<'v>,
    plain: &mut HashMap<&'v str, Wanted>,
) -> bool {
    let hash = pod.facts.template_hash.as_str();
    let of = view
        .replica_sets
        .iter()
        .find(|known| !hash.is_empty() && known.object.spec.template_generation == hash);
    let (Some(known), Some(node)) = (of, pod.facts.node.as_deref()) else { return true };
    let template = &known.object.spec.template;
    if overrides.leaves(node) {
        let wanted = plain
            .entry(known.object.spec.template_generation.as_str())
            .or_insert_with(|| Wanted::of(&template.0, &NodeOverrides::default(), None));
        return wanted.is_met_by(&pod.record);
    }
    overrides.wanted(&template.0, node).is_met_by(&pod.record)
}

fn replica_set(
    known: &KnownReplicaSet,
    set: &ExtendedDaemonSet,
    fingerprint: &Fingerprint,
) -> ReplicaSetFacts {
    let object = &known.object;
    let hash = object.annotations().get(podwright_api::keys::EDS_TEMPLATE_HASH);
    ReplicaSetFacts {
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        created: object.metadata.creation_timestamp.as_ref().map(|time| time.0.into()).unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        controller: controller(object, set),
        template_hash: hash.cloned().unwrap_or_default(),
        template_generation: object.spec.template_generation.clone(),
        same_template: known.fingerprint.identity == fingerprint.identity,
        placement: known.placement.clone(),
        selector: choice(object.spec.selector.as_ref()),
        status: object.status.clone().unwrap_or_default(),
    }
}

fn choice(selector: Option<&LabelSelector>) -> NodeChoice {
    match selector.map(LabelSelector::checked) {
        None => NodeChoice::All,
        Some(Ok(selector)) => NodeChoice::Matching(selector),
        Some(Err(_)) => NodeChoice::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use podwright_core::rollout::overrides::PodRecord;

    use super::*;

    fn named(name: &str) -> Arc<PodFacts> {
        Arc::new(PodFacts { name: name.to_owned(), ..PodFacts::default() })
    }

    #[test]
    fn a_pod_that_is_seen_before_its_creation_was_answered_is_not_two() {
        let creating = HashMap::from([("n1".to_owned(), named("foo-1")), ("n2".to_owned(), named("foo-2"))]);
        let seen = [Arc::new(KnownPod { facts: named("foo-1"), record: PodRecord::Plain })];
        let names: Vec<&str> = unseen(&creating, &seen).map(|facts| facts.name.as_str()).collect();
        assert_eq!(names, ["foo-2"]);
        assert_eq!(unseen(&creating, &[]).count(), 2);
    }

    #[test]
    fn a_selector_that_cannot_be_read_is_neither_all_nodes_nor_none() {
        let selector: LabelSelector = serde_json::from_value(
            serde_json::json!({"matchExpressions": [{"key": "a", "operator": "Sideways"}]}),
        )
        .unwrap();
        assert_eq!(choice(Some(&selector)), NodeChoice::Unclear);
        assert_eq!(choice(None), NodeChoice::All);
    }
}
