//! One watch of each kind that we look at, shared by admission and all controllers, each object pruned to what is looked at.

use std::{fmt::Debug, sync::Arc};

use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, DaemonSetSpec, ReplicaSet},
    core::v1::{Node, PodTemplateSpec},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher,
    },
};
use podwright_api::{distributor::PodDistributor, flex::FlexDaemonsetTemplate};
use podwright_runtime::probes::Gate;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use crate::subscription::Subscription;
use crate::{nodes, rollout::Rollouts, subscription::Subscribers};

/// What kubectl remembers of a manifest: as large as the manifest, and of no interest.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What is known of the cluster.
#[derive(Clone)]
pub struct Caches {
    /// Nodes.
    pub nodes: Store<Node>,
    /// DaemonSets.
    pub daemon_sets: Store<DaemonSet>,
    /// Templates.
    pub templates: Store<FlexDaemonsetTemplate>,
    /// ExtendedDaemonSets and their replica sets, where they are rolled out.
    pub rollouts: Option<Rollouts>,
    /// ReplicaSets, of which only who owns them.
    pub replica_sets: Store<PartialObjectMeta<ReplicaSet>>,
    /// PodDistributors.
    pub rules: Store<PodDistributor>,
}

/// What fills one cache.
pub struct Watch<K: 'static + Resource<DynamicType = ()> + Clone> {
    writer: Writer<K>,
    subscribers: Subscribers<K>,
}

impl<K> Watch<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    fn new() -> (Self, Store<K>) {
        let (store, writer) = reflector::store();
        (Self { writer, subscribers: Subscribers::new(store.clone()) }, store)
    }

    /// To be told of each object that changes.
    #[must_use]
    pub fn subscribe(&mut self) -> Subscription<K> {
        self.subscribers.subscribe()
    }

    /// Watches objects of a built-in kind. One that cannot be read must not keep us from all others: it stays what it was. There are
    /// such, though the API server wrote them: a time of the year 9999 in a pod template, say.
    async fn run(
        self,
        client: Client,
        mut look: impl FnMut(&watcher::Event<K>) + Send + 'static,
        prune: impl Fn(&mut K) + Send + 'static,
        told: impl Fn(&watcher::Event<K>) + Send + 'static,
        synced: Gate,
        cancel: CancellationToken,
    ) {
        let events = watcher(Api::<DeserializeGuard<K>>::all(client), watcher::Config::default())
            .default_backoff()
            .filter_map(|event| std::future::ready(event.map(readable).transpose()))
            .inspect_ok(move |event| look(event));
        self.follow(events, prune, told, synced, cancel).await;
    }

    /// Watches objects of a kind that a user has defined.
    ///
    /// One that cannot be read is as if it were not there, also if it could be read before. So all replicas know the same, whenever they started, and
    /// nothing is done for ever by a form of it that nobody can see any more.
    async fn run_custom(
        self,
        client: Client,
        told: impl Fn(&watcher::Event<K>) + Send + 'static,
        synced: Gate,
        cancel: CancellationToken,
    ) {
        let known = self.writer.as_reader();
        let events = watcher(Api::<DeserializeGuard<K>>::all(client), watcher::Config::default())
            .default_backoff()
            .filter_map(move |event| {
                std::future::ready(event.map(|event| readable_or_gone(event, &known)).transpose())
            });
        self.follow(events, prune_metadata, told, synced, cancel).await;
    }

    async fn follow(
        self,
        events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send,
        prune: impl Fn(&mut K) + Send + 'static,
        told: impl Fn(&watcher::Event<K>) + Send + 'static,
        synced: Gate,
        cancel: CancellationToken,
    ) {
        let kind = K::kind(&()).into_owned();
        let mut events = events
            .modify(prune)
            .reflect(self.writer)
            .inspect_ok(move |event| {
                // Before anybody relies on it, and also what subscribers are not told of: deletions.
                told(event);
                self.subscribers.tell(event);
                if matches!(event, watcher::Event::InitDone) {
                    synced.open();
                }
            })
            .boxed();
        while let Some(Some(event)) = cancel.run_until_cancelled(events.next()).await {
            if let Err(error) = event {
                tracing::warn!(%kind, %error, cause = std::error::Error::source(&error).map(ToString::to_string), "failed to watch");
            }
        }
    }
}

/// The object without the guard; none if it cannot be read.
pub(crate) fn read<K: Resource<DynamicType = ()>>(object: DeserializeGuard<K>) -> Option<K> {
    match object.0 {
        Ok(object) => Some(object),
        Err(error) => {
            let name = error.metadata.name.unwrap_or_default();
            tracing::warn!(kind = %K::kind(&()), name, error = %error.error, "an object cannot be read and is passed over");
            None
        }
    }
}

