//! Whose pod it is, and for which node it is meant.

use serde::Deserialize;

use super::{
    PodView,
    scheduling::{NodeRequirement, PreferredTerm},
    view::null_is_empty,
};

/// An object that owns the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Its group and version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name, in the pod's namespace.
    pub name: String,
    /// Whether it is the one that makes and deletes what it owns.
    pub controller: Option<bool>,
}

impl OwnerReference {
    /// The Deployment that a ReplicaSet of this name belongs to if it is named as a Deployment's are, with the hash of the pod
    /// template at the end.
    #[must_use]
    pub fn deployment_of(replica_set: &Self, hash: &str) -> Option<Self> {
        let name = replica_set.name.strip_suffix(hash)?.strip_suffix('-').filter(|name| !name.is_empty())?;
        Some(Self {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            name: name.to_owned(),
            controller: Some(true),
        })
    }
}

/// Where a pod may run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// By node.
    pub node_affinity: Option<NodeAffinity>,
}

/// On which nodes a pod may run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinity {
    /// What the scheduler insists on.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<RequiredNodes>,
    /// What the scheduler weighs.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Option<Vec<PreferredTerm>>,
}

/// The nodes of any of these terms.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequiredNodes {
    /// One of these must hold.
    #[serde(deserialize_with = "null_is_empty")]
    pub node_selector_terms: Vec<NodeTerm>,
}

/// A term: all its conditions must hold, and without any it matches no node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTerm {
    /// Conditions on a node's labels. All must hold.
    pub match_expressions: Option<Vec<NodeRequirement>>,
    /// Conditions on a node's fields. All must hold.
    #[serde(deserialize_with = "null_is_empty")]
    pub match_fields: Vec<FieldRequirement>,
}

/// A condition on a node's field.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct FieldRequirement {
    /// The field; Kubernetes knows only `metadata.name`.
    pub key: String,
    /// Such as `In`.
    pub operator: String,
    /// What it is compared with.
    #[serde(deserialize_with = "null_is_empty")]
    pub values: Vec<String>,
}

/// The owner by which a pod is a DaemonSet's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonOwner<'p> {
    /// A DaemonSet itself.
    DaemonSet(&'p OwnerReference),
    /// A replica set of an ExtendedDaemonSet.
    ExtendedReplicaSet(&'p OwnerReference),
}

impl DaemonOwner<'_> {
    /// Group and version, and kind, of each.
    pub const KINDS: [(&'static str, &'static str); 2] =
        [("apps/v1", "DaemonSet"), ("datadoghq.com/v1alpha1", "ExtendedDaemonSetReplicaSet")];
}

impl<'p> DaemonOwner<'p> {
    /// The reference to it.
    #[must_use]
    pub const fn reference(self) -> &'p OwnerReference {
        match self {
            Self::DaemonSet(reference) | Self::ExtendedReplicaSet(reference) => reference,
        }
    }
}

impl PodView {
    /// The first owner by which it is a DaemonSet's or an ExtendedDaemonSet's.
    #[must_use]
    pub fn daemon_owner(&self) -> Option<DaemonOwner<'_>> {
        let [daemon_set, extended] = DaemonOwner::KINDS;
        self.metadata.owner_references.iter().find_map(|owner| {
            let kind = (owner.api_version.as_str(), owner.kind.as_str());
            if kind == daemon_set {
                Some(DaemonOwner::DaemonSet(owner))
            } else if kind == extended {
                Some(DaemonOwner::ExtendedReplicaSet(owner))
            } else {
                None
            }
        })
    }

    /// The terms of its required node affinity, if it has one.
    #[must_use]
    pub fn required_terms(&self) -> Option<&[NodeTerm]> {
        let required = self.spec.affinity.as_ref()?.node_affinity.as_ref()?.required.as_ref()?;
        Some(&required.node_selector_terms)
    }

    /// The object that made it and would delete it.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.metadata.owner_references.iter().find(|owner| owner.controller == Some(true))
    }

    /// The node that it is bound to, or else the only one that its required node affinity names, which is how the DaemonSet
    /// controller makes it. Labels are not asked: a hostname label need not be the node's name.
    #[must_use]
    pub fn target_node(&self) -> Option<&str> {
        if let Some(name) = self.spec.node_name.as_deref().filter(|name| !name.is_empty()) {
            return Some(name);
        }
        let (first, others) = self.required_terms()?.split_first()?;
        let node = first.node()?;
        others.iter().all(|term| term.node() == Some(node)).then_some(node)
    }
}

