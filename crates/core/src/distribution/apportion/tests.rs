use proptest::prelude::*;

use super::*;

fn weights(each: &[u32]) -> Weights {
    Weights::new(each).unwrap()
}

fn order(each: &[u32], pods: u64) -> String {
    let mut sequence = Sequence::new(&weights(each));
    (0..pods).map(|n| ["A", "B", "C", "D"][sequence.entry_at(n)]).collect()
}

/// How far the entries with a weight are from their share, in pods times the total: the furthest above, and the furthest off.
fn deviation(weights: &Weights, counts: &[u64]) -> (i128, i128) {
    let rated: Vec<(i128, i128)> = (0..weights.len())
        .filter(|entry| weights.of(*entry) > 0)
        .map(|entry| (i128::from(weights.of(entry)), i128::from(counts[entry])))
        .collect();
    let pods: i128 = rated.iter().map(|(_, count)| count).sum();
    let total = i128::from(weights.total());
    let off: Vec<i128> = rated.iter().map(|(weight, count)| count * total - weight * pods).collect();
    (*off.iter().max().unwrap(), off.iter().map(|off| off.abs()).max().unwrap())
}

#[test]
fn weights_count_in_relation_to_each_other() {
    assert_eq!(weights(&[80, 20]), weights(&[8, 2]));
    assert_eq!((weights(&[80, 0, 20]).total(), weights(&[80, 0, 20]).len(), weights(&[7]).of(0)), (5, 3, 1));
    assert_eq!((Weights::new(&[]), Weights::new(&[0, 0])), (None, None));
}

#[test]
fn pods_are_dealt_out_evenly_from_the_first_one() {
    assert_eq!(order(&[80, 20], 10), "AABAAAABAA");
    assert_eq!(order(&[1, 1, 1], 6), "ABCABC");
    assert_eq!(order(&[0, 3], 3), "BBB");
    for (each, pods, wanted) in [
        (&[80, 20][..], 250, &[200, 50][..]),
        (&[50, 30, 20], 250, &[125, 75, 50]),
        (&[7, 13, 80], 100, &[7, 13, 80]),
        (&[1, 1, 1], 97, &[33, 32, 32]),
    ] {
        assert_eq!(Sequence::new(&weights(each)).prefix(pods), wanted, "{each:?}");
    }
}

#[test]
fn an_entry_that_is_closed_leaves_its_share_to_the_others() {
    let weights = weights(&[50, 30, 20]);
    let mut counts = [0, 7, 0];
    for _ in 0..7 {
        counts[weights.next(&counts, |entry| entry != 1).unwrap()] += 1;
    }
    assert_eq!(counts, [5, 7, 2], "5 to 2, whatever the closed one has");
    assert_eq!(weights.next(&counts, |_| false), None);
    assert_eq!(weights.next(&[0, 0], |entry| entry == 1), Some(1));
    assert_eq!(Weights::new(&[0, 1]).unwrap().next(&[9, 0], |entry| entry == 0), None);
}

#[test]
fn what_deletions_took_is_given_back_first() {
    let weights = weights(&[50, 30, 20]);
    let mut counts = [10, 6, 0];
    for _ in 0..4 {
        counts[weights.next(&counts, |_| true).unwrap()] += 1;
    }
    assert_eq!(counts, [10, 6, 4]);
}

#[test]
fn first_fit_takes_the_first_entry_that_is_not_above_its_share() {
    let weights = weights(&[80, 20]);
    let mut counts = [0, 0];
    let order: String = (0..10)
        .map(|_| {
            let entry = weights.first_fit(&counts, |_| true).unwrap();
            counts[entry] += 1;
            ["A", "B"][entry]
        })
        .collect();
    assert_eq!(order, "ABAAAABAAA");
    assert_eq!(Weights::new(&[0, 1]).unwrap().first_fit(&[0, 0], |_| true), Some(1));
    assert_eq!(weights.first_fit(&counts, |_| false), None);
}

#[test]
fn eleven_of_twenty_is_fifty_five_percent_and_not_a_hair_more() {
    assert_eq!(weights(&[55, 45]).first_fit(&[11, 9], |_| true), Some(0));
}

#[test]
fn an_entry_without_weight_never_has_a_turn() {
    let mut sequence = Sequence::new(&weights(&[1, 0]));
    assert_eq!(
        (sequence.position(1, 1), sequence.position(7, 1), sequence.position(0, 5)),
        (Sequence::NEVER, Sequence::NEVER, 5)
    );
    assert_eq!(sequence.position(0, u64::MAX), Sequence::NEVER);
}

#[test]
fn huge_weights_cost_no_more_than_others() {
    let mut sequence = Sequence::new(&weights(&[999_983, 1, 333_333]));
    assert_eq!(sequence.position(1, 3), Sequence::NEVER);
    assert!(sequence.steps.len() as u64 <= Sequence::LONGEST);
    assert_eq!(sequence.prefix(10_000).iter().sum::<u64>(), 10_000);
    assert!(sequence.entry_at(u64::MAX) < 3);
}

proptest! {
    #[test]
    fn every_prefix_of_creations_is_less_than_a_pod_away_from_the_ideal(each in prop::collection::vec(0..=1000_u32, 1..=12)) {
        prop_assume!(each.iter().any(|weight| *weight > 0));
        let weights = weights(&each);
        let mut counts = vec![0; weights.len()];
        for pods in 1..=400_u64 {
            let entry = weights.next(&counts, |_| true).unwrap();
            counts[entry] += 1;
            prop_assert!(deviation(&weights, &counts).1 < i128::from(weights.total()), "{counts:?} of {pods} for {each:?}");
        }
    }

    #[test]
    fn from_any_counts_the_ratio_comes_back_and_nobody_gets_further_ahead(
        each in prop::collection::vec(0..=12_u32, 1..=6),
        start in prop::collection::vec(0..=25_u64, 6),
    ) {
        prop_assume!(each.iter().any(|weight| *weight > 0));
        let weights = weights(&each);
        let total = i128::from(weights.total());
        let mut counts = start[..weights.len()].to_vec();
        // By then the one that has most is no longer above its share, and a whole round has passed.
        for _ in 0..(25 + 2) * weights.total() {
            let before = deviation(&weights, &counts).0;
            let entry = weights.next(&counts, |_| true).unwrap();
            counts[entry] += 1;
            let after = deviation(&weights, &counts).0;
            prop_assert!(after < total || after <= before, "{counts:?} for {each:?}");
        }
        prop_assert!(deviation(&weights, &counts).1 < total, "{counts:?} for {each:?}");
    }

    #[test]
    fn the_sequence_is_what_next_gives_from_nothing(each in prop::collection::vec(0..=40_u32, 1..=8), pods in 1..=700_u64) {
        prop_assume!(each.iter().any(|weight| *weight > 0));
        let weights = weights(&each);
        let (mut sequence, mut counts) = (Sequence::new(&weights), vec![0; weights.len()]);
        for n in 1..=pods {
            let entry = weights.next(&counts, |_| true).unwrap();
            counts[entry] += 1;
            prop_assert_eq!(sequence.entry_at(n - 1), entry);
            prop_assert_eq!(sequence.position(entry, counts[entry]), n);
        }
        prop_assert_eq!(Sequence::new(&weights).prefix(pods), counts);
    }
}
