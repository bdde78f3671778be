//! A burst of pods of one rule, created through a real API server: how fast they are admitted, how often the ledger is written
//! for them, and whether the ratio is exact. Beside it, in the same run, the same burst without a rule.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use podwright_lab::{Lab, LabOptions, eventually};
use serde_json::json;

use super::server;

/// How many creations are on their way at once.
const AT_ONCE: usize = 128;

/// One burst.
struct Burst {
    per_second: f64,
    p50: Duration,
    p99: Duration,
}

pub(super) fn run(pods: usize) -> Result<()> {
    ensure!(pods >= 10, "give at least 10 pods");
    let binary = server::build()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        println!("distribution: {pods} pods at once, 80/20, {AT_ONCE} creations in flight");
        println!("  replicas  rule  pods/s  p50 ms  p99 ms  ledger writes/pod  conflicts/pod  placed");
        for replicas in [1, 3] {
            let options = LabOptions {
                nodes: 2,
                replicas,
                config: Some("features: [distribution]\n".to_owned()),
                binary: Some(binary.clone()),
                ..LabOptions::default()
            };
            let lab = Lab::start(options).await?;
            measure(&lab, pods).await?;
            lab.stop().await?;
        }
        Ok(())
    })
}

async fn measure(lab: &Lab, pods: usize) -> Result<()> {
    let client = lab.client()?;
    let plain = lab.namespace("plain").await?;
    let without = burst(&client, &plain, pods).await?;
    row(lab.replicas(), "no", &without, None);

    let ruled = lab.namespace("ruled").await?;
    let rule = json!({
        "apiVersion": "versprei.versprei.io/v1beta1", "kind": "PodDistributor", "metadata": {"name": "hot"},
        "spec": {"target": {"name": "hot"}, "distribution": [
            {"nodeLabel": {"type": "default"}, "weight": 80}, {"nodeLabel": {"type": "spot"}, "weight": 20}]},
    });
    lab.apply(&ruled, &rule.to_string()).await?;
    // Every replica must know of the rule: a pod that goes by one that does not would say nothing.
    let api: Api<Pod> = Api::namespaced(client.clone(), &ruled);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    eventually(Duration::from_secs(30), || async {
        for attempt in 0..4 * lab.replicas() {
            let tried = api.create(&dry, &pod(attempt)?).await?;
            ensure!(
                tried.spec.is_some_and(|spec| spec.node_selector.is_some()),
                "a replica does not know the rule yet"
            );
        }
        Ok(())
    })
    .await?;
    let before = ledger(lab)?;
    let with = burst(&client, &ruled, pods).await?;
    let after = ledger(lab)?;
    let placed = api.list(&ListParams::default()).await?.items;
    let spot = placed.iter().filter(|pod| {
        let selector = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref()?.get("type"));
        selector.is_some_and(|kind| kind == "spot")
    });
    #[expect(clippy::cast_precision_loss, reason = "there are not 2^52 pods")]
    let share = |count: f64| count / pods as f64;
    let counts = (share(after.0 - before.0), share(after.1 - before.1), spot.count());
    row(lab.replicas(), "yes", &with, Some(counts));
    ensure!(counts.2 == pods / 5, "{} of {pods} pods went to spot nodes, not {}", counts.2, pods / 5);
    Ok(())
}

fn row(replicas: usize, rule: &str, burst: &Burst, counts: Option<(f64, f64, usize)>) {
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let counts = counts.map_or_else(String::new, |(writes, conflicts, spot)| {
        format!("{writes:>17.3}  {conflicts:>13.3}  {spot} on spot")
    });
    println!(
        "  {replicas:>8}  {rule:>4}  {:>6.0}  {:>6.1}  {:>6.1}  {counts}",
        burst.per_second,
        millis(burst.p50),
        millis(burst.p99)
    );
}

/// Creates so many pods that no scheduler looks at.
async fn burst(client: &Client, namespace: &str, pods: usize) -> Result<Burst> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let api = &api;
    let started = Instant::now();
    let mut latencies: Vec<Duration> = stream::iter(0..pods)
        .map(|index| async move {
            let started = Instant::now();
            api.create(&PostParams::default(), &pod(index)?).await?;
            anyhow::Ok(started.elapsed())
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let elapsed = started.elapsed();
    latencies.sort_unstable();
    let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    #[expect(clippy::cast_precision_loss, reason = "there are not 2^52 pods")]
    let per_second = pods as f64 / elapsed.as_secs_f64();
    Ok(Burst { per_second, p50: at(50), p99: at(99) })
}

fn pod(index: usize) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": format!("hot-{index}"), "labels": {"app": "hot"}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "app", "image": "app:1"}]},
    }))?)
}

/// Writes and conflicts of all replicas' ledgers so far.
fn ledger(lab: &Lab) -> Result<(f64, f64)> {
    let mut total = (0.0, 0.0);
    for index in 0..lab.replicas() {
        let page = scrape(lab.replica(index)?.ports().metrics)?;
        let figure = |name: &str| {
            let line = page.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse::<f64>().ok())
                .with_context(|| format!("no {name} in the metrics"))
        };
        total.0 += figure("podwright_distribution_ledger_writes_total")?;
        total.1 += figure("podwright_distribution_ledger_conflicts_total")?;
    }
    Ok(total)
}

fn scrape(port: u16) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nhost: localhost\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}
