use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::distribution::{Rule, samples};

/// A ReplicaSet whose pods get their entry and cost as admission gives them.
struct Workload {
    rule: Rule,
    weights: Weights,
    sequence: Sequence,
    pods: Vec<Member>,
    born: i64,
}

impl Workload {
    fn new(weights: &[u32]) -> Self {
        let rule = samples::rule(weights, &json!({}));
        let weights = rule.weights().unwrap();
        Self { rule, sequence: Sequence::new(&weights), weights, pods: Vec::new(), born: 0 }
    }

    fn entry(&self, pod: &Member) -> Option<usize> {
        self.rule.entry(&pod.mark.as_ref()?.entry)
    }

    fn counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.weights.len()];
        for entry in self.pods.iter().filter_map(|pod| self.entry(pod)) {
            counts[entry] += 1;
        }
        counts
    }

    fn scale(&mut self, to: usize) {
        while self.pods.len() < to {
            let counts = self.counts();
            let entry = self.weights.next(&counts, |_| true).unwrap();
            self.born += 1;
            let pool = ('a'..).nth(entry).unwrap().to_string();
            let mut pod = samples::pod(&format!("pod-{}", self.born), &pool);
            pod.created = self.born;
            let given = cost(self.sequence.position(entry, counts[entry] + 1)).to_string();
            (pod.cost, pod.our_cost) = (Some(given.clone()), Some(given));
            self.pods.push(pod);
        }
        while self.pods.len() > to {
            // The ReplicaSet controller's order: the lowest cost, then the youngest.
            let victim =
                self.pods.iter().min_by_key(|pod| (effective(pod), -pod.created)).unwrap().uid.clone();
            self.pods.retain(|pod| pod.uid != victim);
        }
    }

    fn changes(&self) -> Vec<CostChange> {
        let placed: Vec<_> = self.pods.iter().map(|pod| (pod, self.entry(pod))).collect();
        costs(&self.weights, &placed)
    }

    fn repair(&mut self) -> usize {
        let changes = self.changes();
        for change in &changes {
            let pod = self.pods.iter_mut().find(|pod| pod.uid == change.uid).unwrap();
            (pod.cost, pod.our_cost) = (Some(change.cost.to_string()), Some(change.cost.to_string()));
        }
        changes.len()
    }

    fn is_within_one_pod(&self) -> bool {
        let (total, pods) = (i128::from(self.weights.total()), self.pods.len() as i128);
        self.counts().iter().enumerate().all(|(entry, count)| {
            (i128::from(*count) * total - i128::from(self.weights.of(entry)) * pods).abs() < total
        })
    }
}

#[test]
fn the_ratio_survives_scaling_down_without_a_single_change() {
    for weights in [&[80, 20][..], &[50, 30, 20], &[7, 13, 80], &[1, 1, 1]] {
        let mut workload = Workload::new(weights);
        for pods in [250, 100, 33, 10, 60, 7, 1, 0, 20] {
            workload.scale(pods);
            assert!(workload.is_within_one_pod(), "{weights:?}: {:?} of {pods}", workload.counts());
            assert_eq!(workload.changes(), [], "{weights:?} at {pods}");
        }
    }
}

#[test]
fn a_pod_that_takes_the_place_of_a_lost_one_gets_its_turn() {
    let mut workload = Workload::new(&[1, 1]);
    workload.scale(8);
    workload.pods.retain(|pod| pod.name != "pod-3");
    workload.scale(8);
    let changes = workload.changes();
    assert_eq!(changes.len(), 1, "only the one whose turn another has: {changes:?}");
    assert_eq!((changes[0].name.as_str(), changes[0].cost), ("pod-9", -3));
    workload.repair();
    assert_eq!(workload.changes(), []);
}

#[test]
fn a_cost_of_somebody_else_is_never_changed() {
    let mut workload = Workload::new(&[1, 1]);
    workload.scale(4);
    let named = |cost: &str| Some(cost.to_owned());
    workload.pods[2].cost = named("100");
    // The pod that stays whatever happens is the first of its entry now, and the one that was first takes its turn.
    let changes = workload.changes();
    assert_eq!(changes, [CostChange { name: "pod-1".to_owned(), uid: "uid-pod-1".to_owned(), cost: -3 }]);
    workload.repair();
    workload.pods[2].cost = named("-7");
    assert_eq!(workload.changes().len(), 1, "and the last if its cost is negative");
    workload.pods[2].our_cost = named("-7");
    assert!(!workload.pods[2].has_own_cost());
}

#[test]
fn pods_in_no_entry_go_first_and_pods_that_nobody_steers_are_left_alone() {
    let weights = Weights::new(&[1, 0]).unwrap();
    let pods: Vec<Member> = ["ReplicaSet", "Rollout", "StatefulSet", "Job"]
        .map(|kind| Member { owner: Some(samples::owner(kind)), ..samples::pod(kind, "a") })
        .into();
    let given = |entry: Option<usize>| {
        let placed: Vec<_> = pods.iter().map(|pod| (pod, entry)).collect();
        costs(&weights, &placed).into_iter().map(|change| change.cost).collect::<Vec<_>>()
    };
    assert_eq!(given(Some(0)), [-1, -2]);
    assert_eq!(given(Some(1)), [-(1 << 24), -(1 << 24)]);
    assert_eq!(given(None), [-(2 << 24), -(2 << 24)]);
    assert_eq!(costs(&weights, &[(&Member::default(), Some(0))]), []);
}

#[test]
fn each_revision_has_turns_of_its_own() {
    let mut workload = Workload::new(&[1, 1]);
    workload.scale(4);
    let first = std::mem::take(&mut workload.pods);
    workload.scale(4);
    for pod in &mut workload.pods {
        pod.revision = "r2".to_owned();
    }
    workload.pods.extend(first);
    assert_eq!(workload.changes(), []);
}

proptest! {
    #[test]
    fn after_deletions_and_repair_every_scale_down_is_as_near_as_the_pods_allow(
        weights in prop::collection::vec(1..=9_u32, 2..=4),
        pods in 1..=60_usize,
        lost in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        again in 0..=20_usize,
    ) {
        let mut workload = Workload::new(&weights);
        workload.scale(pods);
        for index in lost {
            if !workload.pods.is_empty() {
                let index = index.index(workload.pods.len());
                workload.pods.remove(index);
            }
        }
        let left = workload.pods.len();
        workload.scale(left + again);
        workload.repair();
        prop_assert_eq!(workload.changes(), []);
        let had = workload.counts();
        let mut smaller = workload.pods.len();
        while smaller > 0 {
            smaller -= 1;
            workload.scale(smaller);
            // What the sequence asks for, as far as each entry has it.
            let mut step = 0;
            let wanted = loop {
                let asked = workload.sequence.prefix(step);
                let given: Vec<u64> = asked.iter().zip(&had).map(|(asked, had)| *asked.min(had)).collect();
                if given.iter().sum::<u64>() == smaller as u64 {
                    break given;
                }
                step += 1;
            };
            prop_assert_eq!(workload.counts(), wanted, "{:?} at {}", weights, smaller);
        }
    }
}
