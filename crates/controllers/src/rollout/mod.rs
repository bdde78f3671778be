//! ExtendedDaemonSets: rolled out, kept, and told about.
//!
//! ```text
//! watches ─▶ world ─wakes─▶ a keeper for each ExtendedDaemonSet: observe ─▶ core plans ─▶ enact ─▶ API server
//!              ▲                                                                           │
//!              └───────────────────────── what writes were answered with ──────────────────┘
//! ```
//!
//! A keeper is the only one that writes for its ExtendedDaemonSet, so several work side by side and none waits for another. What
//! it has asked for and does not see yet stands in the next observation as if it were there, so a slow cache changes nothing; and
//! pods and replica sets have names that follow from what they are, so the API server refuses a second one whoever asks.

mod enact;
mod facts;
mod feed;
mod keeper;
mod ksmetrics;
mod metrics;
mod migration;
mod observe;
mod pod;
mod settings;
mod shelf;
mod sinks;
mod statuses;
mod takeovers;
mod world;
mod writes;

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::api::core::v1::{Node, PodTemplate};
use kube::{
    Client,
    api::ObjectMeta,
    runtime::{
        events::{Recorder, Reporter},
        watcher,
    },
};
use podwright_api::{
    config::Config,
    eds::{ExtendedDaemonSet, ExtendedDaemonSetReplicaSet, ExtendedDaemonsetSetting},
    keys,
};
use podwright_runtime::{lease::Leadership, probes::Gate};
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

pub use self::metrics::RolloutMetrics;
use self::{
    feed::Feed,
    keeper::Keeper,
    pod::DaemonPod,
    shelf::Key,
    sinks::WorldSink,
    world::{Wake, World},
    writes::Pen,
};

/// How many pods are created or deleted at a time, of all ExtendedDaemonSets together.
const AT_ONCE: usize = 192;
/// On PodTemplates that cluster autoscalers look for; all of ours have it.
const POD_TEMPLATE_LABEL: &str = "cluster-autoscaler.kubernetes.io/daemonset-pod=true";

/// What is known of ExtendedDaemonSets, also on replicas that only look on.
#[derive(Clone)]
pub struct Rollouts {
    world: Arc<World>,
    leadership: Leadership,
}

/// What the controller works with.
pub struct Rollout {
    /// The API server.
    pub client: Client,
    /// Which namespaces, and how canaries end.
    pub config: Arc<Config>,
    /// What is counted.
    pub metrics: RolloutMetrics,
    rollouts: Rollouts,
    woken: mpsc::UnboundedReceiver<Wake>,
}

/// What all keepers share.
struct Context {
    pen: Pen,
    config: Arc<Config>,
    world: Arc<World>,
    recorder: Recorder,
    metrics: RolloutMetrics,
    permits: Semaphore,
}

/// Nothing is known yet.
pub struct Unstarted {
    rollouts: Rollouts,
    woken: mpsc::UnboundedReceiver<Wake>,
}

impl Unstarted {
    /// Before anything is known. `leadership` says whether this replica may write.
    #[must_use]
    pub fn new(leadership: Leadership) -> Self {
        let (world, woken) = World::new();
        Self { rollouts: Rollouts { world, leadership }, woken }
    }

    /// What will be known.
    #[must_use]
    pub fn rollouts(&self) -> Rollouts {
        self.rollouts.clone()
    }

    /// Ready to run.
    #[must_use]
    pub fn with(self, client: Client, config: Arc<Config>, metrics: RolloutMetrics) -> Rollout {
        Rollout { client, config, metrics, rollouts: self.rollouts, woken: self.woken }
    }
}

impl Rollouts {
    /// The page `/ksmetrics`.
    #[must_use]
    pub fn page(&self) -> String {
        ksmetrics::page(&self.world, self.leadership.is_current())
    }

    /// To be called with what a watch of nodes tells.
    pub fn look_at_nodes(&self) -> impl FnMut(&watcher::Event<Node>) + Send + 'static {
        self.world.look_at_nodes()
    }

    /// What is known of an ExtendedDaemonSet or of a replica set.
    pub(crate) fn workload(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<ObjectMeta> {
        let key = Key::new(namespace, name);
        match (api_version, kind) {
            ("datadoghq.com/v1alpha1", "ExtendedDaemonSet") => self.world.set_metadata(&key),
            ("datadoghq.com/v1alpha1", "ExtendedDaemonSetReplicaSet") => {
                self.world.replica_set_metadata(&key)
            }
            _ => None,
        }
    }
}

