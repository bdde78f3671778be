//! Where a trial runs.

use podwright_api::{
    NodeSelector,
    eds::{Amount, find_condition, words::condition},
};

use super::{
    super::cluster::{Cluster, moves, on_pool, taint},
    new, tried,
};

fn chosen(cluster: &Cluster) -> Vec<String> {
    let status = cluster.plan().status.unwrap_or_else(|| cluster.seen.set.status.clone());
    status.canary.unwrap().nodes
}

fn labelled(cluster: Cluster, labels: &[(&str, &str, &str)]) -> Cluster {
    labels.iter().fold(cluster, |cluster, (node, key, value)| {
        cluster.node(node, |node| {
            node.labels.insert((*key).into(), (*value).into());
        })
    })
}

fn only(key: &str, value: &str) -> NodeSelector {
    NodeSelector { match_labels: [(key.to_owned(), value.to_owned())].into(), ..NodeSelector::default() }
}

// The Go controller's selectNodes.
#[test]
fn as_many_nodes_are_chosen_as_there_should_be() {
    for (replicas, expected) in [
        (Amount::Count(0), 0),
        (Amount::Count(3), 3),
        (Amount::Count(9), 4),
        (Amount::Percent(50), 2),
        (Amount::Percent(1), 1),
        (Amount::Percent(51), 3),
    ] {
        assert_eq!(
            chosen(&new().canary(|canary| canary.replicas = replicas)).len(),
            expected,
            "{replicas:?}"
        );
    }
    let preselected = tried(&["b"]).canary(|canary| canary.replicas = Amount::Count(3));
    assert_eq!(chosen(&preselected)[0], "b");
    assert_eq!(chosen(&preselected).len(), 3);
    let dedicated = labelled(new(), &[("c", "canary", "true")])
        .canary(|canary| canary.node_selector = only("canary", "true"));
    assert_eq!(chosen(&dedicated), ["c"]);
}

// selectNodes_prioritizingLeastRestarts.
#[test]
fn nodes_with_few_restarts_come_first() {
    let restarts = |counts: [u32; 4]| {
        counts.into_iter().zip(["a", "b", "c", "d"]).fold(new(), |cluster, (count, node)| {
            cluster.pod(&format!("p-{node}"), |pod| pod.with(|facts| facts.restarts = count))
        })
    };
    assert_eq!(chosen(&restarts([4, 2, 0, 9])), ["c"]);
    assert_eq!(chosen(&restarts([4, 2, 4, 9])), ["b"]);
    assert_eq!(chosen(&restarts([1, 1, 1, 1])), ["a"], "the first of equals");
    let dedicated = labelled(restarts([0, 5, 0, 0]), &[("b", "canary", "true")])
        .canary(|canary| canary.node_selector = only("canary", "true"));
    assert_eq!(chosen(&dedicated), ["b"]);
    let unwell = new().node("a", |node| node.ready = false);
    assert_eq!(chosen(&unwell), ["b"], "and those that are not ready last");
}

// W14: the Go controller never replaces a canary node, and never gives one up.
#[test]
fn nodes_that_are_lost_are_replaced_and_those_that_are_too_many_given_up() {
    let lost = tried(&["a", "b"]).with(|seen| seen.nodes.retain(|node| node.name != "a"));
    assert_eq!(chosen(&lost), ["b", "c"]);
    let unfit =
        labelled(tried(&["a"]), &[("b", "pool", "new"), ("c", "pool", "new")]).placed(1, on_pool("new"));
    assert_eq!(chosen(&unfit), ["b"]);
    let driven = tried(&["a"]).node("a", |node| node.taints = vec![taint("any", "NoExecute")]);
    assert_eq!(chosen(&driven), ["b"]);
    let fewer = tried(&["a", "b", "c"]).canary(|canary| canary.replicas = Amount::Count(1));
    let plan = fewer.plan();
    assert_eq!(plan.status.as_ref().unwrap().canary.as_ref().unwrap().nodes, ["a"]);
    assert_eq!(moves(&plan), ["-p-b", "-p-c"], "which get the active template back");
    let some_run =
        super::begun(&["a", "b", "c"]).pods_on(&["c"]).canary(|canary| canary.replicas = Amount::Count(1));
    assert_eq!(chosen(&some_run), ["c"], "those where it runs stay");
}

