//! Which pod counts for which node.

use podwright_api::{NodeSelector, eds::Amount, keys};
use serde_json::json;

use super::cluster::{ago, cluster, moves, node, on_pool, pod, settled, taint};
use crate::rollout::plan::{Controller, NodeChoice, Phase, PodOwner, Why};

#[test]
fn every_node_that_fits_gets_a_pod_and_a_node_that_has_one_gets_no_other() {
    assert_eq!(cluster(&["a", "b"]).moves(), ["+a", "+b"]);
    assert_eq!(cluster(&["a", "b"]).pods([pod("p", "a", "v1")]).moves(), ["+b"]);
    assert_eq!(settled(&["a", "b"]).moves(), [""; 0]);
    assert_eq!(settled(&["a", "b"]).plan().next, None);
}

#[test]
fn a_creation_that_is_not_seen_yet_fills_its_node() {
    let asked = pod("p", "a", "v1").starting().with(|facts| facts.uid.clear());
    assert_eq!(cluster(&["a", "b"]).pods([asked]).moves(), ["+b"]);
}

#[test]
fn a_pod_that_goes_fills_its_node_until_it_is_gone() {
    let cluster = settled(&["a", "b"]).pod("p-a", super::cluster::PodOf::leaving);
    assert_eq!(cluster.moves(), [""; 0]);
    let ended = cluster.pod("p-a", |pod| pod.failed(5));
    assert_eq!(ended.moves(), ["+a"], "one that has ended fills nothing");
}

// The Go controller's FilterPodsByNode and FilterAndMapPodsByNode.
#[test]
fn pods_are_mapped_to_nodes_as_with_the_go_controller() {
    let younger = || pod("younger", "b", "v1").with(|facts| facts.created = ago(60));
    assert_eq!(settled(&["a", "b"]).pods([younger()]).moves(), ["-younger"], "2 nodes, 3 pods");
    assert_eq!(settled(&["a"]).pods([pod("gone", "x", "v1")]).moves(), ["-gone"], "pod deletion support");
    assert_eq!(
        settled(&["a"]).pods([pod("gone", "x", "v1").leaving()]).moves(),
        [""; 0],
        "already in deletion state"
    );
    let not_ready = |cluster: super::cluster::Cluster| {
        cluster.node("a", |node| node.taints = vec![taint("node.kubernetes.io/not-ready", "NoExecute")])
    };
    assert_eq!(not_ready(cluster(&["a"])).moves(), ["+a"], "node not ready stays a slot");
    let evicted = cluster(&["a"]).pods([pod("evicted", "a", "v1").failed(1)]);
    assert_eq!(evicted.moves(), ["+a", "-evicted"], "delete evicted pod");
    let evicted = settled(&["a"])
        .pods([pod("evicted", "a", "v1").failed(1), younger().with(|facts| facts.node = Some("a".into()))]);
    assert_eq!(evicted.moves(), ["-evicted", "-younger"], "delete evicted and duplicate pods");
}

#[test]
fn a_node_whose_pod_is_in_an_unknown_state_gets_no_second_one() {
    let lost = pod("lost", "a", "v1").not_ready().with(|facts| facts.phase = Phase::Unknown);
    assert_eq!(cluster(&["a"]).pods([lost]).moves(), [""; 0]);
}

#[test]
fn a_pod_for_no_node_is_left_alone() {
    let adrift = pod("adrift", "a", "v1").with(|facts| facts.node = None);
    assert_eq!(settled(&["a"]).pods([adrift]).moves(), [""; 0]);
}

#[test]
fn a_young_pod_on_a_node_that_is_not_known_yet_is_given_time() {
    let cluster = settled(&["a"]).pods([pod("early", "new", "v1").with(|facts| facts.created = ago(10))]);
    assert_eq!(cluster.moves(), [""; 0]);
    assert_eq!(cluster.plan().next, Some(ago(-20)));
}

