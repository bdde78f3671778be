//! The way to the API server, and the election.

use std::{path::Path, time::Duration};

use anyhow::Context;
use kube::{
    Client,
    config::{KubeConfigOptions, Kubeconfig},
};
use podwright_api::{
    Feature,
    config::{Config, TlsMode},
};
use podwright_runtime::lease::{self, Leadership, LeaseParams};
use tokio_util::sync::CancellationToken;

use super::tasks::Tasks;

/// How long the API server may take to answer at the start.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A manager with a certificate of its own that registers nothing and elects nobody can do without, if it has no feature but peer
/// pods and offers no VMs.
pub(super) fn is_needed(config: &Config) -> bool {
    let capacity = &config.peer_pods.capacity;
    let offers_vms = capacity.default.is_some() || !capacity.nodes.is_empty();
    let manages_tls = config.tls.mode == TlsMode::SelfManaged;
    let looks_around = config.features.iter().any(|feature| match feature {
        Feature::Architecture | Feature::Distribution | Feature::Sizing | Feature::Rollout => true,
        Feature::PeerPods => offers_vms,
    });
    config.webhook.register || config.leader_election.enabled || manages_tls || looks_around
}

/// Connects, and fails with the reason if the API server does not answer.
pub(crate) async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .map_err(|error| anyhow::anyhow!("cannot use the kubeconfig {}: {error}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => kube::Config::infer()
            .await
            .context("there is no cluster to talk to; give --kubeconfig, or run in a cluster")?,
    };
    let server = config.cluster_url.clone();
    let client = Client::try_from(config)?;
    let answer = tokio::time::timeout(CONNECT_TIMEOUT, client.apiserver_version()).await;
    let version = answer
        .map_err(|_| anyhow::anyhow!("no answer within {} s", CONNECT_TIMEOUT.as_secs()))
        .and_then(|answer| answer.map_err(Into::into))
        .with_context(|| {
            format!(
                "cannot reach the API server at {server}; check the address, the network and the credentials"
            )
        })?;
    tracing::info!(%server, version = version.git_version, "connected");
    Ok(client)
}

/// Who may write what.
#[derive(Clone)]
pub(super) struct Leaderships {
    /// Whatever is not rolled out.
    pub(super) general: Leadership,
    /// ExtendedDaemonSets, pods of which somebody else's controller may still be rolling out.
    pub(super) rollout: Leadership,
}

/// Takes part in the elections that the features need, until `released`.
pub(super) fn elect_all(
    config: &Config,
    client: Option<&Client>,
    identity: &str,
    released: &CancellationToken,
    tasks: &Tasks,
) -> anyhow::Result<Leaderships> {
    let elect = |lease: &str| elect(config, lease, client, identity.to_owned(), released.clone(), tasks);
    let rollout = config.has(Feature::Rollout).then(|| elect(&config.rollout.lease)).transpose()?;
    let general = match &rollout {
        Some(rollout) if config.features.iter().all(|feature| *feature == Feature::Rollout) => {
            rollout.clone()
        }
        _ => elect(&config.leader_election.lease)?,
    };
    Ok(Leaderships { rollout: rollout.unwrap_or_else(|| general.clone()), general })
}

/// Takes part in the election until `released`; without one this replica leads.
fn elect(
    config: &Config,
    lease: &str,
    client: Option<&Client>,
    identity: String,
    released: CancellationToken,
    tasks: &Tasks,
) -> anyhow::Result<Leadership> {
    let Some(client) = client.filter(|_| config.leader_election.enabled) else {
        return Ok(Leadership::always());
    };
    let election = &config.leader_election;
    let params = LeaseParams {
        namespace: config.home().to_owned(),
        name: lease.to_owned(),
        identity,
        duration: election.lease_duration.get(),
        renew_deadline: election.renew_deadline.get(),
        retry: election.retry_period.get(),
    };
    let (leadership, task) = lease::run(client.clone(), params, released)?;
    tasks.spawn_base("leader election", async move { Ok(task.await?) });
    Ok(leadership)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_peer_pods_without_vms_can_do_without_a_cluster() {
        let needed = |features: &str, more: &str| {
            let alone =
                "webhook: {register: false}\nleaderElection: {enabled: false}\ntls: {mode: directory}";
            is_needed(&Config::read(&format!("features: [{features}]\n{alone}\n{more}")).unwrap())
        };
        for feature in Feature::ALL {
            assert_eq!(needed(feature.name(), ""), *feature != Feature::PeerPods, "{feature:?}");
        }
        assert!(needed("peer-pods", "peerPods: {capacity: {default: 3}}"));
        assert!(needed("peer-pods, distribution", ""));
    }
}
