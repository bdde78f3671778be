//! Which entries can take pods.

use podwright_api::distributor::{EntryState, EntryStatus};

use super::{Alarm, History};
use crate::distribution::{Allocation, EntryAllocation, Member, Rule, allocation::Placed};

/// For how long a closed entry is set aside at first, and how soon it must close again to be set aside for twice as long.
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
    is_settled: bool,
    now: i64,
    alarm: &mut Alarm,
) -> Vec<EntryStatus> {
    let stuck = stuck(rule, placed, now, alarm);
    let known = |name: &str| rule.status.entries.iter().find(|before| before.entry == name);
    let mut entries: Vec<EntryStatus> = allocation
        .entries
        .iter()
        .zip(&stuck)
        .map(|(entry, stuck)| {
            let before = known(&entry.name);
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
                if rule.spills() && entry.weight > 0 {
                    await_nodes(&mut status, before, stuck, now);
                }
            } else if !rule.spills() {
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
    if rule.spills() {
        set_aside(rule, allocation, &stuck, &mut entries, now);
        for entry in &mut entries {
            forget(entry, rule.spec.spill_after(), now, alarm);
            let lacks = entry.actual < entry.desired && !allocation.is_balanced();
            let before = known(&entry.entry).and_then(|before| before.spilled_since);
            entry.spilled_since = spilled_since(entry, before, lacks, is_settled, now);
        }
    }
    entries
}

/// An entry without nodes is tried now and then: some pools get nodes only when a pod waits for them. It takes one pod more than it
/// had, and when that has waited for too long, it is set aside for twice as long.
fn await_nodes(status: &mut EntryStatus, before: Option<&EntryStatus>, stuck: &Stuck, now: i64) {
    let known = before.filter(|before| before.state == EntryState::NoNodes);
    let Some((retry_at, aside)) = known.and_then(|known| known.retry_at.zip(known.set_aside_for)) else {
        close(status, before.map_or(ASIDE, |before| next_aside(before, now)), now);
        return;
    };
    (status.retry_at, status.set_aside_for) = (Some(retry_at), Some(aside));
    if retry_at > now {
        return;
    }
    if stuck.overdue > 0 {
        close(status, (aside * 2).min(ASIDE_AT_MOST), now);
    } else {
        let tried = known.and_then(|known| known.up_to);
        status.up_to = tried.or_else(|| Some(status.actual.saturating_add(1)));
    }
}

fn close(status: &mut EntryStatus, aside: i64, now: i64) {
    (status.retry_at, status.set_aside_for) = (Some(now + aside), Some(aside));
}

/// For how long an entry is set aside that was open, and closes for something that is so since then.
fn next_aside(before: &EntryStatus, since: i64) -> i64 {
    match (before.state, before.retry_at, before.set_aside_for) {
        (EntryState::Open, Some(opened), Some(aside)) if since - opened <= ASIDE => {
            (aside * 2).min(ASIDE_AT_MOST)
        }
        _ => ASIDE,
    }
}

/// Since when pods that belong to an entry are elsewhere because it was closed. Those that were placed while it was may be seen
/// only after it has opened, so that it was closed lately counts, too.
fn spilled_since(
    entry: &EntryStatus,
    before: Option<i64>,
    lacks: bool,
    is_settled: bool,
    now: i64,
) -> Option<i64> {
    if lacks && (entry.state != EntryState::Open || entry.retry_at.is_some()) {
        return before.or(Some(now));
    }
    // In the middle of a burst the counts are those of some moment.
    before.filter(|_| lacks || !is_settled)
}

fn stuck(rule: &Rule, placed: &[Placed<'_>], now: i64, alarm: &mut Alarm) -> Vec<Stuck> {
    let mut all = vec![Stuck::default(); rule.entries().len()];
    // What keeps a pod from being placed may also be what keeps it from nodes of the entry.
    let is_ours = |member: &Member| rule.contradiction(&member.node_selector, member.mark.as_ref()).is_none();
    for (member, entry) in placed.iter().filter(|(member, _)| is_ours(member)) {
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
    if before.state == EntryState::Open {
        return;
    }
    if before.state == EntryState::NoNodes {
        // From here on: when it was opened.
        status.retry_at = before.retry_at.map(|_| now);
        return;
    }
    let is_due = before.retry_at.is_none_or(|retry_at| retry_at <= now);
    if is_due || has_room || status.nodes > before.nodes {
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
        let aside = next_aside(entry, stuck[index].since);
        close(entry, aside, now);
        entry.state = EntryState::NoRoom;
        let after = rule.spec.spill_after();
        entry.message = Some(format!(
            "the scheduler found no room for its pods within {after} s: they go elsewhere, and it is tried again later"
        ));
    }
}

/// Forgets that an entry was set aside once it has been open for long enough.
fn forget(entry: &mut EntryStatus, spill_after: i64, now: i64, alarm: &mut Alarm) {
    let Some(moment) = entry.retry_at else { return };
    let until = if entry.state == EntryState::Open { moment + ASIDE + spill_after } else { moment };
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
