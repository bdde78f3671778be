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

use super::shelf::{Key, Stamp};
use crate::caches;

/// Where the objects of a watch go.
pub(super) trait Sink<K>: Send + 'static {
    /// It is so now.
    fn apply(&self, object: &K);
    /// It is gone.
    fn delete(&self, object: &Stamp);
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
    /// Feeds the sink with objects of which none can be written that cannot be read, until cancelled.
    pub(super) async fn run<K: Watched>(self, sink: impl Sink<K>, cancel: CancellationToken) {
        let events = watcher(self.api::<K>(), self.config.clone()).default_backoff();
        follow(events, Some, sink, self.arrived, cancel).await;
    }

    /// Feeds the sink with other objects until cancelled. One that cannot be read is passed over, and
    /// stays what it was until it can be read again or is gone.
    pub(super) async fn run_guarded<K: Watched>(self, sink: impl Sink<K>, cancel: CancellationToken) {
        let events = watcher(self.api::<DeserializeGuard<K>>(), self.config.clone()).default_backoff();
        follow(events, caches::read, sink, self.arrived, cancel).await;
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }
}

/// Puts what a watch tells into the sink until cancelled.
async fn follow<K: Watched, T: Resource<DynamicType = ()>>(
    events: impl Stream<Item = watcher::Result<watcher::Event<T>>> + Send,
    read: impl Fn(T) -> Option<K>,
    sink: impl Sink<K>,
    mut arrived: Option<Box<dyn FnOnce() + Send>>,
    cancel: CancellationToken,
) {
    let kind = K::kind(&()).into_owned();
    let mut events = events.boxed();
    let mut seen = HashSet::new();
    while let Some(Some(event)) = cancel.run_until_cancelled(events.next()).await {
        match event {
            Ok(watcher::Event::Apply(object)) => {
                if let Some(object) = read(object) {
                    sink.apply(&object);
                }
            }
            Ok(watcher::Event::Delete(object)) => sink.delete(&Stamp::of(&object)),
            Ok(watcher::Event::Init) => seen.clear(),
            Ok(watcher::Event::InitApply(object)) => {
                seen.insert(Key::of(&object));
                if let Some(object) = read(object) {
                    sink.apply(&object);
                }
            }
            Ok(watcher::Event::InitDone) => {
                sink.only(&std::mem::take(&mut seen));
                if let Some(arrived) = arrived.take() {
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures::stream;
    use podwright_api::eds::ExtendedDaemonsetSetting;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<Vec<String>>>);

    impl Sink<ExtendedDaemonsetSetting> for Told {
        fn apply(&self, object: &ExtendedDaemonsetSetting) {
            self.0.lock().unwrap().push(format!("{} is", Key::of(object)));
        }

        fn delete(&self, object: &Stamp) {
            self.0.lock().unwrap().push(format!("{} is gone", object.key));
        }

        fn only(&self, seen: &HashSet<Key>) {
            self.0.lock().unwrap().push(format!("{} in all", seen.len()));
        }
    }

    fn setting(spec: &Value) -> DeserializeGuard<ExtendedDaemonsetSetting> {
        let object = json!({
            "apiVersion": "datadoghq.com/v1alpha1", "kind": "ExtendedDaemonsetSetting",
            "metadata": {"namespace": "ns", "name": "s", "uid": "1"}, "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    #[tokio::test]
    async fn an_object_that_cannot_be_read_any_more_stays_what_it_was_until_it_is_gone() {
        let (good, bad) = (json!({"nodeSelector": {}}), json!({"containers": "all of them"}));
        assert!(setting(&good).0.is_ok() && setting(&bad).0.is_err());
        let events = [
            watcher::Event::Apply(setting(&good)),
            watcher::Event::Apply(setting(&bad)),
            watcher::Event::Init,
            watcher::Event::InitApply(setting(&bad)),
            watcher::Event::InitDone,
            watcher::Event::Delete(setting(&bad)),
        ];
        let told = Told::default();
        let events = stream::iter(events.map(Ok));
        follow(events, caches::read, told.clone(), None, CancellationToken::new()).await;
        assert_eq!(*told.0.lock().unwrap(), ["ns/s is", "1 in all", "ns/s is gone"]);
    }
}
