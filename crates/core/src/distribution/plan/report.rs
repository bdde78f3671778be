//! What people are told.

use podwright_api::distributor::{EntryState, EntryStatus, PodDistributorStatus};

use super::{Finding, Notice, Observed, Plan, states::figure};
use crate::distribution::{Allocation, Rivals, Rule, rivals::is_same};

const READY: &str = "Ready";
const BALANCED: &str = "Balanced";
const SATISFIABLE: &str = "Satisfiable";

/// Of a rule that does nothing.
pub(super) fn not_in_force(observed: &Observed<'_>, reason: &'static str, message: String) -> Plan {
    let rule = observed.rule;
    let idle = |kind| Finding {
        kind,
        holds: None,
        reason: "NotInForce",
        message: "the rule is not in force".to_owned(),
    };
    let mut events = Vec::new();
    if before(rule, READY).is_none_or(|(_, before)| before != reason) {
        events.push(Notice { reason, message: message.clone(), warning: true });
    }
    Plan {
        status: status(rule, reason),
        conditions: vec![
            Finding { kind: READY, holds: Some(false), reason, message },
            idle(BALANCED),
            idle(SATISFIABLE),
        ],
        events,
        ..Plan::default()
    }
}

/// Of a rule in whose place an older one counts.
pub(super) fn shadowed(observed: &Observed<'_>, other: &Rule) -> Plan {
    let why = if is_same(observed.rule, other) {
        "has the same target".to_owned()
    } else {
        format!("for {}, to which {} belongs", title(other), title(observed.rule))
    };
    let message =
        format!("PodDistributor {} counts instead: it is older and {why}; delete one of the two", other.name);
    not_in_force(observed, "Shadowed", message)
}

/// Of a rule that counts.
pub(super) fn in_force(
    observed: &Observed<'_>,
    allocation: &Allocation,
    entries: Vec<EntryStatus>,
    is_settled: bool,
    left_alone: Option<String>,
) -> Plan {
    let rule = observed.rule;
    let ready = ready(rule, observed.rivals);
    let balanced = balanced(rule, allocation, is_settled, left_alone);
    let satisfiable = satisfiable(rule, &entries);
    let word = if allocation.pods == 0 {
        "NoPods"
    } else if satisfiable.holds == Some(false) {
        "Unsatisfied"
    } else if balanced.holds == Some(true) {
        "Balanced"
    } else {
        "Unbalanced"
    };
    let mut events = changes(rule, &entries);
    events.extend(turn(rule, &ready, false));
    events.extend(turn(rule, &balanced, true));
    let figures = |of: fn(&EntryStatus) -> i32| {
        Some(entries.iter().map(|entry| of(entry).to_string()).collect::<Vec<_>>().join("/"))
    };
    Plan {
        status: PodDistributorStatus {
            pods: Some(figure(allocation.pods)),
            desired: figures(|entry| entry.desired),
            actual: figures(|entry| entry.actual),
            entries,
            target: Some(rule.spec.target.title()),
            in_force_since: Some(rule.in_force_since(observed.now)),
            ..status(rule, word)
        },
        conditions: vec![ready, balanced, satisfiable],
        events,
        ..Plan::default()
    }
}

fn status(rule: &Rule, word: &str) -> PodDistributorStatus {
    PodDistributorStatus {
        scale_target_kind: Some(rule.spec.target.kind().to_owned()),
        status: Some(word.to_owned()),
        observed_generation: rule.generation,
        ..PodDistributorStatus::default()
    }
}

fn ready(rule: &Rule, rivals: &Rivals<'_>) -> Finding {
    let name = &rule.spec.target.name;
    let mut parts = vec![format!("new pods of {} are spread by this rule", title(rule))];
    parts.extend(rivals.bare.map(|other| {
        let other = &other.name;
        format!("those without a controller that have the label app={name} by PodDistributor {other}, which is older")
    }));
    parts.extend(
        rivals.replica_sets.iter().map(|other| {
            format!("those of {} by PodDistributor {}, which is older", title(other), other.name)
        }),
    );
    Finding { kind: READY, holds: Some(true), reason: "InForce", message: parts.join("; ") }
}

/// Its target, for people.
fn title(rule: &Rule) -> String {
    format!("{} {}", rule.spec.target.kind(), rule.spec.target.name)
}