/// The event without the guard; none if the object cannot be read.
fn readable<K: Resource<DynamicType = ()>>(
    event: watcher::Event<DeserializeGuard<K>>,
) -> Option<watcher::Event<K>> {
    Some(match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(read(object)?),
        watcher::Event::InitApply(object) => watcher::Event::InitApply(read(object)?),
        watcher::Event::Delete(object) => watcher::Event::Delete(read(object)?),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitDone => watcher::Event::InitDone,
    })
}

/// The event without the guard. An object that cannot be read is gone, if it is known; else there is no event.
fn readable_or_gone<K: Resource<DynamicType = ()> + Clone>(
    event: watcher::Event<DeserializeGuard<K>>,
    known: &Store<K>,
) -> Option<watcher::Event<K>> {
    // Of those that are listed anew only what can be read is known in the end.
    let key = match &event {
        watcher::Event::Apply(object) | watcher::Event::Delete(object) => {
            let key = ObjectRef::new(&object.name_any());
            Some(object.namespace().iter().fold(key, |key, namespace| key.within(namespace)))
        }
        _ => None,
    };
    readable(event)
        .or_else(|| known.get(&key?).map(|last| watcher::Event::Delete(Arc::unwrap_or_clone(last))))
}

/// The watch of nodes, and what it fills.
#[must_use]
pub fn nodes() -> (Watch<Node>, Store<Node>) {
    Watch::new()
}

impl Watch<Node> {
    /// Watches until cancelled; `synced` opens once all nodes are known. Offers of `vm_resource` are kept. `look` sees each node whole,
    /// before it is pruned; `told` hears of the same events once the cache has them.
    pub async fn watch_nodes(
        self,
        client: Client,
        vm_resource: String,
        look: impl FnMut(&watcher::Event<Node>) + Send + 'static,
        told: impl Fn(&watcher::Event<Node>) + Send + 'static,
        synced: Gate,
        cancel: CancellationToken,
    ) {
        let prune = move |node: &mut Node| nodes::prune(node, &vm_resource);
        self.run(client, look, prune, told, synced, cancel).await;
    }
}

/// The watch of DaemonSets, and what it fills.
#[must_use]
pub fn daemon_sets() -> (Watch<DaemonSet>, Store<DaemonSet>) {
    Watch::new()
}

impl Watch<DaemonSet> {
    /// Watches until cancelled; `synced` opens once all DaemonSets are known. Those that go are told to `deleted` as
    /// `namespace/name`; none means that some may have gone unseen.
    pub async fn watch_daemon_sets(
        self,
        client: Client,
        deleted: mpsc::UnboundedSender<Option<String>>,
        synced: Gate,
        cancel: CancellationToken,
    ) {
        // Subscribers are not told of these.
        let gone = move |event: &watcher::Event<DaemonSet>| {
            let gone = match event {
                watcher::Event::Delete(daemon_set) => {
                    Some(format!("{}/{}", daemon_set.namespace().unwrap_or_default(), daemon_set.name_any()))
                }
                watcher::Event::InitDone => None,
                _ => return,
            };
            // Whoever listens ends with us.
            let _ = deleted.send(gone);
        };
        self.run(client, |_| {}, prune_daemon_set, gone, synced, cancel).await;
    }
}

/// The watch of templates, and what it fills.
#[must_use]
pub fn templates() -> (Watch<FlexDaemonsetTemplate>, Store<FlexDaemonsetTemplate>) {
    Watch::new()
}

impl Watch<FlexDaemonsetTemplate> {
    /// Watches until cancelled; `synced` opens once all templates are known.
    pub async fn watch_templates(self, client: Client, synced: Gate, cancel: CancellationToken) {
        self.run_custom(client, |_| {}, synced, cancel).await;
    }
}

/// The watch of ReplicaSets, and what it fills.
#[must_use]
pub fn replica_sets() -> (Watch<PartialObjectMeta<ReplicaSet>>, Store<PartialObjectMeta<ReplicaSet>>) {
    Watch::new()
}

impl Watch<PartialObjectMeta<ReplicaSet>> {
    /// Watches until cancelled; `synced` opens once all ReplicaSets are known.
    pub async fn watch_replica_sets(self, client: Client, synced: Gate, cancel: CancellationToken) {
        let prune = |replica_set: &mut PartialObjectMeta<ReplicaSet>| {
            replica_set.managed_fields_mut().clear();
            replica_set.annotations_mut().clear();
            replica_set.labels_mut().clear();
        };
        self.run(client, |_| {}, prune, |_| {}, synced, cancel).await;
    }
}

