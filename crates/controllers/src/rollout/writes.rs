//! What is written, each write only while this replica may.

use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, Request},
    core::NamespaceResourceScope,
};
use podwright_api::eds::ExtendedDaemonSetReplicaSet;
use podwright_runtime::lease::Leadership;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{pod::DaemonPod, shelf::Key};

/// Why something was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// Another replica leads.
    #[error("another replica leads")]
    NotLeading,
    /// The API server did not take it.
    #[error(transparent)]
    Refused(#[from] kube::Error),
}

impl WriteError {
    /// The HTTP status, if the API server gave one.
    fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// It is not there.
    pub(super) fn is_gone(&self) -> bool {
        self.code() == Some(404)
    }

    /// The API server would not have it, whatever we know.
    pub(super) fn is_refusal(&self) -> bool {
        !matches!(self, Self::NotLeading) && !self.is_gone() && !self.is_conflict()
    }

    /// It is not what we thought it was: what we know is old.
    pub(super) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// In the words of the API server.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Refused(kube::Error::Api(status)) => status.message.clone(),
            other => other.to_string(),
        }
    }
}

/// The one hand that writes.
#[derive(Clone)]
pub(super) struct Pen {
    pub(super) client: Client,
    pub(super) leadership: Leadership,
}

impl Pen {
    fn check(&self) -> Result<(), WriteError> {
        if self.leadership.is_current() { Ok(()) } else { Err(WriteError::NotLeading) }
    }

    /// Creates an object from JSON, so that fields which no type of ours knows survive.
    pub(super) async fn create<K>(&self, namespace: &str, body: &Value) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
    {
        self.check()?;
        let request = Request::new(K::url_path(&(), Some(namespace)));
        let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        let request = request.create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
        Ok(self.client.request(request).await?)
    }

    /// Puts JSON in the place of an object, whatever it has become.
    pub(super) async fn replace<K>(&self, key: &Key, body: &Value) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
    {
        self.check()?;
        let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        let request = Request::new(K::url_path(&(), Some(&key.namespace)))
            .replace(&key.name, &PostParams::default(), body)
            .map_err(kube::Error::BuildRequest)?;
        Ok(self.client.request(request).await?)
    }

    /// Stores a status, unless the object has changed since it was read: somebody may have written into it what must not be
    /// lost.
    pub(super) async fn store_status<K>(&self, object: &K, status: &impl Serialize) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
    {
        self.check()?;
        let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
        let body = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()),
            "metadata": {"name": name, "namespace": namespace, "resourceVersion": object.resource_version()},
            "status": status,
        });
        let body = serde_json::to_vec(&body).map_err(kube::Error::SerdeError)?;
        let request = Request::new(K::url_path(&(), Some(&namespace)))
            .replace_subresource("status", &name, &PostParams::default(), body)
            .map_err(kube::Error::BuildRequest)?;
        Ok(self.client.request(request).await?)
    }

    /// Merges a change into an object; with `version`, only if it has not changed since.
    pub(super) async fn merge<K>(
        &self,
        key: &Key,
        version: Option<String>,
        mut change: Value,
    ) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        self.check()?;
        if let Some(version) = version {
            change["metadata"]["resourceVersion"] = json!(version);
        }
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        Ok(api.patch(&key.name, &PatchParams::default(), &Patch::Merge(change)).await?)
    }

    /// Puts something in the place of a field, or takes the field away, only if the object has not changed since.
    pub(super) async fn set_field<K>(
        &self,
        key: &Key,
        version: Option<String>,
        path: &str,
        value: Option<&Value>,
    ) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        self.check()?;
        // A version that is not the object's any more is a conflict.
        let change = json!([
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            match value {
                Some(value) => json!({"op": "add", "path": path, "value": value}),
                None => json!({"op": "remove", "path": path}),
            },
        ]);
        let change = serde_json::from_value(change).map_err(kube::Error::SerdeError)?;
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        Ok(api.patch(&key.name, &PatchParams::default(), &Patch::Json::<()>(change)).await?)
    }

    /// Deletes an object if it is still the one that was seen. One that is gone or another already is as good.
    pub(super) async fn delete<K>(&self, key: &Key, uid: &str) -> Result<(), WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        self.check()?;
        let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::background() };
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        match api.delete(&key.name, &params).await.map_err(WriteError::from) {
            Err(error) if error.is_gone() || error.is_conflict() => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// A replica set as it is, for when a write shows that we do not know of it.
    pub(super) async fn read_replica_set(
        &self,
        key: &Key,
    ) -> Result<Option<ExtendedDaemonSetReplicaSet>, WriteError> {
        let api: Api<ExtendedDaemonSetReplicaSet> = Api::namespaced(self.client.clone(), &key.namespace);
        Ok(api.get_opt(&key.name).await?)
    }

    /// A pod as it is, for when a write shows that we do not know of it.
    pub(super) async fn read_pod(&self, key: &Key) -> Result<Option<DaemonPod>, WriteError> {
        let api: Api<DaemonPod> = Api::namespaced(self.client.clone(), &key.namespace);
        Ok(api.get_opt(&key.name).await?)
    }
}
