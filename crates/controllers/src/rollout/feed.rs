//! A watch that feeds a sink: told of each object as it is, and of which are gone, also those that went unseen.

use std::{collections::HashSet, fmt::Debug};

use futures::{Stream, StreamExt};
use kube::{
    Api, Client, Resource,
    core::{DeserializeGuard, NamespaceResourceScope},
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::shelf::Key;
use crate::caches::readable;

/// Where the objects of a watch go.
pub(super) trait Sink<K>: Send + 'static {
    /// It is so now.
    fn apply(&self, object: &K);
    /// It is gone.
    fn delete(&self, object: &K);
    /// Of what this watch sees there is this and nothing else.
    fn only(&self, seen: &HashSet<Key>);
}

/// What can be watched.
pub(super) trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// What is watched, and where.
pub(super) struct Feed {
    pub(super) client: Client,
    /// None: all namespaces.
    pub(super) namespace: Option<String>,
    pub(super) config: watcher::Config,
    /// Called once all objects are known.
    pub(super) arrived: Option<Box<dyn FnOnce() + Send>>,
}

impl Feed {
    /// Feeds the sink with objects of a built-in kind until cancelled.
    pub(super) async fn run<K: Watched>(self, sink: impl Sink<K>, cancel: CancellationToken) {
        let events = watcher(self.api::<K>(), self.config.clone()).default_backoff();
        self.follow(events, sink, cancel).await;
    }

    /// Feeds the sink with objects of a kind that a user has defined until cancelled. One that cannot be read is passed over.
    pub(super) async fn run_custom<K: Watched>(self, sink: impl Sink<K>, cancel: CancellationToken) {
        let events = watcher(self.api::<DeserializeGuard<K>>(), self.config.clone())
            .default_backoff()
            .filter_map(|event| std::future::ready(event.map(readable).transpose()));
        self.follow(events, sink, cancel).await;
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    async fn follow<K: Watched>(
        mut self,
        events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send,
        sink: impl Sink<K>,
        cancel: CancellationToken,
    ) {
        let kind = K::kind(&()).into_owned();
        let mut events = events.boxed();
        let mut seen = HashSet::new();
        while let Some(Some(event)) = cancel.run_until_cancelled(events.next()).await {
            match event {
                Ok(watcher::Event::Apply(object)) => sink.apply(&object),
                Ok(watcher::Event::Delete(object)) => sink.delete(&object),
                Ok(watcher::Event::Init) => seen.clear(),
                Ok(watcher::Event::InitApply(object)) => {
                    seen.insert(Key::of(&object));
                    sink.apply(&object);
                }
                Ok(watcher::Event::InitDone) => {
                    sink.only(&std::mem::take(&mut seen));
                    if let Some(arrived) = self.arrived.take() {
                        arrived();
                    }
                }
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(%kind, %error, cause, "failed to watch");
                }
            }
        }
    }
}
