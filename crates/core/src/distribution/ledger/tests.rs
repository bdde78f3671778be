use std::{cell::RefCell, collections::HashMap};

use podwright_api::distributor::{Mode, WhenUnsatisfiable};
use proptest::{
    prelude::{prop, prop_assert, prop_oneof, proptest},
    strategy::Strategy,
};
use serde_json::json;

use super::{Ask, LIFETIME, LINGER, Ledger, Place, REFUSED, Rule, Scene, Sequence, Weights, choose, open};

fn rule(weights: &[u32]) -> Rule {
    let entries: Vec<_> = weights
        .iter()
        .enumerate()
        .map(|(index, weight)| json!({"nodeLabel": {"pool": format!("p{index}")}, "weight": weight}))
        .collect();
    Rule {
        namespace: "apps".to_owned(),
        name: "web".to_owned(),
        created: 0,
        generation: Some(1),
        spec: serde_json::from_value(json!({"distribution": entries, "target": {"name": "web"}})).unwrap(),
        status: serde_json::from_value(json!({})).unwrap(),
    }
}

fn ask(ticket: &str) -> Ask {
    Ask { ticket: ticket.to_owned(), revision: "r1".to_owned(), held: None }
}

/// A pod as somebody sees it.
#[derive(Clone, Debug)]
struct Pod {
    ticket: String,
    entry: usize,
    cost: i32,
    /// Whether the watch has told of it.
    told: bool,
}

/// A cluster with one rule, whose API server may refuse pods after we have admitted them.
struct World {
    rule: Rule,
    weights: Weights,
    sequence: RefCell<Sequence>,
    ledger: Ledger,
    pods: Vec<Pod>,
    seen: HashMap<String, i64>,
    now: i64,
    admitted: usize,
}

impl World {
    fn new(weights: &[u32]) -> Self {
        let rule = rule(weights);
        let weights = rule.weights().unwrap();
        let sequence = RefCell::new(Sequence::new(&weights));
        let (ledger, pods, seen) = (Ledger::default(), Vec::new(), HashMap::new());
        Self { rule, weights, sequence, ledger, pods, seen, now: 1_000_000, admitted: 0 }
    }

    fn place(&mut self, asks: &[Ask]) -> Vec<Place> {
        let told: Vec<usize> = self.pods.iter().filter(|pod| pod.told).map(|pod| pod.entry).collect();
        let entries = self.rule.entries().len();
        let counts = |_: &str| {
            let mut counts = vec![0; entries];
            for entry in &told {
                counts[*entry] += 1;
            }
            counts
        };
        let mut scene = Scene {
            rule: &self.rule,
            weights: &self.weights,
            sequence: &mut self.sequence.borrow_mut(),
            counts: &counts,
            seen: &|ticket| self.seen.get(ticket).copied(),
            now: self.now,
        };
        self.ledger.place(asks, &mut scene).into_iter().flatten().collect()
    }

    /// Some pods are admitted together; those that `refused` says never come to be.
    fn admit(&mut self, count: usize, refused: bool) {
        let asks: Vec<Ask> = (0..count).map(|n| ask(&format!("t{}", self.admitted + n))).collect();
        self.admitted += count;
        for place in self.place(&asks) {
            if !refused {
                let Place { entry, ticket, cost } = place;
                self.pods.push(Pod { ticket, entry, cost: cost.unwrap(), told: false });
            }
        }
    }

    fn tell(&mut self, count: usize) {
        for pod in self.pods.iter_mut().filter(|pod| !pod.told).take(count) {
            pod.told = true;
            self.seen.entry(pod.ticket.clone()).or_insert(self.now);
        }
    }

    /// As the ReplicaSet controller does it: those that cost least go first.
    fn shrink(&mut self, count: usize) {
        self.tell(usize::MAX);
        self.pods.sort_by_key(|pod| std::cmp::Reverse(pod.cost));
        self.pods.truncate(self.pods.len().saturating_sub(count));
    }

