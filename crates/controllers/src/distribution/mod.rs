//! Distribution: places for new pods, and what keeps the ratio afterwards.
//!
//! ```text
//! pods ─▶ roster ─┐                  ┌─▶ desk: places for admission, agreed between replicas through the rules' ledgers
//! nodes, rules ───┴─▶ census ────────┴─▶ rules: status, deletion costs, repairs, spills, moves (the leader)
//! ```

mod census;
mod desk;
mod enact;
mod metrics;
mod roster;
mod rules;

use std::sync::Arc;

use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Node};
use kube::{Client, core::PartialObjectMeta, runtime::reflector::ReflectHandle};
use podwright_api::{config::Config, distributor::PodDistributor};
use podwright_runtime::lease::Leadership;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use census::Census;
pub(crate) use census::controller_of;
pub use desk::Desk;
pub use metrics::DistributionMetrics;

use crate::caches::Watch;

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
    /// What is counted.
    pub metrics: DistributionMetrics,
}

/// What fills the caches that distribution rests on.
pub struct DistributionWatches {
    /// Changes of nodes.
    pub nodes: ReflectHandle<Node>,
    /// Names of nodes that are gone.
    pub deleted_nodes: mpsc::UnboundedReceiver<String>,
    /// PodDistributors.
    pub rules: Watch<PodDistributor>,
    /// ReplicaSets.
    pub replica_sets: Watch<PartialObjectMeta<ReplicaSet>>,
}

/// Changes of what the caches hold.
pub struct DistributionChanges {
    /// Nodes.
    pub nodes: ReflectHandle<Node>,
    /// Names of nodes that are gone.
    pub deleted_nodes: mpsc::UnboundedReceiver<String>,
    /// Rules, for the book of rules.
    pub book: ReflectHandle<PodDistributor>,
    /// Rules, for their own status.
    pub rules: ReflectHandle<PodDistributor>,
    /// Namespaces of rules that are gone.
    pub deleted_rules: mpsc::UnboundedReceiver<String>,
    /// Namespaces of pods that have come, changed or gone.
    pub pods: mpsc::UnboundedReceiver<String>,
}

impl Distribution {
    /// Runs until cancelled.
    pub async fn run(self, changes: DistributionChanges, cancel: CancellationToken) {
        let DistributionChanges { nodes, deleted_nodes, book, rules, deleted_rules, pods } = changes;
        let census = self.census.clone();
        tokio::join!(
            keep_book(census, book, deleted_rules, cancel.clone()),
            rules::run(self, rules, (nodes, deleted_nodes), pods, cancel),
        );
    }
}

/// Keeps the book of rules, on every replica: admission reads it.
async fn keep_book(
    census: Census,
    mut changes: ReflectHandle<PodDistributor>,
    mut deleted: mpsc::UnboundedReceiver<String>,
    cancel: CancellationToken,
) {
    use futures::StreamExt;
    use kube::ResourceExt;
    let kept = async {
        loop {
            tokio::select! {
                Some(rule) = changes.next() => census.refresh(&rule.namespace().unwrap_or_default()),
                Some(namespace) = deleted.recv() => census.refresh(&namespace),
                else => return,
            }
        }
    };
    cancel.run_until_cancelled(kept).await;
}
