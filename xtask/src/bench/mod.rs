//! `cargo xtask bench`: how many reviews a second one core answers, and how long each takes; how long rollouts take.
//!
//! Server and load of reviews each get a core of their own. What is compared takes turns in one run, because only ratios of one run mean
//! anything.

mod cluster;
mod distribution;
mod images;
mod load;
mod rollout;
mod server;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use hyper::body::Bytes;
use podwright_api::Feature;

use self::load::Figures;

/// A review of a pod with three containers, of the size and shape that an API server sends.
const REVIEW: &[u8] = include_bytes!("review.json").trim_ascii();

/// What to measure, and how.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Which benchmark
    #[arg(default_value = "admission")]
    benchmark: Benchmark,
    /// admission: another HTTPS webhook to measure beside ours, with its path: https://127.0.0.1:9443/mutate-v1-pod
    #[arg(long)]
    peer: Option<String>,
    /// admission: the peer's process, to read its memory
    #[arg(long, requires = "peer")]
    peer_pid: Option<u32>,
    /// sizing, architecture: how many nodes are cached [default: 5000]; rollout: how many nodes there are [default: 1000]
    #[arg(long)]
    nodes: Option<usize>,
    /// rollout: how many pods there are that are nobody's business
    #[arg(long, default_value_t = 10_000)]
    foreign_pods: usize,
    /// rollout: measure this manager instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
    /// rollout: maxUnavailable of both
    #[arg(long, default_value = "10%")]
    max_unavailable: String,
    /// sizing: how many templates are cached
    #[arg(long, default_value_t = 50)]
    templates: usize,
    /// distribution: how many pods a burst has
    #[arg(long, default_value_t = 1000)]
    pods: usize,
    /// How many connections send reviews [default: 32; architecture: 4, so that they do not wait for each other]
    #[arg(long)]
    connections: Option<usize>,
    /// How long each round lasts, in seconds; rollout: ten times as long nothing should be written
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// How many rounds each server gets
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Benchmark {
    /// Reviews of peer pods, beside another webhook
    Admission,
    /// Reviews of DaemonSet pods in a large cluster, beside reviews of peer pods
    Sizing,
    /// Pods of one hot rule, created through the API server, with one and with three replicas
    Distribution,
    /// An ExtendedDaemonSet beside the built-in DaemonSet in a large cluster
    Rollout,
    /// Reviews of pods whose images are known, in a large mixed cluster, beside the same pods left alone
    Architecture,
}

impl BenchArgs {
    fn connections(&self) -> usize {
        self.connections.unwrap_or(if matches!(self.benchmark, Benchmark::Architecture) { 4 } else { 32 })
    }

    /// How many nodes are cached.
    fn nodes(&self) -> usize {
        self.nodes.unwrap_or(5000)
    }
}

pub(crate) fn run(arguments: &BenchArgs) -> anyhow::Result<()> {
    ensure!(
        arguments.connections() > 0 && arguments.seconds > 0 && arguments.rounds > 0,
        "give at least one of each"
    );
    match arguments.benchmark {
        Benchmark::Admission => admission(arguments),
        Benchmark::Sizing => sizing(arguments),
        Benchmark::Rollout => rollout::run(&rollout::Sizes {
            nodes: arguments.nodes.unwrap_or(1000),
            foreign_pods: arguments.foreign_pods,
            max_unavailable: arguments.max_unavailable.clone(),
            rounds: arguments.rounds,
            idle: Duration::from_secs(arguments.seconds * 10),
            binary: arguments.binary.clone(),
        }),
        Benchmark::Architecture => architecture(arguments),
        Benchmark::Distribution => distribution::run(arguments.pods),
    }
}

/// Something under test.
struct Target {
    name: &'static str,
    url: String,
    review: Bytes,
    pid: Option<u32>,
    rounds: Vec<Figures>,
}

impl Target {
    fn new(name: &'static str, url: String, review: impl Into<Bytes>, pid: Option<u32>) -> Self {
        Self { name, url, review: review.into(), pid, rounds: Vec::new() }
    }

    fn round(&self, connections: usize, time: Duration) -> anyhow::Result<Figures> {
        load::run(&self.url, &self.review, connections, time).context(self.name)
    }

    fn cpu_time(&self) -> Option<Duration> {
        self.pid.and_then(server::cpu_time)
    }
}

fn admission(arguments: &BenchArgs) -> anyhow::Result<()> {
    let ours = server::Server::start("peer-pods", "", None)?;
    let mut targets = vec![Target::new("podwright", ours.url(Feature::PeerPods), REVIEW, Some(ours.pid()))];
    if let Some(url) = arguments.peer.clone() {
        targets.push(Target::new("peer", url, REVIEW, arguments.peer_pid));
    }
    measure("admission", arguments, targets)
}

