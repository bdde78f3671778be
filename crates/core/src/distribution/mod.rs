//! Distribution: the pods of a workload over node labels, by weight.
//!
//! ```text
//! pod ─→ lineage ─→ rule ─→ counts of its revision + reservations ─→ entry, ticket, deletion cost     (admission: `ledger`)
//! rule, members, nodes, now ─→ allocation ─→ plan: status, costs, repairs, spills, moves              (the leader: `plan`)
//! ```

mod allocation;
mod apportion;
mod costs;
mod ledger;
mod member;
mod plan;
mod rivals;
mod rule;
#[cfg(test)]
mod samples;
mod tolerance;

pub use allocation::{Allocation, EntryAllocation, NodeRoom, allocate};
pub use apportion::{Sequence, Weights};
pub use costs::{CostChange, costs};
pub use ledger::{Ask, LIFETIME, Ledger, Place, Scene, Ticket, choose, open};
pub use member::{Mark, Member, Phase, Requests, revision};
pub use plan::{Adoption, Cause, Disruption, Finding, History, Notice, Observed, Plan, Removal, plan};
pub use rivals::{Rivals, rivals};
pub use rule::{Contradiction, Labels, Lineage, Rule, governing};
