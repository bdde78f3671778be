//! An ExtendedDaemonSet beside the built-in DaemonSet: same cluster, same nodes, same budget, one after the other.

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use podwright_api::{eds::ExtendedDaemonSet, keys};
use podwright_lab::{Lab, LabOptions};
use serde_json::{Value, json};

use super::server;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// Who rolls out, in the audit log.
const ACCOUNT: &str = "system:serviceaccount:podwright-system:podwright";

/// What is measured, and how large.
pub(super) struct Sizes {
    pub(super) nodes: usize,
    pub(super) foreign_pods: usize,
    pub(super) max_unavailable: String,
    pub(super) rounds: usize,
    pub(super) idle: Duration,
    /// The manager to measure; none: our own, built for it.
    pub(super) binary: Option<PathBuf>,
}

/// Who makes the pods.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    BuiltIn,
    Ours,
}

/// What one round showed.
struct Round {
    first: Duration,
    update: Duration,
}

pub(super) fn run(sizes: &Sizes) -> Result<()> {
    let binary = match &sizes.binary {
        Some(binary) => binary.clone(),
        None => server::build()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let options = LabOptions {
            nodes: sizes.nodes,
            binary: Some(binary),
            args: ["--features", "rollout", "--log-level", "warn"].map(str::to_owned).into(),
            ..LabOptions::default()
        };
        let lab = Lab::start(options).await?;
        let bench = Bench { client: lab.client()?, lab: &lab, sizes };
        bench.measure().await
    })
}

struct Bench<'b> {
    lab: &'b Lab,
    client: Client,
    sizes: &'b Sizes,
}

