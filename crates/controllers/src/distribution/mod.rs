//! Distribution: places for new pods, and what keeps the ratio afterwards.
//!
//! ```text
//! pods ─▶ roster ─┐                  ┌─▶ desk: places for admission, agreed between replicas through the rules' ledgers
//! nodes, rules ───┴─▶ census ────────┴─▶ rules: status, deletion costs, repairs, spills, moves (the leader)
//! ```

mod census;
mod desk;
mod enact;
mod member;
mod memory;
mod metrics;
mod roster;
mod rules;

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Node};
use kube::{Client, ResourceExt, core::PartialObjectMeta};
use podwright_api::{config::Config, distributor::PodDistributor};
use podwright_runtime::{lease::Leadership, probes::Readiness};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use census::Census;
pub(crate) use census::controller_of;
pub use desk::Desk;
pub use memory::Memory;
pub use metrics::DistributionMetrics;

use crate::caches::{Subscription, Watch};

/// What the controller works with.
pub struct Distribution {
    /// The API server.
    pub client: Client,
    /// Which namespaces are treated.
    pub config: Arc<Config>,
    /// Whether this replica may write.
    pub leadership: Leadership,
    /// What is known of the cluster.
    pub census: Census,
    /// Whether the caches are filled.
    pub readiness: Readiness,
    /// What is remembered of each rule.
    pub memory: Arc<Memory>,
    /// What is counted.
    pub metrics: DistributionMetrics,
}

/// What fills the caches that distribution rests on.
pub struct DistributionWatches {
    /// Changes of nodes.
    pub nodes: Subscription<Node>,
    /// Told when nodes may have gone.
    pub deleted_nodes: mpsc::UnboundedReceiver<()>,
    /// PodDistributors.
    pub rules: Watch<PodDistributor>,
    /// ReplicaSets.
    pub replica_sets: Watch<PartialObjectMeta<ReplicaSet>>,
}

/// Changes of what the caches hold.
pub struct DistributionChanges {
    /// Nodes.
    pub nodes: Subscription<Node>,
    /// Told when nodes may have gone.
    pub deleted_nodes: mpsc::UnboundedReceiver<()>,
    /// Rules, for the book of rules.
    pub book: Subscription<PodDistributor>,
    /// Rules, for their own status.
    pub rules: Subscription<PodDistributor>,
    /// Namespaces of pods that have come, changed or gone.
    pub pods: mpsc::UnboundedReceiver<String>,
}

impl Distribution {
    /// Runs until cancelled.
    pub async fn run(self, changes: DistributionChanges, cancel: CancellationToken) {
        let DistributionChanges { nodes, deleted_nodes, book, rules, pods } = changes;
        let census = self.census.clone();
        tokio::join!(
            keep_book(census, book, cancel.clone()),
            rules::run(self, rules, (nodes, deleted_nodes), pods, cancel),
        );
    }

    /// What to do when a rule is gone, or, without one, when any may be.
    pub fn forgetting(&self) -> impl Fn(Option<(String, String)>) + Send + 'static + use<> {
        let (census, memory, metrics) = (self.census.clone(), self.memory.clone(), self.metrics.clone());
        move |gone| {
            census.rules_left();
            if let Some(key) = gone {
                census.refresh(&key.0);
                memory.forget(&key, &metrics);
            } else {
                census.refresh_all();
                memory.keep(|key, uid| census.has(key, uid), &metrics);
            }
        }
    }
}

/// Keeps the book of rules, on every replica: admission reads it.
async fn keep_book(census: Census, mut changes: Subscription<PodDistributor>, cancel: CancellationToken) {
    while let Some(Some(rule)) = cancel.run_until_cancelled(changes.next()).await {
        census.refresh(&rule.namespace().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;
