use std::sync::Barrier;

use kube::runtime::{
    reflector::{self, store::Writer},
    watcher::Event,
};
use serde_json::json;

use super::*;
use crate::caches::{self, Caches};

fn rule(uid: &str) -> PodDistributor {
    serde_json::from_value(json!({
        "metadata": {"namespace": "apps", "name": "web", "uid": uid},
        "spec": {"distribution": [{"nodeLabel": {"pool": "a"}, "weight": 1}], "target": {"name": "web"}},
    }))
    .unwrap()
}

fn census() -> (Census, Writer<PodDistributor>) {
    let (rules, writer) = reflector::store();
    let caches = Caches {
        nodes: caches::nodes().1,
        daemon_sets: caches::daemon_sets().1,
        templates: caches::templates().1,
        rollouts: None,
        replica_sets: caches::replica_sets().1,
        rules,
    };
    (Census::new(caches), writer)
}

#[test]
fn a_rule_that_was_read_before_it_went_is_not_written_after_it() {
    const ROUNDS: usize = 5_000;
    let (census, mut writer) = census();
    let (together, other) = (Barrier::new(2), census.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                together.wait();
                other.refresh("apps");
                together.wait();
            }
        });
        let mut ghosts = 0;
        for _ in 0..ROUNDS {
            writer.apply_watcher_event(&Event::Apply(rule("1")));
            together.wait();
            writer.apply_watcher_event(&Event::Delete(rule("1")));
            census.refresh("apps");
            together.wait();
            ghosts += usize::from(census.rules("apps").is_some());
        }
        assert_eq!(ghosts, 0);
    });
}

#[test]
fn a_rule_that_goes_while_it_is_looked_at_is_not_learnt() {
    let (census, mut writer) = census();
    let (before, listed) = (census.departures(), [rule("1")]);
    writer.apply_watcher_event(&Event::Apply(rule("1")));
    census.refresh("apps");
    writer.apply_watcher_event(&Event::Delete(rule("1")));
    census.rules_left();
    census.refresh("apps");
    assert!(!census.learn("apps", &listed, before), "it is to be looked at again");
    assert!(census.rules("apps").is_none());
    assert!(census.learn("apps", &listed, census.departures()), "and one that is there is learnt");
    assert_eq!(census.rules("apps").unwrap().len(), 1);
}

#[test]
fn a_rule_is_there_only_under_its_own_uid() {
    let (census, mut writer) = census();
    let key = ("apps".to_owned(), "web".to_owned());
    assert!(!census.has(&key, "1"));
    writer.apply_watcher_event(&Event::Apply(rule("1")));
    assert!(census.has(&key, "1") && !census.has(&key, "2"));
}