impl NodeTerm {
    /// Its conditions on labels.
    pub fn expressions(&self) -> impl Iterator<Item = &NodeRequirement> {
        self.match_expressions.iter().flatten()
    }

    /// Whether it has no condition at all and so matches no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.match_fields.is_empty() && self.expressions().next().is_none()
    }

    /// The one node that it allows, if it is one by name.
    fn node(&self) -> Option<&str> {
        let mut names =
            self.match_fields.iter().filter(|field| field.key == "metadata.name" && field.operator == "In");
        let [node] = &names.next()?.values[..] else {
            return None;
        };
        names.all(|field| field.values == [node.as_str()]).then_some(node.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(value: Value) -> PodView {
        PodView::read(&value.to_string()).unwrap()
    }

    fn with_terms(terms: Value) -> PodView {
        pod(json!({"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }}}}))
    }

    fn named(nodes: &[&str]) -> Value {
        json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": nodes}]})
    }

    #[test]
    fn the_node_is_read_from_the_binding_before_the_affinity() {
        let mut bound = with_terms(json!([named(&["b"])]));
        assert_eq!(bound.target_node(), Some("b"));
        bound.spec.node_name = Some("a".to_owned());
        assert_eq!(bound.target_node(), Some("a"));
        bound.spec.node_name = Some(String::new());
        assert_eq!(bound.target_node(), Some("b"));
    }

    #[test]
    fn every_term_must_name_the_same_single_node() {
        let mut with_labels = named(&["a"]);
        with_labels["matchExpressions"] = json!([{"key": "pool", "operator": "Exists"}]);
        for (terms, node) in [
            (json!([named(&["a"]), with_labels]), Some("a")),
            (json!([named(&["a"]), named(&["b"])]), None),
            (json!([named(&["a", "b"])]), None),
            (json!([named(&[])]), None),
            (json!([named(&["a"]), {}]), None),
            (json!([]), None),
            (Value::Null, None),
            (
                json!([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}]),
                None,
            ),
        ] {
            assert_eq!(with_terms(terms.clone()).target_node(), node, "{terms}");
        }
    }

    #[test]
    fn a_hostname_label_is_not_a_node() {
        let hostname = json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}]);
        assert_eq!(with_terms(hostname).target_node(), None);
        assert_eq!(
            pod(json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "a"}}})).target_node(),
            None
        );
    }

    #[test]
    fn any_owner_of_the_right_kind_makes_it_a_daemon_sets_pod() {
        let pod_of = |version: &str, kind: &str| {
            pod(json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "n"}, {"apiVersion": version, "kind": kind, "name": "x", "uid": "u"},
            ]}}))
        };
        let daemon_set = pod_of("apps/v1", "DaemonSet");
        assert!(
            matches!(daemon_set.daemon_owner(), Some(DaemonOwner::DaemonSet(owner)) if owner.name == "x")
        );
        let extended = pod_of("datadoghq.com/v1alpha1", "ExtendedDaemonSetReplicaSet");
        assert!(matches!(extended.daemon_owner(), Some(DaemonOwner::ExtendedReplicaSet(_))));
        for (version, kind) in [("apps/v1", "ReplicaSet"), ("extensions/v1beta1", "DaemonSet")] {
            assert_eq!(pod_of(version, kind).daemon_owner(), None);
        }
        assert_eq!(pod(json!({"metadata": {"ownerReferences": null}})).daemon_owner(), None);
    }
}
