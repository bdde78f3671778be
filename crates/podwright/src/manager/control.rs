//! What runs beside admission: caches, controllers, registration.

use std::sync::Arc;

use axum::{Router, http::header, routing::get};
use k8s_openapi::api::core::v1::Node;
use kube::{Client, runtime::watcher};
use podwright_admission::{FactSource, NoFacts};
use podwright_api::{Feature, config::Config};
use podwright_controllers::{
    architecture::{self, Architecture, ArchitectureMetrics, Images, Kinds, NoImages},
    caches::{self, Caches},
    capacity::{Capacity, CapacityMetrics},
    distribution::{
        Census, Desk, Distribution, DistributionChanges, DistributionMetrics, DistributionWatches,
    },
    lookups::Lookups,
    registration::Registration,
    rollout::{RolloutMetrics, Rollouts, Unstarted},
    sizing::{Changes, Sizing, SizingMetrics},
    withdrawal::Withdrawal,
};
use podwright_runtime::{
    lease::{Leadership, Onlooker},
    metrics::Metrics,
    probes::Readiness,
};
use tokio::sync::mpsc;

use super::{
    certificate::Certificates, cluster::Leaderships, facts::CachedFacts, images::RegistryImages,
    registry_metrics::RegistryMetrics, tasks::Tasks,
};

/// What all controllers work with.
pub(super) struct Control<'a> {
    pub(super) tasks: &'a Tasks,
    pub(super) config: &'a Arc<Config>,
    pub(super) client: Client,
    pub(super) leaderships: Leaderships,
    pub(super) readiness: Readiness,
}

/// What the controllers count.
pub(super) struct ControlMetrics {
    architecture: ArchitectureMetrics,
    registries: RegistryMetrics,
    capacity: CapacityMetrics,
    sizing: SizingMetrics,
    rollout: Option<(RolloutMetrics, Unstarted)>,
    distribution: DistributionMetrics,
}

/// What Prometheus expects of a page that is not OpenMetrics.
const PLAIN_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

impl ControlMetrics {
    pub(super) fn register(config: &Config, metrics: &mut Metrics, rollout: Leadership) -> Self {
        let (ours, bare) = metrics.registries_mut();
        Self {
            architecture: ArchitectureMetrics::register(ours),
            registries: RegistryMetrics::register(ours),
            capacity: CapacityMetrics::register(ours),
            sizing: SizingMetrics::register(ours),
            distribution: DistributionMetrics::register(ours),
            rollout: config
                .has(Feature::Rollout)
                .then(|| (RolloutMetrics::register(ours, bare, rollout.clone()), Unstarted::new(rollout))),
        }
    }

    /// Pages beside `/metrics`.
    pub(super) fn pages(&self) -> Router {
        match &self.rollout {
            None => Router::new(),
            Some((_, unstarted)) => {
                let rollouts = unstarted.rollouts();
                let page = async move || ([(header::CONTENT_TYPE, PLAIN_TEXT)], rollouts.page());
                Router::new().route("/ksmetrics", get(page))
            }
        }
    }
}

/// Facts for a manager that is not connected to a cluster.
pub(super) fn no_facts() -> Arc<dyn FactSource> {
    Arc::new(NoFacts)
}