/// In the middle of a burst the counts are those of some moment, and say nothing about how it will end: what was balanced stays
/// so until the dust has settled.
fn balanced(rule: &Rule, allocation: &Allocation, is_settled: bool, left_alone: Option<String>) -> Finding {
    let stays = !is_settled && before(rule, BALANCED).is_none_or(|(held, _)| held);
    let (holds, reason, message) = if allocation.pods == 0 {
        (true, "NoPods", "there are no pods".to_owned())
    } else if allocation.is_balanced() || stays {
        (true, "WithinOnePod", "each entry is less than one pod away from its share".to_owned())
    } else {
        let apart = allocation.entries.iter().filter(|entry| entry.actual != entry.desired);
        let mut apart: Vec<String> = apart
            .map(|entry| format!("{} has {} of {} pods", entry.name, entry.actual, entry.desired))
            .collect();
        if !allocation.unassigned.is_empty() {
            apart.push(format!("{} in no entry", allocation.unassigned.len()));
        }
        (false, "OffTarget", apart.join("; "))
    };
    let (reason, message) = match left_alone {
        Some(left_alone) => ("PodsLeftAlone", format!("{message}; {left_alone}")),
        None => (reason, message),
    };
    Finding { kind: BALANCED, holds: Some(holds), reason, message }
}

fn satisfiable(rule: &Rule, entries: &[EntryStatus]) -> Finding {
    let short: Vec<&EntryStatus> = rule
        .entries()
        .iter()
        .zip(entries)
        .filter(|(entry, _)| entry.weight > 0)
        .map(|(_, status)| status)
        .filter(|status| status.state != EntryState::Open || status.message.is_some())
        .collect();
    let Some(first) = short.first() else {
        let message = "every entry can take pods".to_owned();
        return Finding { kind: SATISFIABLE, holds: Some(true), reason: "Open", message };
    };
    let told = short.iter().map(|entry| told(entry)).collect::<Vec<_>>().join("; ");
    let reason = if first.state == EntryState::NoNodes { "NoNodes" } else { "NoRoom" };
    Finding { kind: SATISFIABLE, holds: Some(false), reason, message: told }
}

fn told(entry: &EntryStatus) -> String {
    format!("{}: {}", entry.entry, entry.message.as_deref().unwrap_or("open"))
}

/// Entries that have opened or closed.
fn changes(rule: &Rule, entries: &[EntryStatus]) -> Vec<Notice> {
    let weighty = rule.entries().iter().zip(entries).filter(|(entry, _)| entry.weight > 0);
    weighty
        .filter_map(|(_, entry)| {
            let before = rule.status.entries.iter().find(|before| before.entry == entry.entry);
            let before = before.map(|before| before.state).unwrap_or_default();
            (before != entry.state).then(|| match entry.state {
                EntryState::Open => Notice {
                    reason: "EntryOpen",
                    message: format!("{} can take pods again", entry.entry),
                    warning: false,
                },
                EntryState::NoNodes => {
                    Notice { reason: "EntryWithoutNodes", message: told(entry), warning: true }
                }
                EntryState::NoRoom => {
                    Notice { reason: "EntryWithoutRoom", message: told(entry), warning: true }
                }
            })
        })
        .collect()
}

/// A condition that has turned. Nobody is told that all is well from the start.
fn turn(rule: &Rule, finding: &Finding, warning: bool) -> Option<Notice> {
    let holds = finding.holds?;
    let held = before(rule, finding.kind).is_none_or(|(held, _)| held);
    let reason = match (finding.kind, holds) {
        (BALANCED, true) => "Balanced",
        (BALANCED, false) => "Unbalanced",
        _ => finding.reason,
    };
    (held != holds).then(|| Notice { reason, message: finding.message.clone(), warning: warning && !holds })
}

/// Whether a condition held, and why, when the rule's status was written. None if that could not be said.
fn before<'r>(rule: &'r Rule, kind: &str) -> Option<(bool, &'r str)> {
    let condition = rule.status.conditions.iter().find(|condition| condition.type_ == kind)?;
    let holds = match condition.status.as_str() {
        "True" => true,
        "False" => false,
        _ => return None,
    };
    Some((holds, &condition.reason))
}
