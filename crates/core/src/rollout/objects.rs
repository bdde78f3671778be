//! The objects that are made from an ExtendedDaemonSet, as raw JSON, so that no field of a template is lost.

use std::collections::BTreeMap;

use podwright_api::{eds::ExtendedDaemonSetSpec, keys};
use serde_json::{Map, Value, json};

use super::{
    fingerprint::{Fingerprint, safe_suffix},
    overrides::Wanted,
};
use crate::node::STANDARD_TOLERATIONS;

const API_VERSION: &str = "datadoghq.com/v1alpha1";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What a label can hold, and what Kubernetes makes names of.
const LABEL_LENGTH: usize = 63;
/// With 27 characters to choose from, one name in fourteen million, as Kubernetes' own.
const SUFFIX: usize = 5;
/// Names of pods must differ from node to node: here it is one in 280 thousand million.
const POD_SUFFIX: usize = 8;

/// An ExtendedDaemonSet, as the owner of what is made from it.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'p> {
    /// Its namespace.
    pub namespace: &'p str,
    /// Its name.
    pub name: &'p str,
    /// Its uid.
    pub uid: &'p str,
    /// Its labels.
    pub labels: &'p BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: &'p BTreeMap<String, String>,
}

/// A replica set, as the owner of its pods.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'o> {
    /// Its namespace.
    pub namespace: &'o str,
    /// The ExtendedDaemonSet's name.
    pub daemon_set: &'o str,
    /// Its name.
    pub replica_set: &'o str,
    /// Its uid.
    pub uid: &'o str,
    /// Its `spec.templateGeneration`.
    pub template_generation: &'o str,
    /// Its `spec.template`.
    pub template: &'o Value,
    /// Whether it is the canary: then its pods say so from the start.
    pub canary: bool,
}

/// The name of the replica set for a template: always the same for what means the same, so that two controllers, or one with
/// an old view, cannot make two. `taken` tells whether a replica set of another template has a name already.
#[must_use]
pub fn replica_set_name(daemon_set: &str, fingerprint: &Fingerprint, taken: impl Fn(&str) -> bool) -> String {
    let longest = LABEL_LENGTH - SUFFIX - 1;
    let prefix = daemon_set.get(..longest).unwrap_or(daemon_set).trim_end_matches(['-', '.']);
    let name = |attempt: u32| {
        // The whole name counts: it may have been cut.
        let seed = format!("{daemon_set}/{}/{attempt}", fingerprint.identity);
        format!("{prefix}-{}", safe_suffix(seed.as_bytes(), SUFFIX))
    };
    (0..=u32::MAX).map(name).find(|name| !taken(name)).unwrap_or_default()
}

/// The replica set for an ExtendedDaemonSet's template.
#[must_use]
pub fn replica_set(
    parent: &Parent<'_>,
    name: &str,
    spec: &ExtendedDaemonSetSpec,
    fingerprint: &Fingerprint,
) -> Value {
    let mut labels = parent.labels.clone();
    labels.insert(keys::EDS_NAME.to_owned(), parent.name.to_owned());
    let mut body = json!({
        "template": template_of_no_name(&spec.template.0),
        "templateGeneration": fingerprint.hash,
    });
    if let Some(selector) = &spec.selector {
        body["selector"] = json!(selector);
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": "ExtendedDaemonSetReplicaSet",
        "metadata": {
            "namespace": parent.namespace,
            "name": name,
            "generateName": format!("{}-", parent.name),
            "labels": labels,
            "annotations": annotations(parent, fingerprint),
            "ownerReferences": [owner("ExtendedDaemonSet", parent.name, parent.uid)],
        },
        "spec": body,
    })
}

/// The PodTemplate from which the cluster autoscaler learns what a new node will have to run.
#[must_use]
pub fn pod_template(parent: &Parent<'_>, spec: &ExtendedDaemonSetSpec, fingerprint: &Fingerprint) -> Value {
    let mut labels = parent.labels.clone();
    labels.insert(keys::AUTOSCALER_DAEMONSET_POD.to_owned(), "true".to_owned());
    json!({
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {
            "namespace": parent.namespace,
            "name": parent.name,
            "labels": labels,
            "annotations": annotations(parent, fingerprint),
            "ownerReferences": [owner("ExtendedDaemonSet", parent.name, parent.uid)],
        },
        "template": template_of_no_name(&spec.template.0),
    })
}

