//! A watch that feeds a sink: told of each object as it is, and of which are gone, also those that went unseen.

use std::{collections::HashSet, fmt::Debug};

use futures::StreamExt;
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
    /// Feeds the sink until cancelled. An object that cannot be read is passed over.
    pub(super) async fn run<K>(mut self, sink: impl Sink<K>, cancel: CancellationToken)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let kind = K::kind(&()).into_owned();
        let api: Api<DeserializeGuard<K>> = match &self.namespace {
            Some(namespace) => Api::namespaced(self.client, namespace),
            None => Api::all(self.client),
        };
        let mut events = watcher(api, self.config)
            .default_backoff()
            .filter_map(|event| std::future::ready(event.map(readable).transpose()))
            .boxed();
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
