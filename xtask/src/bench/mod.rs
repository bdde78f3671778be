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

fn admission(arguments: &BenchArgs) -> anyhow::Result<()> {
    ensure!(
        arguments.connections > 0 && arguments.seconds > 0 && arguments.rounds > 0,
        "give at least one of each"
    );
    let ours = server::Server::start()?;
    pin_to_last_core();
    let review = hyper::body::Bytes::from_static(REVIEW);
    println!(
        "admission: a review of {} bytes, {} connections, {} rounds of {} s, {} cores",
        review.len(),
        arguments.connections,
        arguments.rounds,
        arguments.seconds,
        std::thread::available_parallelism()?,
    );
    let mut targets = vec![("podwright", ours.url(), Some(ours.pid()), Vec::new())];
    if let Some(peer) = &arguments.peer {
        targets.push(("peer", peer.clone(), arguments.peer_pid, Vec::new()));
    }
    let round = |url: &str, time| load::run(url, &review, arguments.connections, time);
    for (name, url, _, _) in &targets {
        round(url, Duration::from_secs(1)).with_context(|| format!("warming {name} up"))?;
    }
    for _ in 0..arguments.rounds {
        for (name, url, _, rounds) in &mut targets {
            rounds.push(
                round(url, Duration::from_secs(arguments.seconds)).with_context(|| (*name).to_owned())?,
            );
        }
    }
    println!("{:<10} {:>10} {:>10} {:>10} {:>12}", "server", "req/s", "p50 ms", "p99 ms", "resident MiB");
    let mut middle = Vec::new();
    for (name, _, pid, rounds) in &mut targets {
        let figures = median(rounds);
        let memory =
            pid.and_then(server::resident_mib).map_or_else(|| "-".to_owned(), |mib| format!("{mib:.1}"));
        println!(
            "{name:<10} {:>10.0} {:>10.2} {:>10.2} {memory:>12}",
            figures.per_second, figures.p50_ms, figures.p99_ms
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

/// The servers run on the first core.
fn pin_to_last_core() {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut set = rustix::thread::CpuSet::new();
    set.set(cores - 1);
    if rustix::thread::sched_setaffinity(None, &set).is_err() {
        eprintln!("bench: cannot pin the load to a core; the figures will vary more");
    }
}
