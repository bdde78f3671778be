//! Budget, order and slow start.

use podwright_api::eds::Amount;

use super::cluster::{Cluster, NOW, PodOf, ago, cluster, moves, node, pod, settled};
use crate::rollout::plan::{Refusal, Why, plan};

fn ten() -> Cluster {
    let names: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
    settled(&names.iter().map(String::as_str).collect::<Vec<_>>()).rolling()
}

#[test]
fn no_more_working_pods_are_taken_than_the_budget_spares() {
    for (budget, expected) in [
        (Amount::Count(0), 0),
        (Amount::Count(1), 1),
        (Amount::Count(3), 3),
        (Amount::Percent(15), 2),
        (Amount::Percent(100), 10),
    ] {
        assert_eq!(ten().max_unavailable(budget).plan().deletions.len(), expected, "{budget:?}");
    }
}

// W11: every node without a working pod counts, whatever made it so, and what is free is not spent on healthy pods.
#[test]
fn every_node_without_a_working_pod_uses_the_budget() {
    let budget = || ten().max_unavailable(Amount::Count(3));
    let without =
        |cluster: Cluster| cluster.plan().deletions.iter().filter(|gone| gone.pod.name != "p-n0").count();
    assert_eq!(without(budget().pod("p-n0", PodOf::leaving)), 2, "one that goes");
    assert_eq!(without(budget().pod("p-n0", |pod| pod.failed(1))), 2, "one that failed");
    assert_eq!(without(budget().pod("p-n0", |_| pod("p-n0", "n0", "v2").starting())), 2, "one that starts");
    assert_eq!(
        without(budget().pod("p-n0", PodOf::not_ready)),
        2,
        "one that is not ready is replaced besides"
    );
    let bare = budget().with(|seen| seen.nodes.push(std::sync::Arc::new(node("bare"))));
    assert_eq!(bare.plan().deletions.len(), 2, "a bare node");
    let dead = budget().pod("p-n0", |_| pod("p-n0", "n0", "v2").not_ready());
    assert_eq!(without(dead), 2, "one that has been broken for long");
}

#[test]
fn pods_that_do_not_work_go_first_and_beside_the_budget() {
    let cluster =
        ten().max_unavailable(Amount::Count(1)).pod("p-n7", PodOf::not_ready).pod("p-n8", PodOf::not_ready);
    assert_eq!(cluster.moves(), ["-p-n7", "-p-n8"]);
    let cluster = ten().max_unavailable(Amount::Count(3)).pod("p-n7", PodOf::not_ready);
    let gone: Vec<String> = cluster.plan().deletions.into_iter().map(|gone| gone.pod.name).collect();
    assert_eq!(gone, ["p-n7", "p-n0", "p-n1"]);
}

#[test]
fn zones_are_burdened_alike() {
    let zoned = (0..10).fold(ten().max_unavailable(Amount::Count(4)), |cluster, number| {
        let zone = ["a", "a", "a", "a", "a", "b", "b", "b", "c", "c"][number];
        cluster.node(&format!("n{number}"), |node| {
            node.labels.insert("topology.kubernetes.io/zone".into(), zone.into());
        })
    });
    assert_eq!(zoned.moves(), ["-p-n0", "-p-n1", "-p-n5", "-p-n8"]);
    let burdened = zoned.pod("p-n1", |_| pod("p-n1", "n1", "v2").starting());
    assert_eq!(burdened.moves(), ["-p-n0", "-p-n5", "-p-n8"], "a zone that misses one comes later");
    let tight = burdened.max_unavailable(Amount::Count(3));
    assert_eq!(tight.moves(), ["-p-n5", "-p-n8"]);
}

// W6: the Go controller leaves pods out that can't be scheduled, so a template that would fit never reaches them.
#[test]
fn a_pod_that_cannot_be_scheduled_gets_the_new_template() {
    let stuck = ten().pod("p-n3", |pod| pod.pending(3600));
    let plan = stuck.plan();
    assert_eq!((moves(&plan), plan.deletions[0].why), (vec!["-p-n3".to_owned()], Why::Outdated));
}

#[test]
fn as_many_unresponsive_nodes_as_the_user_says_are_forgiven() {
    let two = || {
        ten()
            .pod("p-n0", |_| pod("p-n0", "n0", "v2").pending(601))
            .pod("p-n1", |pod| pod.with(|facts| facts.deleting = Some(ago(1))))
            .max_unavailable(Amount::Count(1))
    };
    assert_eq!(two().moves(), [""; 0]);
    assert!(two().plan().stuck);
    let forgiving =
        |number| two().with(|seen| seen.set.strategy.max_pod_scheduler_failure = Amount::Count(number));
    assert_eq!(forgiving(1).moves(), [""; 0]);
    assert_eq!(forgiving(2).moves(), ["-p-n2"]);
    let status = two().plan().replica_set_statuses.into_iter().find(|(name, _)| name == "v2").unwrap().1;
    assert_eq!(status.ignored_unresponsive_nodes, 2);
}

#[test]
fn patience_with_the_scheduler_ends_after_ten_minutes_and_with_a_deletion_at_its_time() {
    let patient = settled(&["a", "b"])
        .pod("p-a", |pod| pod.pending(599))
        .pod("p-b", |pod| pod.with(|facts| facts.deleting = Some(NOW.plus_seconds(30))));
    let unresponsive = |cluster: &Cluster, now| {
        plan(&cluster.seen, now).status.map(|status| status.ignored_unresponsive_nodes)
    };
    assert_eq!(unresponsive(&patient, NOW), Some(0));
    assert_eq!(patient.plan().next, Some(NOW.plus_seconds(2)));
    assert_eq!(unresponsive(&patient, NOW.plus_seconds(2)), Some(1));
    assert_eq!(unresponsive(&patient, NOW.plus_seconds(31)), Some(2));
}

