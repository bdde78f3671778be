//! Which entries can take pods.

use podwright_api::distributor::{EntryState, EntryStatus};

use super::{Alarm, History, spills};
use crate::distribution::{Allocation, EntryAllocation, Rule, allocation::Placed};

/// For how long an entry without room is set aside at first, and how soon it must fill again to be set aside for twice as long.
const ASIDE: i64 = 60;
/// For how long at most.
const ASIDE_AT_MOST: i64 = 3600;

/// Pods of an entry for which the scheduler finds no node.
#[derive(Clone, Copy, Default)]
struct Stuck {
    /// All of them.
    pods: u64,
    /// Those for which that has lasted too long.
    overdue: u64,
    /// Since when, of the one that has waited longest.
    since: i64,
}

/// How each entry fares now, given how it fared when the rule's status was written.
pub(super) fn of(
    rule: &Rule,
    allocation: &Allocation,
    placed: &[Placed<'_>],
    history: &History,
    now: i64,
    alarm: &mut Alarm,
) -> Vec<EntryStatus> {
    let stuck = stuck(rule, placed, now, alarm);
    let mut entries: Vec<EntryStatus> = allocation
        .entries
        .iter()
        .zip(&stuck)
        .map(|(entry, stuck)| {
            let before = rule.status.entries.iter().find(|before| before.entry == entry.name);
            let mut status = EntryStatus {
                entry: entry.name.clone(),
                desired: figure(entry.desired),
                actual: figure(entry.actual),
                nodes: figure(entry.nodes),
                ..EntryStatus::default()
            };
            if entry.nodes == 0 {
                status.state = EntryState::NoNodes;
                status.message = Some(without_nodes(entry));
            } else if !spills(rule) {
                if stuck.overdue > 0 {
                    status.state = EntryState::NoRoom;
                    status.message = Some(waiting(stuck, "they wait until there is"));
                }
            } else if let Some(before) = before {
                let has_room = entry.fits > 0 && stuck.pods == 0 && history.was_full(&entry.name);
                resume(&mut status, before, has_room, now);
            }
            status
        })
        .collect();
    if spills(rule) {
        set_aside(rule, allocation, &stuck, &mut entries, now);
        for entry in &mut entries {
            forget(entry, rule.spec.spill_after(), now, alarm);
        }
    }
    entries
}

fn stuck(rule: &Rule, placed: &[Placed<'_>], now: i64, alarm: &mut Alarm) -> Vec<Stuck> {
    let mut all = vec![Stuck::default(); rule.entries().len()];
    for (member, entry) in placed {
        let (Some(since), Some(entry), None) = (member.unschedulable_since, *entry, &member.node) else {
            continue;
        };
        let stuck = &mut all[entry];
        stuck.pods += 1;
        if since + rule.spec.spill_after() > now {
            alarm.at(since + rule.spec.spill_after());
            continue;
        }
        stuck.since = if stuck.overdue == 0 { since } else { stuck.since.min(since) };
        stuck.overdue += 1;
    }
    all
}

/// Goes on from how the entry fared before: one that was set aside is tried again in time, or as soon as there is room or a
/// node more.
fn resume(status: &mut EntryStatus, before: &EntryStatus, has_room: bool, now: i64) {
    status.retry_at = before.retry_at;
    status.set_aside_for = before.set_aside_for;
    if before.state != EntryState::NoRoom {
        return;
    }
    let is_due = before.retry_at.is_none_or(|retry_at| retry_at <= now);
    if is_due || has_room || status.nodes > before.nodes {
        // From here on: when it was opened.
        status.retry_at = Some(now);
    } else {
        status.state = EntryState::NoRoom;
        status.message.clone_from(&before.message);
    }
}

/// Sets aside entries whose pods have waited too long, while another can take them.
fn set_aside(rule: &Rule, allocation: &Allocation, stuck: &[Stuck], entries: &mut [EntryStatus], now: i64) {
    for index in 0..entries.len() {
        if entries[index].state != EntryState::Open || stuck[index].overdue == 0 {
            continue;
        }
        let others = allocation.entries.iter().zip(&*entries).enumerate();
        let can_go = |(other, (room, status)): (usize, (&EntryAllocation, &EntryStatus))| {
            other != index && room.weight > 0 && room.fits > 0 && status.state == EntryState::Open
        };
        let elsewhere = others.into_iter().any(can_go);
        let entry = &mut entries[index];
        if !elsewhere {
            let hint = "no other entry has either, so they wait until there is";
            entry.message = Some(waiting(&stuck[index], hint));
            continue;
        }
        let aside = match (entry.retry_at, entry.set_aside_for) {
            (Some(opened), Some(aside)) if stuck[index].since - opened <= ASIDE => {
                (aside * 2).min(ASIDE_AT_MOST)
            }
            _ => ASIDE,
        };
        entry.state = EntryState::NoRoom;
        entry.set_aside_for = Some(aside);
        entry.retry_at = Some(now + aside);
        let after = rule.spec.spill_after();
        entry.message = Some(format!(
            "the scheduler found no room for its pods within {after} s: they go elsewhere, and it is tried again later"
        ));
    }
}

/// Forgets that an entry was set aside once it has been open for long enough.
fn forget(entry: &mut EntryStatus, spill_after: i64, now: i64, alarm: &mut Alarm) {
    let Some(moment) = entry.retry_at else { return };
    let until = if entry.state == EntryState::NoRoom { moment } else { moment + ASIDE + spill_after };
    if until > now {
        alarm.at(until);
    } else if entry.state == EntryState::Open {
        entry.retry_at = None;
        entry.set_aside_for = None;
    }
}

fn without_nodes(entry: &EntryAllocation) -> String {
    match entry.labelled {
        0 => "no node has these labels".to_owned(),
        1 => "the one node with these labels is not ready, cordoned, or closed to these pods".to_owned(),
        many => format!(
            "{many} nodes have these labels, but each is not ready, cordoned, or closed to these pods"
        ),
    }
}

fn waiting(stuck: &Stuck, hint: &str) -> String {
    let pods = if stuck.overdue == 1 { "1 pod".to_owned() } else { format!("{} pods", stuck.overdue) };
    format!("the scheduler finds no room for {pods} on its nodes: {hint}")
}

pub(super) fn figure(count: u64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