impl Control<'_> {
    /// Starts caches and controllers of the features that are switched on, and gives admission what it looks up.
    pub(super) fn start(&self, metrics: ControlMetrics) -> anyhow::Result<Arc<dyn FactSource>> {
        let (mut node_watch, nodes) = caches::nodes();
        let (deleted, deleted_nodes) = mpsc::unbounded_channel();
        let (mut daemon_set_watch, daemon_sets) = caches::daemon_sets();
        let (mut template_watch, templates) = caches::templates();
        let rollouts = metrics.rollout.as_ref().map(|(_, unstarted)| unstarted.rollouts());
        // Made before anything runs, so that nobody decides before nodes are known.
        let mut look_at_nodes = rollouts.as_ref().map(Rollouts::look_at_nodes);
        if let Some((metrics, unstarted)) = metrics.rollout {
            let rollout = unstarted.with(self.client.clone(), self.config.clone(), metrics);
            let synced = self.readiness.gate("rollout caches");
            self.run("rollout", |cancel| rollout.run(synced, cancel));
        }
        let (replica_set_watch, replica_sets) = caches::replica_sets();
        let (rule_watch, rules) = caches::rules();
        let caches = Caches { nodes, daemon_sets, templates, rollouts, replica_sets, rules };
        let desk = if self.config.has(Feature::Distribution) {
            let nodes = node_watch.subscribe();
            let watches = DistributionWatches {
                nodes,
                deleted_nodes,
                rules: rule_watch,
                replica_sets: replica_set_watch,
            };
            Some(self.distribute(watches, &caches, metrics.distribution))
        } else {
            None
        };
        if self.config.has(Feature::PeerPods) {
            let changes = node_watch.subscribe();
            let capacity = Capacity {
                client: self.client.clone(),
                config: self.config.peer_pods.clone(),
                leadership: self.leaderships.general.clone(),
                metrics: metrics.capacity,
            };
            let nodes = caches.nodes.clone();
            self.run("capacity", |cancel| capacity.run(changes, nodes, cancel));
        }
        if self.config.has(Feature::Sizing) {
            let (deleted, deleted_daemon_sets) = mpsc::unbounded_channel();
            let changes = Changes {
                nodes: node_watch.subscribe(),
                deleted_daemon_sets,
                daemon_sets: daemon_set_watch.subscribe(),
                templates: template_watch.subscribe(),
                own_templates: template_watch.subscribe(),
            };
            let sizing = Sizing {
                client: self.client.clone(),
                config: self.config.clone(),
                leadership: self.leaderships.general.clone(),
                caches: caches.clone(),
                readiness: self.readiness.clone(),
                metrics: metrics.sizing,
            };
            self.run("sizing", |cancel| sizing.run(changes, cancel));
            let (client, synced) = (self.client.clone(), self.readiness.gate("daemonset cache"));
            self.run("daemonset watch", |cancel| {
                daemon_set_watch.watch_daemon_sets(client, deleted, synced, cancel)
            });
            let (client, synced) = (self.client.clone(), self.readiness.gate("template cache"));
            self.run("template watch", |cancel| template_watch.watch_templates(client, synced, cancel));
        }
        let lookups = self.place(caches, desk, metrics.architecture, metrics.registries)?;
        let (client, synced) = (self.client.clone(), self.readiness.gate("node cache"));
        let (resource, kinds) = (self.config.peer_pods.resource.clone(), lookups.kinds.clone());
        let look = move |event: &watcher::Event<Node>| {
            if let Some(look) = &mut look_at_nodes {
                look(event);
            }
        };
        let told = move |event: &watcher::Event<Node>| {
            kinds.told(event);
            if matches!(event, watcher::Event::Delete(_) | watcher::Event::InitDone) {
                // Nobody may be listening.
                let _ = deleted.send(());
            }
        };
        self.run("node watch", |cancel| node_watch.watch_nodes(client, resource, look, told, synced, cancel));
        Ok(Arc::new(CachedFacts(lookups)))
    }

    /// Starts what spreads pods, and gives the desk at which they get their places.
    fn distribute(
        &self,
        watches: DistributionWatches,
        caches: &Caches,
        metrics: DistributionMetrics,
    ) -> Desk {
        let DistributionWatches {
            nodes,
            deleted_nodes,
            rules: mut rule_watch,
            replica_sets: replica_set_watch,
        } = watches;
        let (pod_news, pods) = mpsc::unbounded_channel();
        let changes = DistributionChanges {
            nodes,
            deleted_nodes,
            book: rule_watch.subscribe(),
            rules: rule_watch.subscribe(),
            pods,
        };
        let census = Census::new(caches.clone());
        let desk = Desk::new(
            self.client.clone(),
            census.clone(),
            metrics.clone(),
            self.config.webhook.timeout.get(),
        );
        let roster = census.roster.clone();
        let distribution = Distribution {
            client: self.client.clone(),
            config: self.config.clone(),
            leadership: self.leaderships.general.clone(),
            census,
            readiness: self.readiness.clone(),
            memory: Arc::default(),
            metrics,
        };
        let gone = distribution.forgetting();
        self.run("distribution", |cancel| distribution.run(changes, cancel));
        let (client, synced) = (self.client.clone(), self.readiness.gate("pod cache"));
        self.run("pod watch", |cancel| roster.watch(client, pod_news, synced, cancel));
        let (client, synced) = (self.client.clone(), self.readiness.gate("replicaset cache"));
        self.run("replicaset watch", |cancel| replica_set_watch.watch_replica_sets(client, synced, cancel));
        let (client, synced) = (self.client.clone(), self.readiness.gate("rule cache"));
        self.run("rule watch", |cancel| rule_watch.watch_rules(client, gone, synced, cancel));
        desk
    }

    /// Starts what places pods by architecture, if it is switched on, and gives what admission looks up.
    fn place(
        &self,
        caches: Caches,
        desk: Option<Desk>,
        metrics: ArchitectureMetrics,
        registries: RegistryMetrics,
    ) -> anyhow::Result<Lookups> {
        let is_on = self.config.has(Feature::Architecture);
        let images: Arc<dyn Images> = if is_on {
            Arc::new(RegistryImages::new(self.config, self.client.clone(), registries)?)
        } else {
            Arc::new(NoImages)
        };
        let lookups = Lookups {
            client: self.client.clone(),
            caches,
            kinds: Kinds::default(),
            images,
            patience: self.config.architecture.lookup_timeout.get(),
            desk,
        };
        if is_on {
            let architecture = Architecture {
                client: self.client.clone(),
                config: self.config.clone(),
                leadership: self.leaderships.general.clone(),
                lookups: Lookups { patience: architecture::PATIENCE, ..lookups.clone() },
                metrics,
            };
            self.run("architecture", |cancel| architecture.run(cancel));
        }
        Ok(lookups)
    }

    /// Starts to keep our registration right.
    pub(super) fn register(&self, certificates: Certificates) {
        if !self.config.webhook.register {
            return;
        }
        let Certificates { ca, published, .. } = certificates;
        let registration = Registration {
            client: self.client.clone(),
            config: self.config.clone(),
            leadership: self.leaderships.general.clone(),
            readiness: self.readiness.clone(),
            ca,
            published,
        };
        self.run("registration", |cancel| registration.run(cancel));
    }

    /// Starts to take back what an earlier configuration registered, for nobody serves it.
    pub(super) fn withdraw(&self) {
        let config = self.config;
        if !config.webhook.register {
            return;
        }
        let election = &config.leader_election;
        // Who rolls out and does nothing else leads by that Lease.
        let is_ours = !config.has(Feature::Rollout) || config.rollout.lease == election.lease;
        let registrars = (!is_ours).then(|| {
            let duration = election.lease_duration.get();
            Onlooker::new(self.client.clone(), config.home(), &election.lease, duration)
        });
        let withdrawal = Withdrawal {
            client: self.client.clone(),
            config: config.clone(),
            leadership: self.leaderships.general.clone(),
            registrars,
        };
        self.run("withdrawal", |cancel| withdrawal.run(cancel));
    }

    fn run<F>(&self, name: &'static str, task: impl FnOnce(tokio_util::sync::CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(name, |cancel| {
            let running = task(cancel);
            async move {
                running.await;
                Ok(())
            }
        });
    }
}
