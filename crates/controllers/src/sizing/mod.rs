//! Sizing after admission: running pods follow their template and their node.
//!
//! ```text
//! DaemonSets, templates, nodes ─▶ workloads: list the DaemonSet's pods, ask the core about each ─▶ resize, replace, report
//!                                     └─▶ tallies ─▶ templates: status, when it changes
//! ```
//!
//! Pods are not watched: a DaemonSet's own status changes whenever its pods do, so each of its events is the occasion to
//! look. That also finds pods that were created while the webhook could not be reached.

mod look;
mod tally;
mod templates;
mod workloads;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Node};
use kube::{
    Client,
    runtime::{
        events::{Recorder, Reporter},
        reflector::ObjectRef,
    },
};
use podwright_api::{config::Config, flex::FlexDaemonsetTemplate};
use podwright_runtime::{lease::Leadership, probes::Readiness};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::tally::{Identity, Replacements, Tallies, Tally};
use crate::{
    caches::{Caches, Subscription},
    pace::Pace,
};

/// How long to wait for caches that are not filled yet.
const UNREADY: Duration = Duration::from_millis(500);

/// What the controllers work with.
pub struct Sizing {
    /// The API server.
    pub client: Client,
    /// What becomes of running pods, and of which namespaces.
    pub config: Arc<Config>,
    /// Whether this replica may write.
    pub leadership: Leadership,
    /// What is known of the cluster.
    pub caches: Caches,
    /// Whether all of it is known.
    pub readiness: Readiness,
    /// What is counted.
    pub metrics: SizingMetrics,
}

/// Changes of what the caches hold.
pub struct Changes {
    /// Nodes.
    pub nodes: Subscription<Node>,
    /// DaemonSets.
    pub daemon_sets: Subscription<DaemonSet>,
    /// DaemonSets that are gone, as `namespace/name`; none: some may have gone unseen.
    pub deleted_daemon_sets: mpsc::UnboundedReceiver<Option<String>>,
    /// Templates, for the DaemonSets that ask for them.
    pub templates: Subscription<FlexDaemonsetTemplate>,
    /// Templates, for their own status.
    pub own_templates: Subscription<FlexDaemonsetTemplate>,
}

/// What the controllers count.
#[derive(Clone, Debug, Default)]
pub struct SizingMetrics {
    deeds: Family<DeedLabels, Counter>,
    failures: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeedLabels {
    deed: &'static str,
}

impl SizingMetrics {
    /// Registers what the controllers count.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("sizing");
        registry.register(
            "corrections",
            "Running pods that were brought to their share",
            metrics.deeds.clone(),
        );
        registry.register(
            "failures",
            "Failed attempts to bring pods to their share",
            metrics.failures.clone(),
        );
        metrics
    }

    fn did(&self, deed: &'static str) {
        self.deeds.get_or_create(&DeedLabels { deed }).inc();
    }
}

/// What both controllers share.
struct Context {
    sizing: Sizing,
    tallies: Tallies,
    replacements: Replacements,
    /// How often each DaemonSet is looked at.
    daemon_set_pace: Pace<String>,
    /// How often each template's status is written.
    template_pace: Pace<String>,
    recorder: Recorder,
    /// Told the names of templates whose tally has changed.
    tallied: mpsc::UnboundedSender<String>,
}

impl Context {
    /// Notes what a DaemonSet's pods look like; whether that is news.
    fn note(&self, daemon_set: &str, tally: Option<(String, Tally)>) -> bool {
        let counts = || self.sizing.leadership.is_current() && self.is_there(daemon_set);
        let changed = self.tallies.note(daemon_set, tally, counts);
        let news = !changed.is_empty();
        for template in changed {
            // Whoever listens ends with us.
            let _ = self.tallied.send(template);
        }
        news
    }

    fn is_there(&self, daemon_set: &str) -> bool {
        self.known(daemon_set).is_some()
    }

    /// Whether we still lead and it is still there.
    fn is_ours(&self, daemon_set: &Identity) -> bool {
        self.sizing.leadership.is_current() && self.lives(daemon_set)
    }

    /// Whether it is there, and not another of its name.
    fn lives(&self, (daemon_set, uid): &Identity) -> bool {
        self.known(daemon_set).is_some_and(|known| known.metadata.uid.as_ref() == Some(uid))
    }

    fn known(&self, daemon_set: &str) -> Option<Arc<DaemonSet>> {
        let (namespace, name) = daemon_set.split_once('/')?;
        self.sizing.caches.daemon_sets.get(&ObjectRef::new(name).within(namespace))
    }

    /// Whether it is known which DaemonSets and nodes there are. Not asked of the stores themselves: one that several wait for wakes
    /// only the last of them.
    fn is_filled(&self) -> bool {
        self.sizing.readiness.unmet().is_empty()
    }

    /// Forgets what was seen whenever another replica takes the lead.
    async fn follow_terms(self: Arc<Self>, cancel: CancellationToken) {
        let mut leadership = self.sizing.leadership.clone();
        while let Some(leads) = cancel.run_until_cancelled(leadership.changed()).await {
            if !leads {
                self.tallies.clear();
                self.replacements.retain(|_| false);
            }
        }
    }

    /// Forgets DaemonSets that are gone.
    async fn forget(
        self: Arc<Self>,
        mut deleted: mpsc::UnboundedReceiver<Option<String>>,
        cancel: CancellationToken,
    ) {
        while let Some(Some(gone)) = cancel.run_until_cancelled(deleted.recv()).await {
            let gone = gone.map_or_else(|| self.tallies.known(), |daemon_set| vec![daemon_set]);
            for daemon_set in gone.iter().filter(|daemon_set| !self.is_there(daemon_set)) {
                self.note(daemon_set, None);
            }
            self.replacements.retain(|daemon_set| self.lives(daemon_set));
        }
    }
}

impl Sizing {
    /// Runs until cancelled.
    pub async fn run(self, changes: Changes, cancel: CancellationToken) {
        let reporter = Reporter { controller: "podwright".to_owned(), instance: None };
        let (tallied, told) = mpsc::unbounded_channel();
        let recorder = Recorder::new(self.client.clone(), reporter);
        let context = Arc::new(Context {
            sizing: self,
            tallies: Tallies::default(),
            replacements: Replacements::default(),
            daemon_set_pace: Pace::new(workloads::PAUSE),
            template_pace: Pace::new(templates::PAUSE),
            recorder,
            tallied,
        });
        let Changes { nodes, daemon_sets, deleted_daemon_sets, templates, own_templates } = changes;
        tokio::join!(
            context.clone().forget(deleted_daemon_sets, cancel.clone()),
            context.clone().follow_terms(cancel.clone()),
            workloads::run(context.clone(), nodes, daemon_sets, templates, cancel.clone()),
            templates::run(context, own_templates, told, cancel),
        );
    }
}