fn sizing(arguments: &BenchArgs) -> anyhow::Result<()> {
    // A build and a large cluster at the same time would only wait for each other.
    server::build()?;
    let nodes = arguments.nodes();
    let cluster = cluster::Cluster::start(nodes, arguments.templates)?;
    let ours = server::Server::start("sizing,peer-pods", "", Some(&cluster.kubeconfig()))?;
    // All that admission needs is in its caches now; a control plane that goes on working would only disturb.
    cluster.freeze()?;
    println!("sizing: {nodes} nodes and {} templates are cached", arguments.templates);
    let daemon_pod = cluster::daemon_set_review(REVIEW, nodes)?;
    let targets = vec![
        Target::new("sizing", ours.url(Feature::Sizing), daemon_pod, Some(ours.pid())),
        Target::new("peer-pods", ours.url(Feature::PeerPods), REVIEW, Some(ours.pid())),
    ];
    measure("sizing", arguments, targets)
}

fn architecture(arguments: &BenchArgs) -> anyhow::Result<()> {
    server::build()?;
    let cluster = cluster::Cluster::start(arguments.nodes(), 0)?;
    let images = images::Images::start()?;
    let ours = server::Server::start("architecture", &images.settings(), Some(&cluster.kubeconfig()))?;
    let url = ours.url(Feature::Architecture);
    let placed = Target::new("placed", url.clone(), images.review(REVIEW, false)?, Some(ours.pid()));
    // Whoever asks first waits for the registry, and for the ServiceAccount, which is asked for pull secrets.
    placed.round(1, Duration::from_millis(500)).context("looking the images up")?;
    cluster.freeze()?;
    println!("architecture: {} nodes are cached, and what 3 images run on is known", arguments.nodes());
    let alone = Target::new("left alone", url, images.review(REVIEW, true)?, Some(ours.pid()));
    measure("architecture", arguments, vec![placed, alone])
}

/// Lets all targets take turns, and prints what each showed.
fn measure(name: &str, arguments: &BenchArgs, mut targets: Vec<Target>) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    pin_to_core(cores - 1);
    println!(
        "{name}: reviews of {} bytes, {} connections, {} rounds of {} s, {cores} cores",
        REVIEW.len(),
        arguments.connections(),
        arguments.rounds,
        arguments.seconds,
    );
    for target in &targets {
        target.round(arguments.connections(), Duration::from_secs(1)).context("warming up")?;
    }
    let mut spent = vec![Duration::ZERO; targets.len()];
    for _ in 0..arguments.rounds {
        for (target, spent) in targets.iter_mut().zip(&mut spent) {
            let before = target.cpu_time();
            target
                .rounds
                .push(target.round(arguments.connections(), Duration::from_secs(arguments.seconds))?);
            let used = target.cpu_time().zip(before).map(|(after, before)| after.saturating_sub(before));
            *spent += used.unwrap_or_default();
        }
    }
    println!(
        "{:<10} {:>10} {:>10} {:>10} {:>12} {:>13}",
        "target", "req/s", "p50 ms", "p99 ms", "cpu us/req", "resident MiB"
    );
    let mut middle: Vec<Figures> = Vec::new();
    for (target, spent) in targets.iter_mut().zip(spent) {
        let requests: usize = target.rounds.iter().map(|round| round.requests).sum();
        #[expect(clippy::cast_precision_loss, reason = "there are not 2^52 reviews")]
        let each = target.pid.map(|_| spent.as_secs_f64() * 1e6 / requests as f64);
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        let memory = target.pid.and_then(server::resident_mib);
        let figures = median(&mut target.rounds);
        println!(
            "{:<10} {:>10.0} {:>10.2} {:>10.2} {:>12} {:>13}",
            target.name,
            figures.per_second,
            figures.p50_ms,
            figures.p99_ms,
            shown(each),
            shown(memory)
        );
        middle.push(figures);
    }
    if let [first, second] = middle[..] {
        println!("ratio      {:>9.1}x", first.per_second / second.per_second);
        println!(
            "difference {:>10} {:>10.2} {:>10.2}",
            "",
            first.p50_ms - second.p50_ms,
            first.p99_ms - second.p99_ms
        );
    }
    Ok(())
}

/// The round in the middle by throughput: one disturbed round does not count.
fn median(rounds: &mut [Figures]) -> Figures {
    rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    rounds[rounds.len() / 2]
}

/// Keeps the load away from the servers, which run on the first core.
fn pin_to_core(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    if rustix::thread::sched_setaffinity(None, &set).is_err() {
        eprintln!("bench: cannot pin the load to a core; the figures will vary more");
    }
}