    fn assert_ratio(&self) {
        let sum: u64 = self.rule.entries().iter().map(|entry| u64::from(entry.weight.unsigned_abs())).sum();
        let pods = self.pods.len() as u64;
        for (index, entry) in self.rule.entries().iter().enumerate() {
            let actual = self.pods.iter().filter(|pod| pod.entry == index).count() as u64;
            let ideal = pods * u64::from(entry.weight.unsigned_abs());
            assert!(
                (actual * sum).abs_diff(ideal) < sum,
                "entry {index} has {actual} of {pods}, ideal {ideal}/{sum}"
            );
        }
    }
}

#[test]
fn a_burst_is_exact_although_no_pod_is_seen_yet() {
    let mut world = World::new(&[80, 20]);
    for batch in [1, 2, 4, 8, 16, 32, 64, 123] {
        world.admit(batch, false);
        world.assert_ratio();
    }
    assert_eq!(world.pods.iter().filter(|pod| pod.entry == 0).count(), 200);
}

#[test]
fn a_pod_that_is_looked_at_again_keeps_its_place_and_takes_no_second_one() {
    let mut world = World::new(&[50, 30, 20]);
    world.admit(7, false);
    let first = world.place(&[ask("x")]).remove(0);
    let again = Ask { held: Some("x".to_owned()), ..ask("y") };
    let before = world.ledger.clone();
    let kept = Place { cost: None, ..first };
    assert_eq!(world.place(std::slice::from_ref(&again)), [kept]);
    assert_eq!(world.ledger, before);
    // A copy of a pod that exists is a pod of its own, and so is one whose ticket nobody knows.
    world.seen.insert("x".to_owned(), world.now);
    for (held, ticket) in [("x", "z"), ("long ago", "w")] {
        let copy = Ask { held: Some(held.to_owned()), ..ask(ticket) };
        assert_eq!(world.place(&[copy]).remove(0).ticket, ticket);
    }
}

#[test]
fn places_of_refused_pods_are_free_again_once_later_pods_have_appeared() {
    let mut world = World::new(&[1, 1]);
    world.admit(3, true);
    world.now += 1000;
    world.admit(1, false);
    world.tell(1);
    world.now += REFUSED;
    world.ledger.tidy(|ticket| world.seen.get(ticket).copied(), world.now);
    assert!(world.ledger.is_empty(), "{:?}", world.ledger);
}

#[test]
fn a_ticket_stays_a_while_for_replicas_that_see_its_pod_later() {
    let mut world = World::new(&[1, 1]);
    world.admit(2, false);
    world.tell(2);
    let late = Some(world.now + 2000);
    world.ledger.tidy(|_| late, world.now + 2000 + LINGER - 1);
    assert_eq!(world.ledger.outstanding(|_| None), 2);
    assert_eq!(world.ledger.due(|_| late), Some(world.now + 2000 + LINGER));
    world.ledger.tidy(|_| late, world.now + 2000 + LINGER);
    assert!(world.ledger.is_empty());
}

#[test]
fn a_ledger_reads_as_it_was_written_and_passes_over_what_it_does_not_know() {
    let mut world = World::new(&[3, 1]);
    world.admit(5, false);
    let mut written = world.ledger.write();
    assert_eq!(written.len(), 2, "one group for each entry: {written:?}");
    written[0].tickets.push("scribble".to_owned());
    let read = Ledger::read(&written);
    assert_eq!(read.outstanding(|_| None), 5);
    assert_eq!(Ledger::read(&read.write()), read);
}

#[test]
fn with_spill_an_entry_without_room_is_passed_over_unless_no_other_is_left() {
    let mut rule = rule(&[1, 1]);
    rule.spec.when_unsatisfiable = WhenUnsatisfiable::Spill;
    let full =
        |entry: &str| json!({"entry": entry, "desired": 0, "actual": 0, "nodes": 1, "state": "NoRoom"});
    rule.status = serde_json::from_value(json!({"entries": [full("pool=p0")]})).unwrap();
    let weights = rule.weights().unwrap();
    assert_eq!((open(&rule, &[0, 5]), choose(&rule, &weights, &[0, 5])), (vec![false, true], Some(1)));
    rule.status = serde_json::from_value(json!({"entries": [full("pool=p0"), full("pool=p1")]})).unwrap();
    assert_eq!((open(&rule, &[0, 5]), choose(&rule, &weights, &[0, 5])), (vec![true, true], Some(0)));
    rule.spec.when_unsatisfiable = WhenUnsatisfiable::Wait;
    assert_eq!(open(&rule, &[]), [true, true]);
}

