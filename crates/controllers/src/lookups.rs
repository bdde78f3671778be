//! What admission has to know of the cluster: from the caches, and live where a cache does not have it yet.
//!
//! A cache is a moment behind. What it lacks may just have been created, so it is asked for once, live, before anybody is
//! told that it does not exist.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta},
    runtime::reflector::ObjectRef,
};
use podwright_core::mutate::{Fact, Lookup, WorkloadFacts};

use crate::{
    architecture::{Images, Kinds},
    caches::Caches,
    distribution::{Desk, controller_of},
    nodes,
};

/// Where facts come from.
#[derive(Clone)]
pub struct Lookups {
    /// For what the caches lack.
    pub client: Client,
    /// What is known.
    pub caches: Caches,
    /// Of which kinds the nodes are.
    pub kinds: Kinds,
    /// Who knows what images are built for.
    pub images: Arc<dyn Images>,
    /// How long images may take.
    pub patience: Duration,
    /// Who gives places to pods, if pods are spread.
    pub desk: Option<Desk>,
}

impl Lookups {
    /// The fact, or none if there is no such thing.
    pub async fn find(&self, lookup: &Lookup) -> Result<Option<Fact>, kube::Error> {
        match lookup {
            Lookup::Cluster => Ok(Some(Fact::Cluster(self.kinds.current()))),
            Lookup::Image(image) => Ok(Some(Fact::Image(self.images.find(image, self.patience).await))),
            Lookup::Node { name } => {
                let node = match self.caches.nodes.get(&ObjectRef::new(name)) {
                    Some(node) => Some(node),
                    None => Api::<Node>::all(self.client.clone()).get_opt(name).await?.map(Arc::new),
                };
                Ok(node.map(|node| Fact::Node(Arc::new(nodes::facts(&node)))))
            }
            Lookup::Template { name } => {
                let template = match self.caches.templates.get(&ObjectRef::new(name)) {
                    Some(template) => Some(template),
                    None => Api::all(self.client.clone()).get_opt(name).await?.map(Arc::new),
                };
                Ok(template.map(|template| Fact::Template(Arc::new(template.spec.clone()))))
            }
            Lookup::Rules { namespace, maker } => {
                let Some(desk) = &self.desk else { return Ok(None) };
                Ok(desk.rules(namespace, maker.as_deref()).await.map(Fact::Rules))
            }
            Lookup::Place { namespace, rule, ask, dry_run } => {
                let Some(desk) = &self.desk else { return Ok(None) };
                Ok(desk.place(namespace, rule, ask, *dry_run).await.map(Fact::Place))
            }
            Lookup::Workload { api_version, kind, namespace, name } => {
                self.workload(api_version, kind, namespace, name).await.map(|facts| facts.map(Fact::Workload))
            }
        }
    }

    async fn workload(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<WorkloadFacts>>, kube::Error> {
        if (api_version, kind) == ("apps/v1", "DaemonSet") {
            let key = ObjectRef::new(name).within(namespace);
            if let Some(daemon_set) = self.caches.daemon_sets.get(&key) {
                return Ok(Some(Arc::new(WorkloadFacts {
                    annotations: daemon_set.annotations().clone(),
                    ..WorkloadFacts::default()
                })));
            }
        }
        let known =
            self.caches.rollouts.as_ref().and_then(|all| all.workload(api_version, kind, namespace, name));
        if let Some(metadata) = known {
            return Ok(Some(Arc::new(workload_facts(&metadata))));
        }
        if (api_version, kind) == ("apps/v1", "ReplicaSet") {
            let key = ObjectRef::new(name).within(namespace);
            if let Some(replica_set) = self.caches.replica_sets.get(&key) {
                return Ok(Some(Arc::new(workload_facts(&replica_set.metadata))));
            }
        }
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let found = api.get_opt(name).await?;
        Ok(found.map(|object| Arc::new(workload_facts(&object.metadata))))
    }
}

fn workload_facts(metadata: &ObjectMeta) -> WorkloadFacts {
    WorkloadFacts {
        annotations: metadata.annotations.clone().unwrap_or_default(),
        owner: controller_of(metadata.owner_references.as_deref().unwrap_or_default()),
    }
}
