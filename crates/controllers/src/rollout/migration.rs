//! Pods of a DaemonSet that an ExtendedDaemonSet takes over from, watched only while its annotation asks for it.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::{api::apps::v1::DaemonSet, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{
    Api, Client, ResourceExt,
    core::Selector,
    runtime::{WatchStreamExt, watcher},
};
use tokio_util::sync::CancellationToken;

use super::{
    feed::Feed,
    shelf::Key,
    sinks::OldPods,
    world::{OldDaemonSet, World},
};

/// One DaemonSet that is taken over from. Dropping it ends the watches.
pub(super) struct Migration {
    pub(super) daemon_set: String,
    cancel: CancellationToken,
}

impl Drop for Migration {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Migration {
    /// Watches the DaemonSet, if there is one, and its pods. That it is not there, or that we may not look, holds nobody up.
    pub(super) fn start(client: Client, world: Arc<World>, key: Key, daemon_set: &str) -> Self {
        let cancel = CancellationToken::new();
        world.old_daemon_set(&key, OldDaemonSet::Unseen);
        let name = daemon_set.to_owned();
        let (inner, token) = (name.clone(), cancel.clone());
        tokio::spawn(async move {
            let watching = watch(client, world.clone(), key.clone(), &inner, token.clone());
            token.run_until_cancelled(watching).await;
            world.old_daemon_set(&key, OldDaemonSet::None);
        });
        Self { daemon_set: name, cancel }
    }
}

async fn watch(client: Client, world: Arc<World>, key: Key, name: &str, cancel: CancellationToken) {
    let api: Api<DaemonSet> = Api::namespaced(client.clone(), &key.namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = watcher(api, config).default_backoff().boxed();
    let mut pods: Option<(String, LabelSelector, CancellationToken)> = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(found) | watcher::Event::InitApply(found)) => {
                let uid = found.uid().unwrap_or_default();
                let selector = found.spec.map(|spec| spec.selector).unwrap_or_default();
                if pods.as_ref().is_some_and(|(known, by, _)| *known == uid && *by == selector) {
                    continue;
                }
                let watching = cancel.child_token();
                watch_pods(&client, &world, &key, &uid, &selector, &watching);
                if let Some((_, _, before)) = pods.replace((uid, selector, watching)) {
                    before.cancel();
                }
            }
            Ok(watcher::Event::Delete(_)) => {
                if let Some((_, _, before)) = pods.take() {
                    before.cancel();
                }
                world.old_daemon_set(&key, OldDaemonSet::None);
            }
            Ok(watcher::Event::InitDone) if pods.is_none() => world.old_daemon_set(&key, OldDaemonSet::None),
            Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                if pods.is_none() {
                    let text = cause.clone().unwrap_or_else(|| error.to_string());
                    world.old_daemon_set(
                        &key,
                        OldDaemonSet::Hidden(format!("cannot look at DaemonSet {name}: {text}")),
                    );
                }
                tracing::warn!(extended_daemon_set = %key, daemon_set = name, %error, cause, "failed to watch the DaemonSet that is taken over from");
            }
        }
    }
}

fn watch_pods(
    client: &Client,
    world: &Arc<World>,
    key: &Key,
    uid: &str,
    selector: &LabelSelector,
    cancel: &CancellationToken,
) {
    // The API server gives only selectors that can be read.
    let Ok(selector) = Selector::try_from(selector.clone()) else { return };
    let feed = Feed {
        client: client.clone(),
        namespace: Some(key.namespace.to_string()),
        config: watcher::Config::default().labels(&selector.to_string()),
        arrived: Some(Box::new({
            let (world, key, uid) = (world.clone(), key.clone(), uid.to_owned());
            move || world.old_daemon_set(&key, OldDaemonSet::Known(uid))
        })),
    };
    let sink = OldPods { world: world.clone(), key: key.clone(), daemon_set: uid.to_owned() };
    tokio::spawn(feed.run(sink, cancel.clone()));
}
