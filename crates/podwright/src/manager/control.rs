//! What runs beside admission: caches, controllers, registration.

use std::sync::Arc;

use anyhow::Context;
use kube::Client;
use podwright_admission::{FactSource, NoFacts};
use podwright_api::{Feature, config::Config};
use podwright_controllers::{
    caches::{self, Caches},
    capacity::{Capacity, CapacityMetrics},
    distribution::{
        Census, Desk, Distribution, DistributionChanges, DistributionMetrics, DistributionWatches,
    },
    lookups::Lookups,
    registration::Registration,
    sizing::{Changes, Sizing, SizingMetrics},
};
use podwright_runtime::{lease::Leadership, probes::Readiness};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use super::{certificate::Certificates, facts::CachedFacts, tasks::Tasks};

/// What all controllers work with.
pub(super) struct Control<'a> {
    pub(super) tasks: &'a Tasks,
    pub(super) config: &'a Arc<Config>,
    pub(super) client: Client,
    pub(super) leadership: Leadership,
    pub(super) readiness: Readiness,
}

/// What the controllers count.
pub(super) struct ControlMetrics {
    capacity: CapacityMetrics,
    sizing: SizingMetrics,
    distribution: DistributionMetrics,
}

impl ControlMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            capacity: CapacityMetrics::register(registry),
            sizing: SizingMetrics::register(registry),
            distribution: DistributionMetrics::register(registry),
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
        let (node_watch, nodes) = caches::nodes();
        let (deleted, deleted_nodes) = mpsc::unbounded_channel();
        let (daemon_set_watch, daemon_sets) = caches::daemon_sets();
        let (template_watch, templates) = caches::templates();
        let (replica_set_watch, replica_sets) = caches::replica_sets();
        let (rule_watch, rules) = caches::rules();
        let caches = Caches { nodes, daemon_sets, templates, replica_sets, rules };
        let desk = if self.config.has(Feature::Distribution) {
            let nodes = node_watch.subscribe().context("nodes cannot be subscribed to")?;
            let watches = DistributionWatches {
                nodes,
                deleted_nodes,
                rules: rule_watch,
                replica_sets: replica_set_watch,
            };
            Some(self.distribute(watches, &caches, metrics.distribution)?)
        } else {
            None
        };
        if self.config.has(Feature::PeerPods) {
            let changes = node_watch.subscribe().context("nodes cannot be subscribed to")?;
            let capacity = Capacity {
                client: self.client.clone(),
                config: self.config.peer_pods.clone(),
                leadership: self.leadership.clone(),
                metrics: metrics.capacity,
            };
            let nodes = caches.nodes.clone();
            self.run("capacity", |cancel| capacity.run(changes, nodes, cancel));
        }
        if self.config.has(Feature::Sizing) {
            let (deleted, deleted_daemon_sets) = mpsc::unbounded_channel();
            let changes = Changes {
                nodes: node_watch.subscribe().context("nodes cannot be subscribed to")?,
                deleted_daemon_sets,
                daemon_sets: daemon_set_watch.subscribe().context("DaemonSets cannot be subscribed to")?,
                templates: template_watch.subscribe().context("templates cannot be subscribed to")?,
                own_templates: template_watch.subscribe().context("templates cannot be subscribed to")?,
            };
            let sizing = Sizing {
                client: self.client.clone(),
                config: self.config.clone(),
                leadership: self.leadership.clone(),
                caches: caches.clone(),
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
        let (client, synced) = (self.client.clone(), self.readiness.gate("node cache"));
        let resource = self.config.peer_pods.resource.clone();
        self.run("node watch", |cancel| node_watch.watch_nodes(client, resource, deleted, synced, cancel));
        Ok(Arc::new(CachedFacts(Lookups { client: self.client.clone(), caches, desk })))
    }

    /// Starts what spreads pods, and gives the desk at which they get their places.
    fn distribute(
        &self,
        watches: DistributionWatches,
        caches: &Caches,
        metrics: DistributionMetrics,
    ) -> anyhow::Result<Desk> {
        let DistributionWatches { nodes, deleted_nodes, rules: rule_watch, replica_sets: replica_set_watch } =
            watches;
        let (pod_news, pods) = mpsc::unbounded_channel();
        let changes = DistributionChanges {
            nodes,
            deleted_nodes,
            book: rule_watch.subscribe().context("rules cannot be subscribed to")?,
            rules: rule_watch.subscribe().context("rules cannot be subscribed to")?,
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
            leadership: self.leadership.clone(),
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
        Ok(desk)
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
            leadership: self.leadership.clone(),
            readiness: self.readiness.clone(),
            ca,
            published,
        };
        self.run("registration", |cancel| registration.run(cancel));
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