#[test]
fn too_few_nodes_are_said_to_be_so_and_the_rest_goes_on() {
    let few = new().canary(|canary| canary.replicas = Amount::Count(6));
    let plan = few.plan();
    let status = plan.status.as_ref().unwrap();
    assert!(find_condition(&status.conditions, condition::CANARY_TOO_FEW_NODES).unwrap().is_true());
    assert_eq!(plan.events.iter().filter(|event| event.reason == "CanaryTooFewNodes").count(), 1);
    assert_eq!((status.state.as_str(), moves(&plan).len()), ("Canary", 4));
    let told = few.stored();
    assert_eq!(told.plan().events.len(), 0);
    let enough = told.canary(|canary| canary.replicas = Amount::Count(1));
    let status = enough.plan().status.unwrap();
    assert!(!find_condition(&status.conditions, condition::CANARY_TOO_FEW_NODES).unwrap().is_true());
}

#[test]
fn only_nodes_that_the_new_template_wants_are_chosen() {
    let narrow = labelled(new(), &[("d", "pool", "new")]).placed(1, on_pool("new"));
    assert_eq!(chosen(&narrow), ["d"]);
    let tainted = new().node("a", |node| node.taints = vec![taint("any", "NoSchedule")]);
    assert_eq!(chosen(&tainted), ["b"]);
}

#[test]
fn anti_affinity_spreads_evenly_and_unfit_nodes_do_not_count() {
    let racks =
        labelled(new(), &[("a", "rack", "1"), ("b", "rack", "1"), ("c", "rack", "2"), ("d", "rack", "3")])
            .canary(|canary| canary.anti_affinity_keys = vec!["rack".into()]);
    let of =
        |cluster: Cluster, count| chosen(&cluster.canary(|canary| canary.replicas = Amount::Count(count)));
    let racks = move |count| of(Cluster { seen: racks.seen.clone() }, count);
    assert_eq!(racks(3), ["a", "c", "d"]);
    assert_eq!(racks(4), ["a", "c", "d", "b"], "uneven racks do not make it impossible");
}

#[test]
fn each_stratum_has_its_share_and_the_choice_follows_from_a_seed_that_is_shown() {
    let names: Vec<String> = (0..40).map(|number| format!("n{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut big = super::super::cluster::settled(&names).updated().with(|seen| {
        seen.set.strategy.canary = Some(super::strategy());
        for (number, node) in seen.nodes.iter_mut().enumerate() {
            let arch = if number % 4 == 0 { "arm64" } else { "amd64" };
            std::sync::Arc::make_mut(node).labels.insert("arch".into(), arch.into());
        }
    });
    big = big.canary(|canary| {
        canary.replicas = Amount::Count(8);
        canary.spread_by = vec!["arch".into()];
    });
    let status = big.plan().status.unwrap().canary.unwrap();
    let arm = status.nodes.iter().filter(|name| name[1..].parse::<usize>().unwrap() % 4 == 0).count();
    assert_eq!((status.nodes.len(), arm), (8, 2));
    assert!(!status.seed.is_empty());
    assert_eq!(big.plan().status.unwrap().canary.unwrap(), status, "the same each time");
    let other = big.with(|seen| seen.replica_sets[1].template_generation = "v3".into());
    assert_ne!(
        other.plan().status.unwrap().canary.unwrap().nodes,
        status.nodes,
        "and another for another template"
    );
}

#[test]
fn percent_is_of_the_nodes_that_there_are_and_not_of_a_figure_that_was_stored() {
    let stale =
        new().with(|seen| seen.set.status.desired = 0).canary(|canary| canary.replicas = Amount::Percent(50));
    assert_eq!(chosen(&stale).len(), 2);
}