#[test]
fn no_entry_closes_where_it_is_only_preferred() {
    let mut rule = rule(&[1, 1]);
    rule.spec.when_unsatisfiable = WhenUnsatisfiable::Spill;
    let gone = json!({"entry": "pool=p0", "desired": 0, "actual": 0, "nodes": 0, "state": "NoNodes"});
    rule.status = serde_json::from_value(json!({"entries": [gone]})).unwrap();
    assert_eq!(open(&rule, &[]), [false, true]);
    rule.spec.mode = Mode::Preferred;
    assert_eq!(open(&rule, &[]), [true, true]);
}

#[test]
fn an_entry_without_nodes_that_is_tried_out_takes_one_pod_more_than_it_had() {
    let mut rule = rule(&[1, 1]);
    rule.spec.when_unsatisfiable = WhenUnsatisfiable::Spill;
    let tried =
        json!({"entry": "pool=p0", "desired": 0, "actual": 2, "nodes": 0, "state": "NoNodes", "upTo": 3});
    rule.status = serde_json::from_value(json!({"entries": [tried]})).unwrap();
    let weights = rule.weights().unwrap();
    assert_eq!(choose(&rule, &weights, &[2, 9]), Some(0));
    assert_eq!(choose(&rule, &weights, &[3, 9]), Some(1));
}

#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Refuse(usize),
    Tell(usize),
    Shrink(usize),
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..12_usize).prop_map(Step::Create),
        1 => (1..4_usize).prop_map(Step::Refuse),
        3 => (1..20_usize).prop_map(Step::Tell),
        1 => (1..30_usize).prop_map(Step::Shrink),
        2 => (0..8_000_i64).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn creations_and_scale_downs_never_stray_by_a_pod(
        weights in prop::collection::vec(0..100_u32, 1..6).prop_filter("some weight", |w| w.iter().any(|w| *w > 0)),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::new(&weights);
        for step in steps {
            match step {
                Step::Create(count) | Step::Refuse(count) => world.admit(count, false),
                Step::Tell(count) => world.tell(count),
                Step::Shrink(count) => world.shrink(count),
                // Pods appear long before their tickets run out.
                Step::Wait(millis) => {
                    world.tell(usize::MAX);
                    world.now += millis;
                }
            }
            world.assert_ratio();
        }
    }

    #[test]
    fn after_refusals_the_ratio_returns_and_the_ledger_empties(
        weights in prop::collection::vec(0..100_u32, 1..6).prop_filter("some weight", |w| w.iter().any(|w| *w > 0)),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::new(&weights);
        let mut refused = 0;
        for step in steps {
            match step {
                Step::Create(count) => world.admit(count, false),
                Step::Refuse(count) => {
                    refused += count;
                    world.admit(count, true);
                }
                Step::Tell(count) => world.tell(count),
                Step::Shrink(count) => world.shrink(count),
                Step::Wait(millis) => world.now += millis,
            }
        }
        world.tell(usize::MAX);
        world.now += LIFETIME;
        // Whoever was refused tries again, and a few more come.
        let missing = world.pods.len() + refused + 50;
        for _ in 0..missing {
            world.admit(1, false);
            world.tell(1);
        }
        world.assert_ratio();
        world.now += LIFETIME;
        world.ledger.tidy(|ticket| world.seen.get(ticket).copied(), world.now);
        prop_assert!(world.ledger.is_empty());
    }
}

#[test]
fn a_ticket_from_a_clock_that_is_ahead_does_not_stay_for_ever() {
    let mut world = World::new(&[1, 1]);
    world.now += 10 * LIFETIME;
    world.admit(1, true);
    world.ledger.tidy(|_| None, world.now - 10 * LIFETIME);
    assert!(world.ledger.is_empty());
}

#[test]
fn places_that_were_given_without_the_ledger_are_written_down_once() {
    let mut world = World::new(&[1, 1]);
    world.admit(2, false);
    let given = world.ledger.of(&["t1"]);
    assert_eq!(given.len(), 1);
    let mut other = Ledger::default();
    other.add(&given);
    other.add(&given);
    assert_eq!(other.ids().collect::<Vec<_>>(), ["t1"]);
}
