//! `cargo xtask bench admission`: how many reviews a second one core answers.
//!
//! Server and load each get a core of their own. Where another webhook is given with `--peer`, the two take turns in one
//! run with the same payload, because only ratios of one run mean anything.

mod load;
mod server;

use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

use self::load::Figures;

/// A review of a pod with three containers, of the size and shape that an API server sends.
const REVIEW: &[u8] = include_bytes!("review.json").trim_ascii();

/// What to measure, and how.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Which benchmark
    #[arg(default_value = "admission")]
    benchmark: Benchmark,
    /// Another HTTPS webhook to measure beside ours, with its path: https://127.0.0.1:9443/mutate-v1-pod
    #[arg(long)]
    peer: Option<String>,
    /// The peer's process, to read its memory
    #[arg(long, requires = "peer")]
    peer_pid: Option<u32>,
    /// How many connections send reviews
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// How long each round lasts, in seconds
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How many rounds each server gets
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Benchmark {
    /// Reviews a second on one core
    Admission,
}

pub(crate) fn run(arguments: &BenchArgs) -> anyhow::Result<()> {
    match arguments.benchmark {
        Benchmark::Admission => admission(arguments),
    }
}

/// A server under test.
struct Target {
    name: &'static str,
    url: String,
    pid: Option<u32>,
    rounds: Vec<Figures>,
}

fn admission(arguments: &BenchArgs) -> anyhow::Result<()> {
    ensure!(
        arguments.connections > 0 && arguments.seconds > 0 && arguments.rounds > 0,
        "give at least one of each"
    );
    let cores = std::thread::available_parallelism()?.get();
    let ours = server::Server::start()?;
    pin_to_core(cores - 1);
    let review = hyper::body::Bytes::from_static(REVIEW);
    println!(
        "admission: a review of {} bytes, {} connections, {} rounds of {} s, {cores} cores",
        review.len(),
        arguments.connections,
        arguments.rounds,
        arguments.seconds,
    );
    let mut targets =
        vec![Target { name: "podwright", url: ours.url(), pid: Some(ours.pid()), rounds: Vec::new() }];
    if let Some(url) = arguments.peer.clone() {
        targets.push(Target { name: "peer", url, pid: arguments.peer_pid, rounds: Vec::new() });
    }
    let round = |url: &str, time| load::run(url, &review, arguments.connections, time);
    for target in &targets {
        round(&target.url, Duration::from_secs(1)).with_context(|| format!("warming {} up", target.name))?;
    }
    let used = |target: &Target| target.pid.and_then(server::cpu_time);
    let before: Vec<Option<Duration>> = targets.iter().map(used).collect();
    for _ in 0..arguments.rounds {
        for target in &mut targets {
            let figures = round(&target.url, Duration::from_secs(arguments.seconds)).context(target.name)?;
            target.rounds.push(figures);
        }
    }
    println!(
        "{:<10} {:>10} {:>10} {:>10} {:>12} {:>13}",
        "server", "req/s", "p50 ms", "p99 ms", "cpu us/req", "resident MiB"
    );
    let mut middle = Vec::new();
    for (target, before) in targets.iter_mut().zip(before) {
        let requests: usize = target.rounds.iter().map(|round| round.requests).sum();
        let spent = used(target).zip(before).map(|(after, before)| after.saturating_sub(before));
        #[expect(clippy::cast_precision_loss, reason = "there are not 2^52 reviews")]
        let each = spent.map(|spent| spent.as_secs_f64() * 1e6 / requests as f64);
        let memory = target.pid.and_then(server::resident_mib);
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
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
        middle.push(figures.per_second);
    }
    if let [ours, peer] = middle[..] {
        println!("ratio      {:>9.1}x", ours / peer);
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