impl Rollout {
    /// Runs until cancelled; `synced` opens once all caches are filled. Somebody must call what
    /// [`look_at_nodes`](Rollouts::look_at_nodes) gave.
    pub async fn run(self, synced: Gate, cancel: CancellationToken) {
        let reporter = Reporter { controller: "podwright".to_owned(), instance: None };
        let Rollouts { world, leadership } = self.rollouts.clone();
        let context = Arc::new(Context {
            pen: Pen { client: self.client.clone(), leadership },
            config: self.config.clone(),
            world,
            recorder: Recorder::new(self.client.clone(), reporter),
            metrics: self.metrics.clone(),
            permits: Semaphore::new(AT_ONCE),
        });
        let mut watches = self.watch(&context.world, &cancel);
        let work = async {
            if cancel.run_until_cancelled(context.world.complete()).await.is_some() {
                synced.open();
                let settings = settings::run(context.clone(), cancel.clone());
                tokio::join!(settings, supervise(context.clone(), self.woken, cancel.clone()));
            }
        };
        tokio::join!(work, async { while watches.join_next().await.is_some() {} });
    }

    /// Starts one watch of each kind, or one in each namespace if only some are looked at.
    fn watch(&self, world: &Arc<World>, cancel: &CancellationToken) -> JoinSet<()> {
        let watched = &self.config.watch_namespaces;
        let namespaces: Vec<Option<String>> =
            if watched.is_empty() { vec![None] } else { watched.iter().cloned().map(Some).collect() };
        let mut running = JoinSet::new();
        for namespace in namespaces {
            let feed = |labels: Option<&str>| Feed {
                client: self.client.clone(),
                namespace: namespace.clone(),
                config: watcher::Config {
                    label_selector: labels.map(str::to_owned),
                    ..watcher::Config::default()
                },
                arrived: Some(world.expect()),
            };
            let sink = || WorldSink { world: world.clone(), namespace: namespace.clone() };
            running.spawn(feed(None).run_guarded::<ExtendedDaemonSet>(sink(), cancel.clone()));
            running.spawn(feed(None).run_guarded::<ExtendedDaemonSetReplicaSet>(sink(), cancel.clone()));
            running.spawn(feed(None).run_guarded::<ExtendedDaemonsetSetting>(sink(), cancel.clone()));
            // Others' pods are not our business, and there are many of them.
            running.spawn(feed(Some(keys::EDS_NAME)).run::<DaemonPod>(sink(), cancel.clone()));
            running.spawn(feed(Some(POD_TEMPLATE_LABEL)).run_guarded::<PodTemplate>(sink(), cancel.clone()));
        }
        running
    }
}

/// Keeps a keeper for each ExtendedDaemonSet, and wakes those that should look.
async fn supervise(
    context: Arc<Context>,
    mut woken: mpsc::UnboundedReceiver<Wake>,
    cancel: CancellationToken,
) {
    let mut keepers: JoinSet<Key> = JoinSet::new();
    let mut known: HashMap<Key, Arc<Notify>> = HashMap::new();
    let mut leadership = context.pen.leadership.clone();
    loop {
        let wake = tokio::select! {
            () = cancel.cancelled() => break,
            Some(wake) = woken.recv() => wake,
            _ = leadership.changed() => Wake::All,
            Some(ended) = keepers.join_next() => match ended {
                // It may be there again by now.
                Ok(key) => { known.remove(&key); Wake::One(key) }
                Err(error) => {
                    // Whose it was is not told; all are looked at anew.
                    tracing::error!(%error, "a keeper of an ExtendedDaemonSet broke off; this is a bug in Podwright");
                    known.retain(|_, notify| Arc::strong_count(notify) > 1);
                    Wake::All
                }
            },
        };
        let keys = match wake {
            Wake::One(key) => vec![key],
            Wake::All => context.world.keys(),
        };
        for key in keys {
            if let Some(notify) = known.get(&key) {
                notify.notify_one();
            } else if context.world.has(&key) {
                let notify = Arc::new(Notify::new());
                notify.notify_one();
                known.insert(key.clone(), notify.clone());
                let (keeper, cancel) = (Keeper::new(key.clone(), context.clone()), cancel.clone());
                keepers.spawn(async move {
                    keeper.run(notify, cancel).await;
                    key
                });
            }
        }
    }
    while keepers.join_next().await.is_some() {}
}