/// The name of a replica set's pod on a node: always the same, so that the API server refuses a second one. After a pod that
/// failed and may still be there comes one of another name.
#[must_use]
pub fn pod_name(replica_set: &str, node: &str, failures: u32) -> String {
    let seed = format!("{node}/{failures}");
    format!("{replica_set}-{}", safe_suffix(seed.as_bytes(), POD_SUFFIX))
}

/// The pod of a replica set on a node, to which node affinity binds it: the scheduler sees to resources. `failures` is how many before it failed there in a row.
#[must_use]
pub fn pod(origin: &Origin<'_>, node: &str, wanted: &Wanted, failures: u32) -> Value {
    let mut metadata = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = origin.template["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    metadata.insert("namespace".to_owned(), origin.namespace.into());
    metadata.insert("name".to_owned(), pod_name(origin.replica_set, node, failures).into());
    metadata.insert("generateName".to_owned(), format!("{}-", origin.replica_set).into());
    let owners = json!([owner("ExtendedDaemonSetReplicaSet", origin.replica_set, origin.uid)]);
    metadata.insert("ownerReferences".to_owned(), owners);
    let labels = entries(&mut metadata, "labels");
    set(labels, keys::EDS_NAME, origin.daemon_set);
    set(labels, keys::EDS_REPLICA_SET, origin.replica_set);
    if origin.canary {
        set(labels, keys::EDS_CANARY, "true");
    }
    for (key, value) in wanted.labels() {
        set(labels, key, value);
    }
    let annotations = entries(&mut metadata, "annotations");
    set(annotations, keys::EDS_TEMPLATE_HASH, origin.template_generation);
    set(annotations, keys::AUTOSCALER_DAEMONSET_POD, "true");
    for (key, value) in wanted.annotations() {
        set(annotations, key, &value);
    }
    if failures > 0 {
        set(annotations, keys::EDS_POD_FAILURES, &failures.to_string());
    }
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": origin.template["spec"]});
    wanted.apply(&mut pod);
    let spec = object(&mut pod["spec"]);
    tolerate(spec);
    keep_to_node(spec, node);
    pod
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true,
    })
}

/// The user's annotations go along. What tells the controller what to do with the ExtendedDaemonSet, and kubectl's own copy
/// of it, say nothing about what is made from it.
fn annotations(parent: &Parent<'_>, fingerprint: &Fingerprint) -> BTreeMap<String, String> {
    let command = |key: &str| key == LAST_APPLIED || key.starts_with("extendeddaemonset.datadoghq.com/");
    let mut all = parent.annotations.clone();
    all.retain(|key, _| !command(key));
    all.insert(keys::EDS_TEMPLATE_HASH.to_owned(), fingerprint.hash.clone());
    all
}

fn template_of_no_name(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("name");
    }
    template
}

fn entries<'m>(metadata: &'m mut Map<String, Value>, field: &str) -> &'m mut Value {
    let entries = metadata.entry(field).or_insert_with(|| json!({}));
    if !entries.is_object() {
        *entries = json!({});
    }
    entries
}

fn set(entries: &mut Value, key: &str, value: &str) {
    entries[key] = value.into();
}

/// Daemons stay where others are sent away. What the template tolerates already is not said twice.
fn tolerate(spec: &mut Value) {
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for (key, effect) in STANDARD_TOLERATIONS {
        let standard = json!({"key": key, "operator": "Exists", "effect": effect});
        if !tolerations.contains(&standard) {
            tolerations.push(standard);
        }
    }
    spec["tolerations"] = tolerations.into();
}

/// Each of the template's own terms holds on, and the node must be this one.
fn keep_to_node(spec: &mut Value, node: &str) {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let affinity = object(&mut spec["affinity"]);
    let required =
        object(&mut object(&mut affinity["nodeAffinity"])["requiredDuringSchedulingIgnoredDuringExecution"]);
    let mut terms = required["nodeSelectorTerms"].as_array().cloned().unwrap_or_default();
    if terms.is_empty() {
        terms.push(json!({}));
    }
    for term in &mut terms {
        let term = object(term);
        let mut fields = term["matchFields"].as_array().cloned().unwrap_or_default();
        fields.retain(|other| other["key"] != "metadata.name");
        fields.push(field.clone());
        term["matchFields"] = fields.into();
    }
    required["nodeSelectorTerms"] = terms.into();
}

/// The value itself if it is an object, else an empty one in its place.
fn object(value: &mut Value) -> &mut Value {
    if !value.is_object() {
        *value = json!({});
    }
    value
}

#[cfg(test)]
mod tests;
