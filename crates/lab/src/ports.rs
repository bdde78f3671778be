//! Free TCP ports on 127.0.0.1 for programs that want to be told theirs.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context as _, Result};

/// Ports that nobody listened on a moment ago, all different.
///
/// They lie below the range from which the kernel takes the ports of outgoing connections: a replica that is restarted
/// on its port must not find it taken by somebody's client. Only where that yields nothing does the kernel choose.
pub fn free(count: usize) -> Result<Vec<u16>> {
    // Held until all are found, so that none is found twice.
    let mut held = Vec::with_capacity(count);
    for candidate in candidates(lowest_ephemeral(), RandomState::new().hash_one(count)) {
        if held.len() == count {
            break;
        }
        held.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, candidate)));
    }
    while held.len() < count {
        held.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on 127.0.0.1")?);
    }
    held.iter()
        .map(|listener| Ok(listener.local_addr().context("a listener without an address")?.port()))
        .collect()
}

fn lowest_ephemeral() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768)
}

/// All ports from 10000 up to `below`, from a random one onwards.
fn candidates(below: u16, random: u64) -> impl Iterator<Item = u16> {
    const FIRST: u16 = 10_000;
    let span = u64::from(below.saturating_sub(FIRST));
    (0..span).filter_map(move |step| {
        let offset = (random % span + step) % span;
        u16::try_from(offset).ok().map(|offset| FIRST + offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_different_and_free() {
        let ports = free(20).unwrap();
        let mut unique = ports.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), 20);
    }

    #[test]
    fn every_port_below_the_ephemeral_ones_is_tried_once() {
        let mut seen: Vec<u16> = candidates(10_005, 13).collect();
        assert_eq!(seen.first(), Some(&10_003));
        seen.sort_unstable();
        assert_eq!(seen, [10_000, 10_001, 10_002, 10_003, 10_004]);
        assert_eq!(candidates(9_000, 1).count(), 0);
    }
}
