//! Pods, of which only what is looked at is read: a busy watch costs little time, and a long list little memory.
//!
//! They are read without a guard that lets one pass which cannot be read, because that costs three copies of each. So nothing may
//! be read here that somebody could write and we could not read: no quantities but as text, and no times but the API server's own.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    api::core::v1,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kube::{Resource, core::NamespaceResourceScope};
use serde::{Deserialize, Deserializer};

/// A pod, of which this is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "Spec: Default + Deserialize<'de>, Status: Default + Deserialize<'de>"))]
pub(crate) struct Pod<Spec, Status> {
    #[serde(deserialize_with = "metadata")]
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

impl<Spec, Status> Resource for Pod<Spec, Status> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        v1::Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        v1::Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        v1::Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        v1::Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
}

/// Reads metadata without the record of who set which field, which is often larger than all the rest of an object.
fn metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let read = Metadata::deserialize(from)?;
    Ok(ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        labels: read.labels,
        annotations: read.annotations,
        owner_references: read.owner_references,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        ..ObjectMeta::default()
    })
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_read_of_a_pod_is_as_it_was_written() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "p", "namespace": "apps", "uid": "u", "resourceVersion": "7", "generateName": "p-",
                "labels": {"a": "b"}, "annotations": {"c": "d"}, "creationTimestamp": "2026-01-02T03:04:05Z",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "o", "controller": true}],
                "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
            },
            "spec": {"containers": []}, "status": {"phase": "Running"},
        });
        let whole: v1::Pod = serde_json::from_value(pod.clone()).unwrap();
        let slim: Pod<v1::PodSpec, v1::PodStatus> = serde_json::from_value(pod).unwrap();
        assert!(slim.managed_fields().is_empty());
        let known = ObjectMeta { managed_fields: None, generate_name: None, ..whole.metadata };
        assert_eq!((slim.metadata, slim.status), (known, whole.status.unwrap()));
    }

    #[test]
    fn a_pod_without_a_status_or_anything_else_is_read_too() {
        let slim: Pod<v1::PodSpec, v1::PodStatus> = serde_json::from_value(json!({"metadata": {}})).unwrap();
        assert_eq!(slim.status, v1::PodStatus::default());
    }
}
