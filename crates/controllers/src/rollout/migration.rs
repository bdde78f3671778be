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
    takeovers::{OldDaemonSet, Teller},
    world::World,
};

/// One DaemonSet that is taken over from. Dropping it ends the takeover and its watches.
pub(super) struct Migration {
    pub(super) daemon_set: String,
    world: Arc<World>,
    key: Key,
    teller: Teller,
    cancel: CancellationToken,
}

impl Drop for Migration {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.world.end_takeover(&self.key, self.teller);
    }
}

impl Migration {
    /// Watches the DaemonSet, if there is one, and its pods. That it is not there, or that we may not look, holds nobody up.
    pub(super) fn start(client: Client, world: Arc<World>, key: Key, daemon_set: &str) -> Self {
        let cancel = CancellationToken::new();
        let teller = world.begin_takeover(&key);
        let watch = DaemonSetWatch {
            client,
            world: world.clone(),
            key: key.clone(),
            name: daemon_set.to_owned(),
            teller,
            cancel: cancel.clone(),
        };
        let token = cancel.clone();
        tokio::spawn(async move { token.run_until_cancelled(watch.run()).await });
        Self { daemon_set: daemon_set.to_owned(), world, key, teller, cancel }
    }
}

/// The watch of one DaemonSet.
struct DaemonSetWatch {
    client: Client,
    world: Arc<World>,
    key: Key,
    name: String,
    teller: Teller,
    cancel: CancellationToken,
}

impl DaemonSetWatch {
    async fn run(self) {
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), &self.key.namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut events = watcher(api, config).default_backoff().boxed();
        let mut pods: Option<(String, LabelSelector, CancellationToken)> = None;
        let mut listed = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Apply(found) | watcher::Event::InitApply(found)) => {
                    listed = true;
                    let uid = found.uid().unwrap_or_default();
                    let selector = found.spec.map(|spec| spec.selector).unwrap_or_default();
                    if pods.as_ref().is_some_and(|(known, by, _)| *known == uid && *by == selector) {
                        continue;
                    }
                    let watching = self.cancel.child_token();
                    self.watch_pods(&uid, &selector, &watching);
                    if let Some((_, _, before)) = pods.replace((uid, selector, watching)) {
                        before.cancel();
                    }
                }
                Ok(watcher::Event::Init) => listed = false,
                Ok(watcher::Event::InitDone) if listed => {}
                // Deleted, or not among all that there are: it was never there, or went while nobody watched.
                Ok(watcher::Event::InitDone | watcher::Event::Delete(_)) => {
                    if let Some((_, _, before)) = pods.take() {
                        before.cancel();
                    }
                    self.tell(OldDaemonSet::None);
                }
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    if pods.is_none() {
                        let text = cause.clone().unwrap_or_else(|| error.to_string());
                        self.tell(OldDaemonSet::Hidden(format!(
                            "cannot look at DaemonSet {}: {text}",
                            self.name
                        )));
                    }
                    tracing::warn!(extended_daemon_set = %self.key, daemon_set = self.name, %error, cause, "failed to watch the DaemonSet that is taken over from");
                }
            }
        }
    }

    fn tell(&self, now: OldDaemonSet) {
        self.world.old_daemon_set(&self.key, self.teller, now);
    }

    fn watch_pods(&self, uid: &str, selector: &LabelSelector, cancel: &CancellationToken) {
        // The API server gives only selectors that can be read.
        let Ok(selector) = Selector::try_from(selector.clone()) else { return };
        let (world, key) = (self.world.clone(), self.key.clone());
        let teller = world.state().takeovers.expect_pods(&key, self.teller);
        let sink = OldPods { world: world.clone(), key: key.clone(), daemon_set: uid.to_owned(), teller };
        let uid = uid.to_owned();
        let feed = Feed {
            client: self.client.clone(),
            namespace: Some(key.namespace.to_string()),
            config: watcher::Config::default().labels(&selector.to_string()),
            arrived: Some(Box::new(move || world.old_daemon_set(&key, teller, OldDaemonSet::Known(uid)))),
        };
        tokio::spawn(feed.run(sink, cancel.clone()));
    }
}