#[test]
fn a_pod_counts_once_it_has_been_ready_for_long_enough() {
    let young = ten()
        .min_ready(60)
        .max_unavailable(Amount::Count(1))
        .pod("p-n0", |_| pod("p-n0", "n0", "v2").with(|facts| facts.ready_since = Some(ago(20))));
    assert_eq!(young.moves(), [""; 0]);
    assert_eq!(young.plan().next, Some(NOW.plus_seconds(40)));
    assert_eq!(moves(&plan(&young.seen, NOW.plus_seconds(40))), ["-p-n1"]);
}

// W10: the Go controller deletes as many as the budget spares and makes them again one by one.
#[test]
fn a_slow_start_holds_deletions_back_as_well_as_creations() {
    let slow = || {
        ten().max_unavailable(Amount::Count(5)).with(|seen| {
            seen.set.strategy.slow_start_increase = Amount::Count(2);
            seen.replica_sets[1].status.conditions[0].last_transition_time = Some(ago(30));
        })
    };
    assert_eq!(slow().moves(), ["-p-n0", "-p-n1"]);
    assert_eq!(slow().pod("p-n0", PodOf::leaving).moves(), ["-p-n1"], "one that goes will be made again");
    let full = slow().pod("p-n0", PodOf::leaving).pod("p-n1", |_| pod("p-n1", "n1", "v2").starting());
    assert_eq!(full.moves(), [""; 0]);
    assert_eq!(full.plan().next, Some(NOW.plus_seconds(9)), "when the starting one no longer counts");
    let ready = full.pod("p-n1", |_| pod("p-n1", "n1", "v2"));
    assert_eq!(ready.moves(), ["-p-n2"], "a node waits only for its own replacement");
    let later =
        slow().with(|seen| seen.replica_sets[1].status.conditions[0].last_transition_time = Some(ago(70)));
    assert_eq!(later.plan().deletions.len(), 4, "more after an interval");
}

#[test]
fn pods_are_made_a_few_at_a_time_and_one_bad_node_does_not_hold_up_the_rest() {
    let names: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let slow = |pods: Vec<PodOf>| {
        cluster(&names).pods(pods).with(|seen| {
            seen.set.strategy.slow_start_increase = Amount::Count(2);
            seen.replica_sets[0].status.conditions.clear();
        })
    };
    assert_eq!(slow(vec![]).moves(), ["+n0", "+n1"]);
    let starting = || vec![pod("p0", "n0", "v1").starting(), pod("p1", "n1", "v1").starting()];
    assert_eq!(slow(starting()).moves(), [""; 0]);
    let mut one_ready = starting();
    one_ready[0] = pod("p0", "n0", "v1");
    assert_eq!(slow(one_ready).moves(), ["+n2"]);
    let broken = pod("p0", "n0", "v1").not_ready().with(|facts| facts.created = ago(10));
    assert_eq!(slow(vec![broken]).moves(), ["+n1", "+n2"]);
}

#[test]
fn no_more_start_at_a_time_than_may() {
    let names: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let capped = cluster(&names).with(|seen| seen.set.strategy.max_parallel_pod_creation = 4);
    assert_eq!(capped.plan().creations.len(), 4);
}

#[test]
fn pods_with_other_resources_than_their_node_should_have_are_replaced_within_the_budget() {
    let drifted = settled(&["a", "b"]).pod("p-a", PodOf::drifted).pod("p-b", PodOf::drifted);
    let plan = drifted.plan();
    assert_eq!((moves(&plan), plan.deletions[0].why), (vec!["-p-a".to_owned()], Why::Overrides));
}

#[test]
fn what_the_api_server_refuses_is_not_asked_again_at_once() {
    let refused = |until| {
        cluster(&["a", "b"]).with(|seen| seen.refusal = Some(Refusal { message: "quota".into(), until }))
    };
    let plan = refused(NOW.plus_seconds(5)).plan();
    assert_eq!((moves(&plan), plan.next), (vec![], Some(NOW.plus_seconds(5))));
    assert_eq!(refused(NOW).moves(), ["+a"], "one is a question");
    let replacing = ten()
        .with(|seen| seen.refusal = Some(Refusal { message: "quota".into(), until: NOW.plus_seconds(5) }));
    assert_eq!(replacing.moves(), [""; 0], "and nothing is deleted that could not be made again");
}

#[test]
fn a_spec_that_makes_no_sense_replaces_nothing_but_keeps_what_runs() {
    let unclear = settled(&["a", "b"]).updated().pod("p-a", |pod| pod.failed(100)).with(|seen| {
        seen.set.problems = vec!["spec.strategy.rollingUpdate.maxUnavailable: \"abc\" is no number".into()];
    });
    let plan = unclear.plan();
    assert_eq!(moves(&plan), ["+a", "-p-a"]);
    assert_eq!(plan.creations[0].replica_set, "v1", "the template that runs");
    assert!(plan.status.unwrap().conditions.iter().any(|known| known.type_ == "Stalled" && known.is_true()));
}

#[test]
fn the_order_in_which_things_are_seen_changes_nothing() {
    let cluster = ten().max_unavailable(Amount::Count(3)).pod("p-n5", PodOf::not_ready);
    let forwards = cluster.plan();
    let backwards = cluster.with(|seen| {
        seen.nodes.reverse();
        seen.pods.reverse();
    });
    assert_eq!(forwards, backwards.plan());
}
