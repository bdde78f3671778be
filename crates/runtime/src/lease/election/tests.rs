use super::*;

fn params(identity: &str) -> LeaseParams {
    LeaseParams::new("default", "lease", identity)
}

fn held_by(holder: &str, version: u64) -> Record {
    let duration = Some(Duration::from_secs(15));
    Record { holder: Some(holder.to_owned()), duration, version: version.to_string() }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_missing_lease_is_created_and_a_released_one_taken_at_once() {
    let (now, mut candidate) = (Instant::now(), Candidate::new(&params("me")));
    assert_eq!(candidate.step(now), Step::Create);
    candidate.observe(Some(Record { holder: None, duration: None, version: "1".into() }), now);
    assert_eq!(candidate.step(now), Step::Acquire);
}

#[test]
fn the_lease_of_another_is_taken_only_after_it_was_seen_unchanged_for_its_duration() {
    let (start, mut candidate) = (Instant::now(), Candidate::new(&params("me")));
    candidate.observe(Some(held_by("other", 1)), start);
    assert_eq!(candidate.step(start), Step::Wait { until: start + seconds(15) });
    candidate.observe(Some(held_by("other", 2)), start + seconds(10));
    assert_eq!(candidate.step(start + seconds(20)), Step::Wait { until: start + seconds(25) });
    candidate.observe(Some(held_by("other", 2)), start + seconds(24));
    assert_eq!(candidate.step(start + seconds(25)), Step::Acquire);
}

#[test]
fn a_claim_counts_from_before_the_request_and_ends_before_others_may_take_over() {
    let (sent, mut candidate) = (Instant::now(), Candidate::new(&params("me")));
    candidate.wrote("1".into(), sent);
    let claim = candidate.claim().unwrap();
    assert!(
        claim.is_held_by("me", sent) && claim.is_held_by("me", sent + seconds(10) - Duration::from_nanos(1))
    );
    assert!(!claim.is_held_by("me", sent + seconds(10)) && !claim.is_held_by("other", sent));
    assert_eq!(candidate.step(sent), Step::Renew);
}

#[test]
fn seeing_that_the_lease_is_ours_does_not_renew_the_claim() {
    let (start, mut candidate) = (Instant::now(), Candidate::new(&params("me")));
    candidate.observe(Some(held_by("me", 1)), start);
    assert_eq!((candidate.step(start), candidate.claim()), (Step::Renew, None));
    candidate.wrote("2".into(), start);
    candidate.observe(Some(held_by("me", 3)), start + seconds(9));
    assert_eq!(candidate.claim().unwrap().expires_at, start + seconds(10));
}

#[test]
fn seeing_another_holder_ends_our_claim_at_once() {
    let (start, mut candidate) = (Instant::now(), Candidate::new(&params("me")));
    candidate.wrote("1".into(), start);
    candidate.observe(Some(held_by("other", 2)), start);
    assert_eq!(candidate.claim().unwrap().holder, "other");
}

#[test]
fn a_lease_that_was_removed_under_its_holder_is_waited_for_like_any_other() {
    let (start, mut candidate) = (Instant::now(), Candidate::new(&params("me")));
    candidate.observe(Some(held_by("other", 1)), start);
    candidate.observe(None, start + seconds(1));
    assert_eq!(candidate.step(start + seconds(1)), Step::Wait { until: start + seconds(15) });
    assert_eq!(candidate.step(start + seconds(15)), Step::Create);

    candidate.wrote("2".into(), start + seconds(15));
    candidate.observe(None, start + seconds(16));
    assert_eq!((candidate.step(start + seconds(16)), candidate.claim()), (Step::Create, None));
}