impl Bench<'_> {
    async fn measure(&self) -> Result<()> {
        let Sizes { nodes, max_unavailable, rounds, .. } = self.sizes;
        println!("rollout: {nodes} nodes, maxUnavailable {max_unavailable}, {rounds} rounds");
        let (mut built_in, mut ours) = (Vec::new(), Vec::new());
        let mut writes = 0;
        for round in 0..*rounds {
            built_in.push(self.round(Kind::BuiltIn, &format!("builtin-{round}")).await?);
            let namespace = format!("ours-{round}");
            ours.push(self.round(Kind::Ours, &namespace).await?);
            writes += self.update_writes(&namespace)?;
        }
        println!("{:<12} {:>14} {:>14}", "", "first pods s", "update s");
        let (theirs, mine) = (median(&mut built_in), median(&mut ours));
        for (name, (first, update)) in [("built-in", theirs), ("podwright", mine)] {
            println!("{name:<12} {first:>14.1} {update:>14.1}");
        }
        println!("{:<12} {:>13.2}x {:>13.2}x   (at most 1.3)", "ratio", mine.0 / theirs.0, mine.1 / theirs.1);
        #[expect(clippy::cast_precision_loss, reason = "there are not 2^52 writes")]
        let each = writes as f64 / (nodes * rounds) as f64;
        println!("writes for each replaced pod: {each:.2}   (at most 2.5)");
        self.canary(&format!("ours-{}", rounds - 1)).await?;
        self.idle().await?;
        self.memory().await
    }

    /// A third template on one node in a hundred, then everywhere.
    async fn canary(&self, namespace: &str) -> Result<()> {
        let mut manifest = self.manifest(Kind::Ours, "3.2");
        manifest["spec"]["strategy"]["canary"] = json!({"replicas": "1%", "duration": "1h"});
        let started = Instant::now();
        self.lab.apply(namespace, &manifest.to_string()).await?;
        self.await_pods(namespace, "3.2", self.sizes.nodes.div_ceil(100)).await?;
        let tried = started.elapsed().as_secs_f64();
        let sets: Api<ExtendedDaemonSet> = Api::namespaced(self.client.clone(), namespace);
        let canary = sets.get("bench").await?.status.and_then(|status| status.canary).context("no canary")?;
        let valid = json!({"metadata": {"annotations": {keys::EDS_CANARY_VALID: canary.replica_set}}});
        let started = Instant::now();
        sets.patch("bench", &PatchParams::default(), &Patch::Merge(valid)).await?;
        self.await_version(namespace, "3.2").await?;
        let update = started.elapsed().as_secs_f64();
        println!("{:<12} {tried:>14.1} {update:>14.1}   (1% of the nodes, then the rest)", "canary");
        Ok(())
    }

    /// First pods, then another template everywhere, then nothing is left.
    async fn round(&self, kind: Kind, namespace: &str) -> Result<Round> {
        self.make_namespace(namespace).await?;
        let started = Instant::now();
        self.lab.apply(namespace, &self.manifest(kind, "3.0").to_string()).await?;
        self.await_version(namespace, "3.0").await?;
        let first = started.elapsed();
        let started = Instant::now();
        self.lab.apply(namespace, &self.manifest(kind, "3.1").to_string()).await?;
        self.await_version(namespace, "3.1").await?;
        let update = started.elapsed();
        if kind == Kind::BuiltIn {
            self.remove(namespace).await?;
        }
        Ok(Round { first, update })
    }

    async fn make_namespace(&self, name: &str) -> Result<()> {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.lab.apply("default", &object.to_string()).await?;
        let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
            Api::namespaced(self.client.clone(), name);
        podwright_lab::eventually(Duration::from_secs(30), || async {
            Ok(accounts.get("default").await.map(|_| ())?)
        })
        .await
    }

    fn manifest(&self, kind: Kind, version: &str) -> Value {
        let template = json!({
            "metadata": {"labels": {"app": "bench"}},
            "spec": {
                "terminationGracePeriodSeconds": 1, "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "daemon", "image": format!("registry.k8s.io/pause:{version}")}],
            },
        });
        let budget = &self.sizes.max_unavailable;
        match kind {
            Kind::BuiltIn => json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "bench"},
                "spec": {
                    "selector": {"matchLabels": {"app": "bench"}}, "template": template,
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": budget}},
                },
            }),
            Kind::Ours => json!({
                "apiVersion": "datadoghq.com/v1alpha1", "kind": "ExtendedDaemonSet", "metadata": {"name": "bench"},
                "spec": {
                    "template": template,
                    "strategy": {"rollingUpdate": {
                        "maxUnavailable": budget, "maxParallelPodCreation": self.sizes.nodes, "slowStartAdditiveIncrease": "100%",
                    }},
                },
            }),
        }
    }

    /// Watches until every node has a ready pod of this version, and no other pod is left.
    async fn await_version(&self, namespace: &str, version: &str) -> Result<()> {
        self.await_pods(namespace, version, self.sizes.nodes).await
    }

    /// Watches until there are so many ready pods of this version, and one pod on each node.
    async fn await_pods(&self, namespace: &str, version: &str, wanted: usize) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let nodes = self.sizes.nodes;
        let image = format!("registry.k8s.io/pause:{version}");
        let mut known: HashMap<String, bool> = HashMap::new();
        let watched = tokio::time::timeout(PATIENCE, async {
            let mut events = watcher(pods, watcher::Config::default()).default_backoff().boxed();
            let mut listed = false;
            while let Some(event) = events.next().await {
                match event {
                    Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                        known.insert(pod.uid().unwrap_or_default(), serves(&pod, &image));
                    }
                    Ok(watcher::Event::Delete(pod)) => drop(known.remove(&pod.uid().unwrap_or_default())),
                    Ok(watcher::Event::Init) => known.clear(),
                    Ok(watcher::Event::InitDone) => listed = true,
                    Err(_) => {}
                }
                let serving = || known.values().filter(|serves| **serves).count();
                if listed && known.len() == nodes && serving() == wanted {
                    return;
                }
            }
        })
        .await;
        let serving = known.values().filter(|serves| **serves).count();
        ensure!(watched.is_ok(), "{serving} of {wanted} pods of {version} after {} s", PATIENCE.as_secs());
        Ok(())
    }

    /// Takes the DaemonSet away, so that its pods take no room and no time from the next.
    async fn remove(&self, namespace: &str) -> Result<()> {
        let sets: Api<k8s_openapi::api::apps::v1::DaemonSet> =
            Api::namespaced(self.client.clone(), namespace);
        sets.delete("bench", &DeleteParams::foreground()).await?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        podwright_lab::eventually(PATIENCE, || async {
            let left = pods.list_metadata(&ListParams::default().limit(1)).await?.items.len();
            ensure!(left == 0, "pods of the DaemonSet are left");
            Ok(())
        })
        .await
    }

    /// What we wrote in a namespace once the second replica set was made, which is all that the update cost.
    fn update_writes(&self, namespace: &str) -> Result<usize> {
        let entries = self.writes()?;
        let ours: Vec<&Value> =
            entries.iter().filter(|entry| entry["objectRef"]["namespace"] == namespace).collect();
        let makes = |entry: &&Value| {
            entry["verb"] == "create" && entry["objectRef"]["resource"] == "extendeddaemonsetreplicasets"
        };
        let second = ours.iter().rposition(makes).context("no replica set was made")?;
        Ok(ours.len() - second)
    }

    /// All that we wrote, the lease apart.
    fn writes(&self) -> Result<Vec<Value>> {
        let text = fs::read_to_string(self.lab.log("audit"))?;
        let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(entries
            .filter(|entry| {
                entry["user"]["username"] == ACCOUNT && entry["objectRef"]["resource"] != "leases"
            })
            .filter(|entry| !matches!(entry["verb"].as_str(), Some("get" | "list" | "watch")))
            .collect())
    }

    async fn idle(&self) -> Result<()> {
        // What the last rollout has set going comes to its end first.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = self.writes()?.len();
        tokio::time::sleep(self.sizes.idle).await;
        let after = self.writes()?.len();
        println!("writes in {} s at rest: {}   (0)", self.sizes.idle.as_secs(), after - before);
        Ok(())
    }

    /// With many pods in the cluster that are nobody's business.
    async fn memory(&self) -> Result<()> {
        self.make_namespace("foreign").await?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "foreign");
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"generateName": "foreign-", "labels": {"app": "foreign"}},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "a", "image": "x"}]},
        }))?;
        stream::iter(0..self.sizes.foreign_pods)
            .map(|_| async { pods.create(&PostParams::default(), &pod).await.map(|_| ()) })
            .buffer_unordered(32)
            .try_collect::<()>()
            .await?;
        let pid = self.lab.replica(0)?.pid().await?;
        let resident = server::resident_mib(pid).context("its memory cannot be read")?;
        println!("resident with {} foreign pods: {resident:.0} MiB   (below 60)", self.sizes.foreign_pods);
        Ok(())
    }
}

/// Whether a pod is of this image, ready, and not about to go.
fn serves(pod: &Pod, image: &str) -> bool {
    let of_image =
        pod.spec.iter().any(|spec| spec.containers.iter().any(|one| one.image.as_deref() == Some(image)));
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.clone().any(|one| one.type_ == "Ready" && one.status == "True");
    of_image && ready && pod.metadata.deletion_timestamp.is_none()
}

/// The middle of each figure, in seconds.
fn median(rounds: &mut [Round]) -> (f64, f64) {
    let middle = rounds.len() / 2;
    rounds.sort_by_key(|round| round.first);
    let first = rounds[middle].first.as_secs_f64();
    rounds.sort_by_key(|round| round.update);
    (first, rounds[middle].update.as_secs_f64())
}
