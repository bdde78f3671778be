mod adoptions;
mod cluster;
mod costs;
mod moves;
mod repairs;
mod report;
mod simulation;
mod spill;

use serde_json::{Value, json};

use super::*;
use crate::distribution::samples;

/// A rule and all that is known about it, from one plan to the next.
struct Case {
    rule: Rule,
    members: Vec<Member>,
    nodes: Vec<NodeRoom>,
    ledger_quiet: bool,
    history: History,
    now: i64,
}

/// Long after the pods of the samples were made.
const START: i64 = 1000;

impl Case {
    fn new(weights: &[u32], spec: &Value, members: Vec<Member>, nodes: Vec<NodeRoom>) -> Self {
        let rule = samples::rule(weights, spec);
        Self { rule, members, nodes, ledger_quiet: true, history: History::default(), now: START }
    }

    fn look(&self) -> Plan {
        let members: Vec<Arc<Member>> = self.members.iter().cloned().map(Arc::new).collect();
        plan(&Observed {
            rule: &self.rule,
            rivals: &Rivals::default(),
            members: &members,
            nodes: &self.nodes,
            ledger_quiet: self.ledger_quiet,
            history: &self.history,
            now: self.now,
        })
    }

    /// Looks, and writes status, costs and marks, but removes nothing.
    fn write(&mut self) -> Plan {
        let plan = self.look();
        write(&mut self.rule, &plan);
        self.history = plan.history.clone();
        for change in &plan.costs {
            let pod = self.members.iter_mut().find(|pod| pod.uid == change.uid).unwrap();
            (pod.cost, pod.our_cost) = (Some(change.cost.to_string()), Some(change.cost.to_string()));
        }
        for Adoption { uid, mark, .. } in &plan.adoptions {
            self.members.iter_mut().find(|pod| pod.uid == *uid).unwrap().mark = Some(mark.clone());
        }
        plan
    }

    /// Lets time pass until the pods count as settled, then looks.
    fn settle(&mut self) -> Plan {
        self.write();
        self.now += SETTLED_AFTER;
        self.write()
    }

    fn pod(&mut self, name: &str) -> &mut Member {
        self.members.iter_mut().find(|pod| pod.name == name).unwrap()
    }
}

/// Writes the status as the controller does.
fn write(rule: &mut Rule, plan: &Plan) {
    let conditions: Vec<Value> = plan
        .conditions
        .iter()
        .map(|finding| {
            let status = finding.holds.map_or("Unknown", |holds| if holds { "True" } else { "False" });
            json!({"type": finding.kind, "status": status, "reason": finding.reason, "message": finding.message,
                   "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
        .collect();
    rule.status = plan.status.clone();
    rule.status.conditions = serde_json::from_value(json!(conditions)).unwrap();
}

/// What is removed: `name cause how`.
fn told(plan: &Plan) -> Vec<String> {
    let removals = plan.removals.iter();
    removals.map(|removal| format!("{} {:?} {:?}", removal.name, removal.cause, removal.how)).collect()
}

fn pods(pools: &str) -> Vec<Member> {
    pools.chars().enumerate().map(|(n, pool)| samples::pod(&format!("p{n}"), &pool.to_string())).collect()
}