/// The watch of PodDistributors, and what it fills.
#[must_use]
pub fn rules() -> (Watch<PodDistributor>, Store<PodDistributor>) {
    Watch::new()
}

impl Watch<PodDistributor> {
    /// Watches until cancelled. `synced` opens once all rules are known and `gone` has been told so; it is also told of those that
    /// go, by namespace and name.
    pub async fn watch_rules(
        self,
        client: Client,
        gone: impl Fn(Option<(String, String)>) + Send + 'static,
        synced: Gate,
        cancel: CancellationToken,
    ) {
        let told = move |event: &watcher::Event<PodDistributor>| match event {
            watcher::Event::Delete(rule) => {
                gone(Some((rule.namespace().unwrap_or_default(), rule.name_any())));
            }
            watcher::Event::InitDone => gone(None),
            _ => {}
        };
        self.run_custom(client, told, synced, cancel).await;
    }
}

fn prune_metadata<K: Resource>(object: &mut K) {
    object.managed_fields_mut().clear();
    object.annotations_mut().remove(LAST_APPLIED);
}

/// Of the pod template only its annotations count here.
fn prune_daemon_set(daemon_set: &mut DaemonSet) {
    prune_metadata(daemon_set);
    daemon_set.spec = daemon_set.spec.take().map(|spec| DaemonSetSpec {
        selector: spec.selector,
        template: PodTemplateSpec {
            metadata: spec.template.metadata.map(|metadata| {
                k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                    annotations: metadata.annotations,
                    ..Default::default()
                }
            }),
            spec: None,
        },
        ..DaemonSetSpec::default()
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(object: serde_json::Value) -> Option<watcher::Event<FlexDaemonsetTemplate>> {
        readable(watcher::Event::InitApply(serde_json::from_value(object).unwrap()))
    }

    #[test]
    fn a_template_that_cannot_be_read_is_passed_over_and_others_are_not() {
        let types = json!({"apiVersion": "flexdaemonsets.xai/v1alpha1", "kind": "FlexDaemonsetTemplate", "metadata": {"name": "t"}});
        assert!(event(types.clone()).is_none(), "FlexDaemonsets accepts a template without a spec");
        let mut good = types;
        good["spec"] = json!({"cpuPercentage": 1, "memoryPercentage": 2, "storagePercentage": 3});
        assert!(matches!(event(good), Some(watcher::Event::InitApply(_))));
        assert!(readable::<Node>(watcher::Event::Init).is_some());
    }

    fn rule(spec: serde_json::Value) -> DeserializeGuard<PodDistributor> {
        let rule = json!({"apiVersion": "x", "kind": "PodDistributor", "metadata": {"name": "r", "namespace": "ns"}, "spec": spec});
        serde_json::from_value(rule).unwrap()
    }

    #[test]
    fn an_object_that_cannot_be_read_any_more_is_gone_and_so_is_one_that_is_deleted_in_that_state() {
        for gone in [watcher::Event::Apply, watcher::Event::Delete] {
            let (store, mut writer) = reflector::store::<PodDistributor>();
            let mut follow = |event| {
                let event = readable_or_gone(event, &store);
                if let Some(event) = &event {
                    writer.apply_watcher_event(event);
                }
                (event.is_some(), store.len())
            };
            let unreadable = || rule(json!(7));
            assert_eq!(follow(gone(unreadable())), (false, 0), "it was never known");
            let readable = rule(json!({"target": {"kind": "Deployment", "name": "web"}, "distribution": []}));
            assert!(readable.0.is_ok(), "{readable:?}");
            assert_eq!(follow(watcher::Event::Apply(readable)), (true, 1));
            assert_eq!(follow(watcher::Event::InitApply(unreadable())), (false, 1));
            assert_eq!(follow(gone(unreadable())), (true, 0));
        }
    }

    #[test]
    fn what_is_kept_of_a_daemon_set_is_what_is_looked_at() {
        let mut daemon_set: DaemonSet = serde_json::from_value(json!({
            "metadata": {"name": "d", "annotations": {LAST_APPLIED: "{}", "keep": "me"}, "managedFields": [{}]},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"annotations": {"x": "y"}}, "spec": {"containers": [{"name": "c"}]}}},
        }))
        .unwrap();
        prune_daemon_set(&mut daemon_set);
        assert_eq!(daemon_set.annotations().len(), 1);
        let spec = daemon_set.spec.unwrap();
        assert_eq!(spec.selector.match_labels.unwrap()["a"], "b");
        assert!(spec.template.spec.is_none());
        assert_eq!(spec.template.metadata.unwrap().annotations.unwrap()["x"], "y");
    }
}
