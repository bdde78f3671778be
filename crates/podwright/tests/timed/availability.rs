//! Three replicas, while certificates rotate and replicas come and go.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use k8s_openapi::{
    ByteString,
    api::{
        coordination::v1::Lease,
        core::v1::{Pod, Secret},
    },
};
use kube::{Api, Client, api::PostParams};
use podwright_lab::{Lab, eventually};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    labs::{peer_pod, soon, start},
    silence,
};

/// Certificates that live for seconds, so that a test sees several generations of them, and long enough that a machine which is busy
/// with other tests renews them in time.
const CONFIG: &str = "features: [sizing, peer-pods]\n\
                      tls: {caLifetime: 45s, servingLifetime: 15s, propagation: 5s}\n\
                      leaderElection: {leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 500ms}\n\
                      webhook: {shutdownGrace: 1s}\n";

const PER_SECOND: u32 = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_replicas_lose_no_pod_to_rotation_or_restarts_and_a_killed_leader_is_replaced() {
    let _alone = silence().await;
    let lab = start(3, CONFIG).await;
    if let Err(error) = pods_keep_coming(&lab).await {
        panic!("{error:#}\n{}", lab.dump("default").await);
    }
    if let Err(error) = leadership_moves(&lab).await {
        panic!("{error:#}\n{}", lab.dump("podwright-system").await);
    }
}

/// Creates pods all the time while every replica is restarted once with SIGTERM and the CA is replaced.
async fn pods_keep_coming(lab: &Lab) -> anyhow::Result<()> {
    let client = lab.client()?;
    let namespace = lab.namespace("load").await?;
    let (done, created) = (AtomicBool::new(false), AtomicUsize::new(0));
    let certificates = std::sync::Mutex::new((BTreeSet::new(), BTreeSet::new()));
    let load = create_pods(&client, &namespace, &done, &created);
    let restarts = async {
        for index in 0..lab.replicas() {
            let replica = lab.replica(index)?;
            let ended = replica.terminate().await?;
            anyhow::ensure!(
                ended.is_some_and(|status| status.success()),
                "replica {index} ended with {ended:?}"
            );
            replica.start().await?;
            replica.await_ready(Duration::from_secs(30)).await?;
        }
        // Long enough for a second CA to have taken over.
        eventually(Duration::from_mins(2), || async {
            let secret =
                Api::<Secret>::namespaced(client.clone(), "podwright-system").get("podwright-tls").await?;
            let data = secret.data.unwrap_or_default();
            let mut seen = certificates.lock().unwrap();
            for (key, generations) in [("tls.crt", 0), ("ca.key", 1)] {
                let ByteString(content) = data[key].clone();
                if generations == 0 {
                    seen.0.insert(content)
                } else {
                    seen.1.insert(content)
                };
            }
            anyhow::ensure!(
                seen.0.len() >= 4 && seen.1.len() >= 2,
                "{} certificates of {} CAs so far",
                seen.0.len(),
                seen.1.len()
            );
            Ok(())
        })
        .await
    };
    // However that ends, the load ends with it.
    let restarts = async {
        let outcome: anyhow::Result<()> = restarts.await;
        done.store(true, Ordering::Release);
        outcome
    };
    let started = Instant::now();
    let (failures, outcome) = tokio::join!(load, restarts);
    outcome?;
    let created = created.load(Ordering::Acquire);
    println!("{created} pods in {:.1} s", started.elapsed().as_secs_f64());
    anyhow::ensure!(
        failures.is_empty(),
        "{} of {created} pods went wrong, such as: {}",
        failures.len(),
        failures[0]
    );
    let expected = started.elapsed().as_secs() * u64::from(PER_SECOND) * 8 / 10;
    anyhow::ensure!(created as u64 >= expected, "only {created} pods were created, {expected} were to be");
    Ok(())
}

/// Gives what went wrong: pods that were refused, and pods that came back unmutated.
async fn create_pods(
    client: &Client,
    namespace: &str,
    done: &AtomicBool,
    created: &AtomicUsize,
) -> Vec<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    let pod = peer_pod("", &json!([{"name": "a", "image": "x", "resources": resources}]));
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / PER_SECOND);
    let (mut running, mut failures) = (JoinSet::new(), Vec::new());
    let mut judge = |outcome: Result<kube::Result<Pod>, tokio::task::JoinError>| match outcome {
        Ok(Ok(pod)) => {
            created.fetch_add(1, Ordering::AcqRel);
            let resources = pod.spec.unwrap().containers[0].resources.clone().unwrap_or_default();
            let limits = resources.limits.unwrap_or_default();
            if limits.len() != 1 || !limits.contains_key("kata.peerpods.io/vm") {
                failures.push(format!("unmutated: {limits:?}"));
            }
        }
        Ok(Err(error)) => failures.push(error.to_string()),
        Err(error) => failures.push(error.to_string()),
    };
    while !done.load(Ordering::Acquire) {
        ticks.tick().await;
        let (pods, mut pod) = (pods.clone(), pod.clone());
        pod.metadata.name = None;
        pod.metadata.generate_name = Some("p-".to_owned());
        running.spawn(async move { pods.create(&PostParams::default(), &pod).await });
        while let Some(outcome) = running.try_join_next() {
            judge(outcome);
        }
    }
    while let Some(outcome) = running.join_next().await {
        judge(outcome);
    }
    failures
}

/// Kills the leader; another must lead before the lease has been over for long.
async fn leadership_moves(lab: &Lab) -> anyhow::Result<()> {
    let leases: Api<Lease> = Api::namespaced(lab.client()?, "podwright-system");
    let holder = || async {
        let holder = leases
            .get("podwright")
            .await?
            .spec
            .and_then(|spec| spec.holder_identity)
            .filter(|name| !name.is_empty());
        holder.ok_or_else(|| anyhow::anyhow!("nobody leads"))
    };
    let first = soon(holder).await?;
    let index: usize =
        first.strip_prefix("podwright-").and_then(|name| name.split('_').next()).unwrap().parse()?;
    let started = Instant::now();
    lab.replica(index)?.kill().await?;
    let second = soon(|| async {
        let now = holder().await?;
        anyhow::ensure!(now != first, "{now} still holds the lease");
        Ok(now)
    })
    .await?;
    let took = started.elapsed();
    println!("leadership went from {first} to {second} in {:.1} s", took.as_secs_f64());
    // The lease's four seconds, a look every half second, and a busy machine.
    anyhow::ensure!(took < Duration::from_secs(7), "it took {took:?}");
    Ok(())
}
