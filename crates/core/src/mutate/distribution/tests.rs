use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{
    distribution::Place,
    mutate::{Fact, Verdict, WorkloadFacts},
};

const REQUEST: Request<'static> =
    Request { ask: Asked::Create, namespace: "apps", uid: "0b5f2c1e-77aa-4d53", dry_run: false };

fn rule(spec: Value) -> Arc<Rule> {
    Arc::new(Rule {
        namespace: "apps".to_owned(),
        name: "spread".to_owned(),
        created: 10,
        generation: Some(1),
        spec: serde_json::from_value(spec).unwrap(),
        status: serde_json::from_value(json!({})).unwrap(),
    })
}

fn eighty_twenty() -> Value {
    json!({
        "distribution": [
            {"nodeLabel": {"type": "default"}, "weight": 80},
            {"nodeLabel": {"type": "spot", "zone": "a"}, "weight": 20,
             "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]},
        ],
        "target": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    })
}

fn owner(version: &str, kind: &str, name: &str) -> OwnerReference {
    OwnerReference {
        api_version: version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        controller: Some(true),
    }
}

fn of_replica_set() -> Value {
    json!({
        "metadata": {
            "generateName": "web-abc-", "labels": {"app": "other", "pod-template-hash": "abc"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abc", "controller": true}],
        },
        "spec": {"containers": [{"name": "app"}]},
    })
}

#[derive(Clone)]
struct Gone;

/// The cluster as a pod meets it.
struct Scene {
    rules: Vec<Arc<Rule>>,
    /// Whether the pod's ReplicaSet is there still, and whose it is.
    replica_set: Result<Option<OwnerReference>, Gone>,
    place: Option<Place>,
    asked: Vec<Ask>,
}

impl Scene {
    fn new(spec: Value) -> Self {
        Self {
            rules: vec![rule(spec)],
            replica_set: Ok(Some(owner("apps/v1", "Deployment", "web"))),
            place: Some(Place { entry: 1, ticket: "t1".to_owned(), cost: Some(-5) }),
            asked: Vec::new(),
        }
    }

    fn review(&mut self, pod: &Value) -> Outcome {
        let view = PodView::read(&pod.to_string()).unwrap();
        let mut facts = Facts::default();
        for _ in 0..4 {
            match Distribution::new(&DistributionConfig::default()).review(&REQUEST, &view, &facts) {
                Review::Done(outcome) => return outcome,
                Review::Needs(lookups) => {
                    for lookup in lookups {
                        let fact = self.find(&lookup);
                        facts.insert(lookup, fact);
                    }
                }
            }
        }
        panic!("it never ends");
    }

    fn find(&mut self, lookup: &Lookup) -> Option<Fact> {
        match lookup {
            Lookup::Rules { .. } => Some(Fact::Rules(self.rules.clone().into())),
            Lookup::Workload { .. } => {
                self.replica_set.clone().ok().map(|owner| {
                    Fact::Workload(Arc::new(WorkloadFacts { owner, ..WorkloadFacts::default() }))
                })
            }
            Lookup::Place { ask, .. } => {
                self.asked.push((**ask).clone());
                self.place.clone().map(Fact::Place)
            }
            other => panic!("{other}"),
        }
    }

    fn applied(&mut self, pod: &Value) -> Value {
        let outcome = self.review(pod);
        let mut pod = pod.clone();
        json_patch::patch(&mut pod, &outcome.patch).unwrap();
        pod
    }
}

#[test]
fn a_pod_gets_the_labels_tolerations_and_marks_of_its_place_and_a_second_look_changes_nothing() {
    let mut scene = Scene::new(eighty_twenty());
    let pod = scene.applied(&of_replica_set());
    assert_eq!(pod["spec"]["nodeSelector"], json!({"type": "spot", "zone": "a"}));
    assert_eq!(
        pod["spec"]["tolerations"],
        json!([{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}])
    );
    assert_eq!(
        pod["metadata"]["annotations"],
        json!({
            "mutated-by": "spread-webhook-service",
            "podwright.io/distribution": r#"{"rule":"spread","entry":"type=spot,zone=a","ticket":"t1"}"#,
            "controller.kubernetes.io/pod-deletion-cost": "-5", "podwright.io/deletion-cost": "-5",
        })
    );
    let ask = &scene.asked[0];
    assert_eq!((ask.ticket.as_str(), ask.revision.as_str(), &ask.held), ("0b5f2c1e77aa4", "abc", &None));
    let again = scene.review(&pod);
    assert_eq!(scene.asked[1].held.as_deref(), Some("t1"));
    assert_eq!((again.verdict(), again.warnings.len()), (Verdict::Unchanged, 0));
}

#[test]
fn what_the_user_wrote_stays_beside_it() {
    let mut pod = of_replica_set();
    pod["metadata"]["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": "100", "a": "b"});
    pod["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    pod["spec"]["tolerations"] = json!([{"key": "own", "operator": "Exists"}]);
    let pod = Scene::new(eighty_twenty()).applied(&pod);
    assert_eq!(pod["spec"]["nodeSelector"], json!({"disk": "ssd", "type": "spot", "zone": "a"}));
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"], "100");
    assert_eq!(pod["metadata"]["annotations"]["podwright.io/deletion-cost"], json!(null));
    assert_eq!(pod["metadata"]["annotations"]["a"], "b");
}

#[test]
fn a_rule_that_contradicts_the_pods_own_selector_leaves_it_alone_and_says_so() {
    let mut scene = Scene::new(eighty_twenty());
    let mut pod = of_replica_set();
    pod["spec"]["nodeSelector"] = json!({"type": "spot"});
    let outcome = scene.review(&pod);
    assert_eq!((outcome.verdict(), scene.asked.len()), (Verdict::Unchanged, 0));
    assert!(
        outcome.warnings[0].contains("type=spot") && outcome.warnings[0].contains("apps/spread"),
        "{outcome:?}"
    );
}

#[test]
fn a_copy_of_a_placed_pod_is_placed_by_itself_and_loses_what_the_other_was_given() {
    let mut scene = Scene::new(eighty_twenty());
    let copy = scene.applied(&of_replica_set());
    scene.place = Some(Place { entry: 0, ticket: "t2".to_owned(), cost: Some(-6) });
    let placed = scene.applied(&copy);
    assert_eq!(placed["spec"]["nodeSelector"], json!({"type": "default"}));
    assert_eq!(placed["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"], "-6");
}

#[test]
fn pods_find_their_rule_by_who_made_them_and_only_orphans_by_their_label() {
    let made_by = |version: &str, kind: &str, name: &str| {
        let mut pod = of_replica_set();
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": version, "kind": kind, "name": name, "controller": true}]);
        pod
    };
    let mut orphan = of_replica_set();
    orphan["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    orphan["metadata"]["labels"]["app"] = json!("web");
    let target = |kind: &str| json!({"kind": kind, "name": "web"});
    for (target, pod, owner_of_replica_set, placed) in [
        (target("Deployment"), of_replica_set(), Some(owner("apps/v1", "Deployment", "web")), true),
        (target("Deployment"), of_replica_set(), Some(owner("apps/v1", "Deployment", "web-2")), false),
        (target("Deployment"), of_replica_set(), None, false),
        (target("Rollout"), of_replica_set(), Some(owner("argoproj.io/v1alpha1", "Rollout", "web")), true),
        (
            json!({"apiVersion": "apps/v1", "kind": "Rollout", "name": "web"}),
            of_replica_set(),
            Some(owner("argoproj.io/v1alpha1", "Rollout", "web")),
            false,
        ),
        (json!({"kind": "ReplicaSet", "name": "web-abc"}), of_replica_set(), None, true),
        (target("CloneSet"), made_by("apps.kruise.io/v1alpha1", "CloneSet", "web"), None, true),
        (target("Deployment"), made_by("apps.kruise.io/v1alpha1", "CloneSet", "web"), None, false),
        (target("Job"), made_by("batch/v1", "Job", "web"), None, true),
        (target("Deployment"), made_by("batch/v1", "Job", "web"), None, false),
        (json!({"name": "web"}), orphan.clone(), None, true),
        (json!({"name": "other"}), orphan, None, false),
    ] {
        let mut spec = eighty_twenty();
        spec["target"] = target.clone();
        let mut scene = Scene::new(spec);
        scene.replica_set = Ok(owner_of_replica_set);
        let verdict = scene.review(&pod).verdict();
        assert_eq!(verdict == Verdict::Mutated, placed, "{target} {}: {verdict:?}", pod["metadata"]);
    }
}

#[test]
fn a_replica_set_that_is_gone_is_known_by_its_name() {
    let mut scene = Scene::new(eighty_twenty());
    scene.replica_set = Err(Gone);
    assert_eq!(scene.review(&of_replica_set()).verdict(), Verdict::Mutated);
}

#[test]
fn of_two_rules_the_older_counts_and_one_that_cannot_be_used_never_does() {
    let mut scene = Scene::new(eighty_twenty());
    let mut younger = (*scene.rules[0]).clone();
    (younger.name, younger.created) = ("a-younger".to_owned(), 11);
    let mut broken = (*scene.rules[0]).clone();
    (broken.name, broken.created) = ("oldest".to_owned(), 1);
    broken.spec.distribution[0].weight = -1;
    scene.rules.extend([Arc::new(younger), Arc::new(broken)]);
    let pod = scene.applied(&of_replica_set());
    assert!(pod["metadata"]["annotations"][keys::DISTRIBUTION].as_str().unwrap().contains("\"spread\""));
}

#[test]
fn stateful_sets_are_spread_by_ordinal_without_taking_a_place() {
    let mut spec = eighty_twenty();
    spec["target"] = json!({"kind": "StatefulSet", "name": "web"});
    let mut scene = Scene::new(spec);
    let mut entries = Vec::new();
    for ordinal in 0..10 {
        let pod = json!({
            "metadata": {"name": format!("web-{ordinal}"), "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": true}]},
            "spec": {"containers": []},
        });
        entries.push(scene.applied(&pod)["spec"]["nodeSelector"]["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(entries.iter().filter(|entry| *entry == "spot").count(), 2, "{entries:?}");
    assert!(scene.asked.is_empty());
}

#[test]
fn while_an_entry_is_closed_only_its_own_numbers_of_a_stateful_set_go_elsewhere() {
    let entries: Vec<Value> =
        ["a", "b", "c"].map(|pool| json!({"nodeLabel": {"pool": pool}, "weight": 1})).into();
    let spec = json!({"distribution": entries, "target": {"kind": "StatefulSet", "name": "db"}, "whenUnsatisfiable": "Spill"});
    let mut rule = (*rule(spec)).clone();
    let weights = rule.weights().unwrap();
    let all = |rule: &Rule| (0..12).map(|n| by_ordinal(rule, &weights, n).unwrap()).collect::<Vec<_>>();
    let own = all(&rule);
    let closed = json!({"entry": "pool=b", "desired": 4, "actual": 0, "nodes": 0, "state": "NoNodes"});
    rule.status.entries = serde_json::from_value(json!([closed])).unwrap();
    let now = all(&rule);
    let moved: Vec<usize> = (0..12).filter(|n| own[*n] != now[*n]).map(|n| now[n]).collect();
    assert!((0..12).all(|n| own[n] == 1 || own[n] == now[n]), "{own:?} {now:?}");
    assert_eq!(moved, [0, 2, 0, 2], "they are shared out among the others");
}

#[test]
fn preferred_pods_get_a_preference_beside_their_own_and_no_selector() {
    let mut spec = eighty_twenty();
    spec["mode"] = json!("Preferred");
    let term = json!({"weight": 100, "preference": {"matchExpressions": [
        {"key": "type", "operator": "In", "values": ["spot"]}, {"key": "zone", "operator": "In", "values": ["a"]}]}});
    let own = json!({"weight": 1, "preference": {"matchExpressions": []}});
    let list = "preferredDuringSchedulingIgnoredDuringExecution";
    for (affinity, expected) in [
        (json!(null), json!({"nodeAffinity": {list: [term]}})),
        (json!({"podAffinity": {}}), json!({"podAffinity": {}, "nodeAffinity": {list: [term]}})),
        (json!({"nodeAffinity": {}}), json!({"nodeAffinity": {list: [term]}})),
        (json!({"nodeAffinity": {list: [own]}}), json!({"nodeAffinity": {list: [own, term]}})),
    ] {
        let mut pod = of_replica_set();
        if !affinity.is_null() {
            pod["spec"]["affinity"] = affinity;
        }
        let mut scene = Scene::new(spec.clone());
        let placed = scene.applied(&pod);
        assert_eq!((&placed["spec"]["affinity"], &placed["spec"]["nodeSelector"]), (&expected, &json!(null)));
        assert_eq!(scene.review(&placed).verdict(), Verdict::Unchanged);
    }
}

#[test]
fn nobody_is_asked_for_pods_that_no_rule_can_be_for() {
    let mut scene = Scene::new(eighty_twenty());
    let mut daemon = of_replica_set();
    daemon["metadata"]["ownerReferences"][0]["kind"] = json!("DaemonSet");
    let mut bound = of_replica_set();
    bound["spec"]["nodeName"] = json!("n");
    let mut stranger = of_replica_set();
    stranger["metadata"]["ownerReferences"][0]["name"] = json!("else-abc");
    scene.replica_set = Err(Gone);
    for pod in [daemon, bound, stranger] {
        assert_eq!(scene.review(&pod).verdict(), Verdict::Skipped, "{pod}");
    }
    scene.place = None;
    assert_eq!(scene.review(&of_replica_set()).verdict(), Verdict::Skipped, "the rule has gone meanwhile");
}