// W12: the Go controller keeps the oldest, whatever state it is in.
#[test]
fn of_several_pods_on_a_node_the_one_that_works_stays() {
    let both = |old: super::cluster::PodOf, new: super::cluster::PodOf| {
        cluster(&["a"]).rolling().max_unavailable(Amount::Count(0)).pods([old, new])
    };
    let old = || pod("old", "a", "v1").with(|facts| facts.created = ago(900));
    let new = || pod("new", "a", "v2");
    assert_eq!(both(old(), new()).moves(), ["-old"], "both work: the newer template");
    assert_eq!(both(old(), new().not_ready()).moves(), ["-new"], "what works before what is new");
    assert_eq!(both(old().not_ready(), new()).moves(), ["-old"]);
    assert_eq!(both(old().failed(100), new()).moves(), ["-old"], "failed");
    assert_eq!(both(old().leaving(), new()).moves(), [""; 0], "going already");
    assert_eq!(
        both(old().not_ready(), new().pending(60)).moves(),
        ["-old"],
        "the newer template of two that do not work"
    );
    let same = |name: &str, age| pod(name, "a", "v2").with(|facts| facts.created = ago(age));
    assert_eq!(both(same("p1", 100), same("p2", 200)).moves(), ["-p1"], "the older of equals");
}

// W7: the Go controller deletes running daemons from nodes that get any NoSchedule taint.
#[test]
fn a_taint_that_keeps_new_pods_away_does_not_drive_running_ones_off() {
    for key in ["ToBeDeletedByClusterAutoscaler", "node.kubernetes.io/not-ready", "any"] {
        let tainted = settled(&["a", "b"]).node("a", |node| node.taints = vec![taint(key, "NoSchedule")]);
        assert_eq!(tainted.moves(), [""; 0], "{key}");
        let bare = cluster(&["a"]).node("a", |node| node.taints = vec![taint(key, "NoSchedule")]);
        assert_eq!(bare.moves(), [""; 0], "{key}: no new pod");
    }
    let driven = settled(&["a", "b"]).node("a", |node| node.taints = vec![taint("any", "NoExecute")]);
    assert_eq!(driven.moves(), ["-p-a"]);
    assert_eq!(driven.plan().deletions[0].why, Why::Unfit);
}

#[test]
fn an_outdated_pod_stays_where_its_successor_could_not_be_made() {
    let tainted = settled(&["a"]).rolling().node("a", |node| node.taints = vec![taint("any", "NoSchedule")]);
    assert_eq!(tainted.moves(), [""; 0]);
}

#[test]
fn pods_go_from_nodes_that_the_template_does_not_want_any_more() {
    let narrowed = settled(&["a", "b"])
        .node("a", |node| {
            node.labels.insert("pool".into(), "big".into());
        })
        .placed(0, on_pool("big"));
    assert_eq!(narrowed.moves(), ["-p-b"]);
}

// W2, W27: whatever carries the label but is another's is none of our business.
#[test]
fn foreign_pods_and_replica_sets_are_never_touched() {
    let foreign = |owner| pod("foreign", "a", "v1").with(|facts| facts.owner = owner);
    for owner in [PodOwner::Another, PodOwner::DaemonSet("other".into())] {
        assert_eq!(settled(&["a"]).pods([foreign(owner.clone())]).moves(), [""; 0], "{owner:?}");
        assert_eq!(
            cluster(&["a"]).pods([foreign(owner.clone())]).moves(),
            ["+a"],
            "{owner:?}: and fills nothing"
        );
    }
    let neighbours = settled(&["a"])
        .with(|seen| {
            let mut other = super::cluster::replica_set("other");
            other.controller = Controller::Another;
            other.same_template = true;
            seen.replica_sets.insert(0, other);
        })
        .pods([pod("theirs", "a", "other")]);
    let plan = neighbours.plan();
    assert_eq!((moves(&plan), plan.delete_replica_sets.len()), (vec![], 0));
    assert!(plan.replica_set_statuses.iter().all(|(name, _)| name != "other"));
}

