//! How much may happen at a time: the budget of unavailable nodes, and the slow start.

use std::time::Duration;

use podwright_api::{Moment, eds::EffectiveStrategy};

/// Figures of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Nodes that should have a pod.
    pub(super) nodes: usize,
    /// Of these, without a pod that does its work, whatever the cause.
    pub(super) unavailable: usize,
    /// Of these in turn, because their pod can't be scheduled or does not go away.
    pub(super) unresponsive: usize,
}

impl Load {
    /// How many nodes whose pod works may lose it now.
    pub(super) fn spare(self, strategy: &EffectiveStrategy) -> usize {
        let forgiven = self.unresponsive.min(strategy.max_pod_scheduler_failure.of(self.nodes));
        strategy.max_unavailable.of(self.nodes).saturating_sub(self.unavailable.saturating_sub(forgiven))
    }
}

/// How many pods may be starting at a time, so long after the start, and when that becomes more.
pub(super) fn starting(
    strategy: &EffectiveStrategy,
    nodes: usize,
    since: Moment,
    now: Moment,
) -> (usize, Option<Moment>) {
    let most = usize::try_from(strategy.max_parallel_pod_creation).unwrap_or(usize::MAX).max(1);
    let interval = strategy.slow_start_interval.max(Duration::from_millis(1));
    let passed = now.since(since).as_millis() / interval.as_millis().max(1);
    let steps = usize::try_from(passed).unwrap_or(usize::MAX).saturating_add(1);
    let allowed = steps.saturating_mul(strategy.slow_start_increase.of(nodes).max(1)).min(most);
    let next = since.plus(interval.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX)));
    (allowed, (allowed < most).then_some(next))
}

/// How long a creation counts as starting if its pod does not become ready. The slow start must not stand still
/// because of one bad node.
pub(super) fn starting_for(strategy: &EffectiveStrategy) -> Duration {
    strategy.reconcile_frequency.max(Duration::from_secs(1))
}

/// What one role may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    /// Pods that may be created.
    pub(super) create: usize,
    /// Pods that may be deleted to be replaced: no more than can be made again at once, so that no node is bare for the
    /// slow start's sake.
    pub(super) replace: usize,
}

/// `allowed` may be starting, `starting` are; `empty` nodes wait for a pod, and `leaving` ones soon will.
pub(super) fn allowance(allowed: usize, starting: usize, empty: usize, leaving: usize) -> Allowance {
    let room = allowed.saturating_sub(starting);
    Allowance { create: room.min(empty), replace: room.saturating_sub(empty).saturating_sub(leaving) }
}

#[cfg(test)]
mod tests {
    use podwright_api::{
        config::ValidationMode,
        eds::{Amount, ExtendedDaemonSetSpec},
    };

    use super::*;

    fn strategy() -> EffectiveStrategy {
        ExtendedDaemonSetSpec::default().effective(ValidationMode::Auto).0
    }

    // The table of the Go controller: nodes, pods, available, old available, old unavailable, maxUnavailable, creations
    // allowed -> creations, deletions. A deletion of what is unavailable anyway is beside the budget.
    #[test]
    fn creations_and_deletions_are_those_of_the_go_controller() {
        for (nodes, pods, available, old_available, old_unavailable, max, allowed, create, delete) in [
            (10, 0, 0, 0, 0, 5, 20, 10, 0),
            (10, 0, 0, 0, 0, 5, 5, 5, 0),
            (10, 7, 0, 0, 0, 5, 5, 3, 0),
            (10, 7, 5, 0, 0, 5, 5, 3, 0),
            (10, 10, 7, 0, 0, 5, 5, 0, 2),
            (10, 10, 10, 0, 0, 5, 5, 0, 5),
            (10, 10, 10, 0, 0, 3, 5, 0, 3),
            (10, 7, 7, 0, 0, 3, 5, 3, 0),
            (10, 10, 9, 0, 0, 3, 5, 0, 2),
            (10, 10, 0, 10, 0, 3, 5, 0, 3),
            (166, 149, 0, 149, 0, 19, 20, 17, 2),
            (10, 10, 7, 0, 3, 3, 5, 0, 3),
        ] {
            let mut strategy = strategy();
            strategy.max_unavailable = Amount::Count(max);
            let load = Load { nodes, unavailable: nodes - available - old_available, unresponsive: 0 };
            let allowance = allowance(allowed, 0, nodes - pods, 0);
            let deletions = (old_unavailable + load.spare(&strategy)).min(allowance.replace.max(delete));
            assert_eq!(
                (allowance.create, deletions),
                (create, delete),
                "{nodes} {pods} {available} {max} {allowed}"
            );
        }
    }

    #[test]
    fn the_slow_start_grows_as_with_the_go_controller() {
        for (minutes, increase, expected) in [(0, 1, 1), (2, 1, 3), (2, 2, 6), (5, 10, 60), (10, 30, 250)] {
            let mut strategy = strategy();
            strategy.slow_start_increase = Amount::Count(increase);
            let now = Moment::from_millis(1_000_000).plus_seconds(minutes * 60);
            let (allowed, next) = starting(&strategy, 100, Moment::from_millis(1_000_000), now);
            assert_eq!(allowed, expected, "{minutes} minutes by {increase}");
            assert_eq!(next, (expected < 250).then(|| now.plus_seconds(60)));
        }
    }

    #[test]
    fn what_would_be_nothing_is_at_least_one() {
        let mut strategy = strategy();
        strategy.slow_start_increase = Amount::Percent(0);
        strategy.max_parallel_pod_creation = 0;
        strategy.slow_start_interval = Duration::ZERO;
        let now = Moment::from_millis(0);
        assert_eq!(starting(&strategy, 10, now, now).0, 1);
    }

    #[test]
    fn nothing_is_deleted_that_cannot_be_made_again_at_once() {
        assert_eq!(allowance(1, 0, 0, 0), Allowance { create: 0, replace: 1 });
        assert_eq!(allowance(1, 0, 0, 1), Allowance { create: 0, replace: 0 });
        assert_eq!(allowance(1, 0, 1, 0), Allowance { create: 1, replace: 0 });
        assert_eq!(allowance(1, 1, 0, 0), Allowance { create: 0, replace: 0 });
        assert_eq!(allowance(5, 1, 1, 1), Allowance { create: 1, replace: 2 });
    }

    #[test]
    fn only_so_many_unresponsive_nodes_are_forgiven() {
        let mut strategy = strategy();
        strategy.max_unavailable = Amount::Count(2);
        let load = Load { nodes: 10, unavailable: 4, unresponsive: 3 };
        assert_eq!(load.spare(&strategy), 0);
        strategy.max_pod_scheduler_failure = Amount::Percent(25);
        assert_eq!(load.spare(&strategy), 1);
        strategy.max_pod_scheduler_failure = Amount::Count(2);
        assert_eq!(load.spare(&strategy), 0);
    }
}
