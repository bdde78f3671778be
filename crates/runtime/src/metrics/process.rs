//! The figures of this process, read from `/proc/self` at each scrape.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Collects the standard `process_*` metrics. Where `/proc` cannot be read the metric is left out, not the scrape.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let mut put = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        if let Some(stat) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(Stat::parse) {
            let second = rustix::param::clock_ticks_per_second();
            put(
                "process_cpu_seconds",
                "User and system CPU time spent, in seconds",
                &ConstCounter::new(seconds(stat.cpu_ticks, second)),
            )?;
            put(
                "process_resident_memory_bytes",
                "Resident memory, in bytes",
                &ConstGauge::new(stat.resident_pages.saturating_mul(rustix::param::page_size() as u64)),
            )?;
            if let Some(boot) = fs::read_to_string("/proc/stat").ok().as_deref().and_then(boot_time) {
                put(
                    "process_start_time_seconds",
                    "Start of the process, in seconds since the Unix epoch",
                    &ConstGauge::new(seconds(boot * second + stat.start_ticks, second)),
                )?;
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // The directory that is being read is open too, but not for long.
            put(
                "process_open_fds",
                "Open file descriptors",
                &ConstGauge::new(open.count().saturating_sub(1) as u64),
            )?;
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a tick is far coarser than what is lost")]
fn seconds(ticks: u64, per_second: u64) -> f64 {
    ticks as f64 / per_second as f64
}

/// What we need of `/proc/self/stat`; see proc(5).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    start_ticks: u64,
    resident_pages: u64,
}

impl Stat {
    /// The second field is the program's name in parentheses, and may itself hold spaces and parentheses.
    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // `rest` starts at field 3 of the manual's count.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self { cpu_ticks: field(14)? + field(15)?, start_ticks: field(22)?, resident_pages: field(24)? })
    }
}

/// `btime` of `/proc/stat`: when the machine started, in seconds since the epoch.
fn boot_time(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_after_a_name_with_spaces_and_parentheses() {
        let line = "4242 (odd) name) S 1 4242 4242 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 4 0 777 1000000 321 18446744073709551615 1";
        let expected = Stat { cpu_ticks: 200, start_ticks: 777, resident_pages: 321 };
        assert_eq!(Stat::parse(line), Some(expected));
    }

    #[test]
    fn a_short_stat_is_no_figure_rather_than_a_wrong_one() {
        assert_eq!(Stat::parse("1 (x) S 1 2 3"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn the_boot_time_is_found_among_the_other_lines() {
        assert_eq!(boot_time("cpu 1 2 3\nbtime 1700000000\nprocesses 9\n"), Some(1_700_000_000));
        assert_eq!(boot_time("cpu 1 2 3\n"), None);
    }
}