#[test]
fn a_pod_of_a_replica_set_that_is_not_known_yet_fills_its_node_and_is_left_alone() {
    let early = cluster(&["a"]).rolling().pods([pod("early", "a", "unheard-of")]);
    assert_eq!(early.moves(), [""; 0]);
}

#[test]
fn an_old_daemon_sets_pods_and_labelled_orphans_are_replaced_like_outdated_ones() {
    let old = |name: &str, node: &str| {
        pod(name, node, "").with(|facts| facts.owner = PodOwner::DaemonSet("ds".into()))
    };
    let migrating = cluster(&["a", "b", "c"]).with(|seen| seen.old_daemon_set = Some("ds".into())).pods([
        old("d-a", "a"),
        old("d-b", "b"),
        pod("o", "c", "v1").orphaned(),
    ]);
    assert_eq!(migrating.moves(), ["-d-a"], "one at a time");
    assert_eq!(migrating.max_unavailable(Amount::Count(3)).moves(), ["-d-a", "-d-b", "-o"]);
}

// W16: a change of the selector is followed at once, and one that was meant for pods is explained.
#[test]
fn the_selector_selects_nodes_and_a_change_is_followed_at_once() {
    let selector = |json| NodeChoice::Matching(serde_json::from_value::<NodeSelector>(json).unwrap());
    let selected = settled(&["a", "b"])
        .node("a", |node| {
            node.labels.insert("pool".into(), "big".into());
        })
        .with(|seen| seen.set.selector = selector(json!({"matchLabels": {"pool": "big"}})));
    let plan = selected.plan();
    assert_eq!((moves(&plan), plan.copy_selector.as_deref()), (vec!["-p-b".to_owned()], Some("v1")));
    let unclear = settled(&["a"]).with(|seen| {
        seen.set.selector = NodeChoice::Unclear;
        seen.nodes.push(std::sync::Arc::new(node("b")));
    });
    assert_eq!(unclear.moves(), [""; 0], "nobody knows: what runs stays, nothing new");
    let for_pods = cluster(&["a"]).with(|seen| {
        seen.set.selector = selector(json!({"matchLabels": {"app": "foo"}}));
        seen.set.template_labels.insert("app".into(), "foo".into());
    });
    let plan = for_pods.plan();
    let stalled = plan.events.iter().find(|event| event.reason == "SelectorSelectsNoNode").unwrap();
    assert!(stalled.note.contains("remove it to run on every node"), "{}", stalled.note);
}

// W13: the Go controller goes on deleting while frozen, and does not replace what it deleted.
#[test]
fn frozen_means_that_no_pod_is_made_or_taken_for_any_reason() {
    let busy = || {
        settled(&["a", "b", "c", "d", "e"])
            .rolling()
            .node("a", |node| node.taints = vec![taint("any", "NoExecute")])
            .pod("p-b", |pod| pod.failed(100))
            .pods([pod("twin", "c", "v2"), pod("gone", "x", "v2")])
            .with(|seen| seen.nodes.push(std::sync::Arc::new(node("bare"))))
    };
    assert!(busy().moves().len() >= 5, "{:?}", busy().moves());
    assert_eq!(busy().annotated(keys::EDS_ROLLOUT_FROZEN, "true").moves(), [""; 0]);
    assert!(busy().annotated(keys::EDS_ROLLOUT_FROZEN, "truee").moves().len() >= 5, "only true is true");
}

#[test]
fn paused_means_that_nothing_is_replaced_while_the_rest_goes_on() {
    let paused = settled(&["a", "b"])
        .rolling()
        .with(|seen| seen.nodes.push(std::sync::Arc::new(node("bare"))))
        .pod("p-b", |pod| pod.failed(100))
        .annotated(keys::EDS_ROLLING_UPDATE_PAUSED, "true");
    assert_eq!(paused.moves(), ["+b", "+bare", "-p-b"]);
}
