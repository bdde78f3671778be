use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::rollout::overrides::NodeOverrides;

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn spec(template: Value) -> ExtendedDaemonSetSpec {
    serde_json::from_value(json!({"template": template, "strategy": {}})).unwrap()
}

fn made(template: &Value) -> Value {
    let origin = Origin {
        namespace: "bar",
        daemon_set: "foo",
        replica_set: "foo-8z7lr",
        uid: "u",
        template_generation: "hash",
        template,
        canary: false,
    };
    pod(&origin, "node1", &Wanted::default(), 0)
}

#[test]
fn a_replica_set_carries_what_the_protocol_asks_for() {
    let (labels, annotations) = (map(&[("app", "x")]), map(&[("team", "y")]));
    let parent =
        Parent { namespace: "bar", name: "foo", uid: "u", labels: &labels, annotations: &annotations };
    let spec = spec(json!({}));
    let fingerprint = Fingerprint::of(&spec.template.0);
    let name = replica_set_name("foo", &fingerprint, |_| false);
    assert_eq!(
        replica_set(&parent, &name, &spec, &fingerprint),
        json!({
            "apiVersion": "datadoghq.com/v1alpha1",
            "kind": "ExtendedDaemonSetReplicaSet",
            "metadata": {
                "namespace": "bar",
                "name": name,
                "generateName": "foo-",
                "labels": {"app": "x", "extendeddaemonset.datadoghq.com/name": "foo"},
                "annotations": {
                    "team": "y",
                    "extendeddaemonset.datadoghq.com/templatehash": "a2bb34618483323482d9a56ae2515eed",
                },
                "ownerReferences": [{
                    "apiVersion": "datadoghq.com/v1alpha1", "kind": "ExtendedDaemonSet", "name": "foo", "uid": "u",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {"template": {}, "templateGeneration": "a2bb34618483323482d9a56ae2515eed"},
        })
    );
}

#[test]
fn a_label_of_the_daemon_set_cannot_disown_its_replica_set_and_commands_are_not_copied() {
    let labels = map(&[(keys::EDS_NAME, "another")]);
    let annotations = map(&[
        (keys::EDS_CANARY_PAUSED, "true"),
        (keys::EDS_OLD_DAEMONSET, "old"),
        ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
        ("mine", "kept"),
    ]);
    let parent =
        Parent { namespace: "bar", name: "foo", uid: "u", labels: &labels, annotations: &annotations };
    let mut spec = spec(json!({"metadata": {"name": "dropped", "labels": {"a": "b"}}, "spec": {"new": 1}}));
    spec.selector = Some(serde_json::from_value(json!({"matchLabels": {"pool": "big"}})).unwrap());
    let fingerprint = Fingerprint::of(&spec.template.0);
    let replica_set = replica_set(&parent, "foo-x", &spec, &fingerprint);
    assert_eq!(replica_set["metadata"]["labels"], json!({keys::EDS_NAME: "foo"}));
    let copied = json!({"mine": "kept", keys::EDS_TEMPLATE_HASH: fingerprint.hash});
    assert_eq!(replica_set["metadata"]["annotations"], copied);
    assert_eq!(replica_set["spec"]["selector"], json!({"matchLabels": {"pool": "big"}}));
    assert_eq!(
        replica_set["spec"]["template"],
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"new": 1}}),
        "fields from the future stay"
    );
    let pod_template = pod_template(&parent, &spec, &fingerprint);
    assert_eq!(
        (&pod_template["kind"], &pod_template["metadata"]["name"], &pod_template["metadata"]["annotations"]),
        (&json!("PodTemplate"), &json!("foo"), &copied)
    );
    assert_eq!(pod_template["metadata"]["labels"]["cluster-autoscaler.kubernetes.io/daemonset-pod"], "true");
    assert_eq!(pod_template["metadata"]["ownerReferences"][0]["kind"], "ExtendedDaemonSet");
    assert_eq!(pod_template["template"], replica_set["spec"]["template"]);
}

#[test]
fn a_replica_set_is_named_by_what_its_template_means() {
    let name = |template: &Value| replica_set_name("foo", &Fingerprint::of(template), |_| false);
    let template =
        json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "1Gi"}}}]}});
    let same = json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "1024Mi"}}, "env": []}]}});
    let first = name(&template);
    assert_eq!(first, name(&same));
    assert_ne!(first, name(&json!({})));
    assert!(first.starts_with("foo-") && first.len() == "foo-8z7lr".len(), "{first}");
    let fingerprint = Fingerprint::of(&template);
    let second = replica_set_name("foo", &fingerprint, |name| name == first);
    let third = replica_set_name("foo", &fingerprint, |name| name == first || name == second);
    assert!(first != second && second != third && first != third);
    assert_eq!(second, replica_set_name("foo", &fingerprint, |name| name == first), "and so is the way out");
}

#[test]
fn names_fit_into_labels_however_long_the_daemon_sets_name_is() {
    let fingerprint = Fingerprint::of(&json!({}));
    for length in 1..=63 {
        let daemon_set =
            format!("{}a", "a.-".repeat(21))[63 - length..].trim_start_matches(['.', '-']).to_owned();
        let name = replica_set_name(&daemon_set, &fingerprint, |_| false);
        assert!(name.len() <= 63 && !name.contains("--") && !name.contains(".-b"), "{name}");
    }
    let long = ["x".repeat(62) + "a", "x".repeat(62) + "b"];
    let [a, b] = long.map(|name| replica_set_name(&name, &fingerprint, |_| false));
    assert_ne!(a, b, "names that are cut to the same still differ");
}

#[test]
fn a_pod_carries_what_the_protocol_asks_for_and_every_field_of_its_template() {
    let template = json!({
        "metadata": {
            "name": "dropped", "creationTimestamp": null, "labels": {"app": "x", keys::EDS_NAME: "forged"},
            "annotations": {"a": "b"}, "finalizers": ["f"],
        },
        "spec": {"containers": [{"name": "c", "image": "i", "new": true}], "alsoNew": 1},
    });
    let pod = made(&template);
    assert_eq!(
        pod["metadata"],
        json!({
            "namespace": "bar",
            "name": pod_name("foo-8z7lr", "node1", 0),
            "generateName": "foo-8z7lr-",
            "labels": {
                "app": "x",
                "extendeddaemonset.datadoghq.com/name": "foo",
                "extendeddaemonsetreplicaset.datadoghq.com/name": "foo-8z7lr",
            },
            "annotations": {
                "a": "b",
                "extendeddaemonset.datadoghq.com/templatehash": "hash",
                "cluster-autoscaler.kubernetes.io/daemonset-pod": "true",
            },
            "finalizers": ["f"],
            "ownerReferences": [{
                "apiVersion": "datadoghq.com/v1alpha1", "kind": "ExtendedDaemonSetReplicaSet", "name": "foo-8z7lr", "uid": "u",
                "controller": true, "blockOwnerDeletion": true,
            }],
        })
    );
    assert_eq!(pod["spec"]["containers"], template["spec"]["containers"]);
    assert_eq!(pod["spec"]["alsoNew"], 1);
    assert_eq!(pod["spec"]["nodeName"], Value::Null);
    assert_eq!(
        pod["spec"]["affinity"],
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node1"]}]},
        ]}}})
    );
    let view = crate::pod::PodView::read(&pod.to_string()).unwrap();
    assert_eq!(view.target_node(), Some("node1"), "as admission reads it");
}

#[test]
fn a_pod_is_named_by_its_node_and_by_how_many_failed_before_it() {
    let template = json!({"spec": {"containers": []}});
    let origin = Origin {
        namespace: "b",
        daemon_set: "f",
        replica_set: "f-x",
        uid: "u",
        template_generation: "",
        template: &template,
        canary: true,
    };
    let pods = [("n1", 0), ("n1", 1), ("n2", 0)]
        .map(|(node, failures)| pod(&origin, node, &Wanted::default(), failures));
    assert_eq!(pods[0]["metadata"]["labels"][keys::EDS_CANARY], "true");
    assert!(pods[0]["metadata"]["name"] != pods[1]["metadata"]["name"]);
    assert!(pods[0]["metadata"]["name"] != pods[2]["metadata"]["name"]);
    assert_eq!(pods[0]["metadata"]["annotations"].get(keys::EDS_POD_FAILURES), None);
    assert_eq!(pods[1]["metadata"]["annotations"][keys::EDS_POD_FAILURES], "1");
    let names: std::collections::BTreeSet<String> =
        (0..5000).map(|n| pod_name("f-x", &format!("node-{n}"), 0)).collect();
    assert_eq!(names.len(), 5000);
}

#[test]
fn every_term_of_the_template_is_kept_and_bound_to_the_node() {
    let mine = json!([{"key": "pool", "operator": "Exists"}]);
    for (terms, expected) in [
        (json!([]), json!([{}])),
        (json!([{"matchExpressions": mine}, {}]), json!([{"matchExpressions": mine}, {}])),
        // A node's name in the template gives way.
        (
            json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["other"]}]}]),
            json!([{}]),
        ),
    ] {
        let template = json!({"spec": {"affinity": {
            "podAffinity": {"kept": true},
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [1],
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            },
        }}});
        let affinity = made(&template)["spec"]["affinity"].take();
        assert_eq!(affinity["podAffinity"]["kept"], true);
        assert_eq!(affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"], json!([1]));
        let mut expected = expected;
        for term in expected.as_array_mut().unwrap() {
            term["matchFields"] = json!([{"key": "metadata.name", "operator": "In", "values": ["node1"]}]);
        }
        let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(required["nodeSelectorTerms"], expected);
    }
}

#[test]
fn standard_tolerations_are_added_and_none_is_said_twice() {
    let own = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"});
    let other = json!({"operator": "Exists", "tolerationSeconds": 5});
    let spec = made(&json!({"spec": {"tolerations": [other, own]}}))["spec"].take();
    let tolerations = spec["tolerations"].as_array().unwrap();
    assert_eq!(tolerations.len(), 1 + STANDARD_TOLERATIONS.len());
    assert_eq!(&tolerations[..2], [other, own]);
    let pid = json!({"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"});
    assert!(tolerations.contains(&pid));
}

#[test]
fn no_template_however_odd_makes_it_panic() {
    for template in [
        json!(null),
        json!("text"),
        json!({"metadata": "x", "spec": "y"}),
        json!({"metadata": {"labels": 1, "annotations": []}, "spec": {"containers": ["x", null], "tolerations": 1, "affinity": "z"}}),
        json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": ["x"]}}}}}),
    ] {
        assert_eq!(made(&template)["kind"], "Pod");
        let _ = Wanted::of(&template, &NodeOverrides::default(), None);
    }
}

/// JSON that looks like a template in places.
fn any_template() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z<&é\\u{2028}]{0,4}".prop_map(Value::from),
        Just(json!("1.5Gi")),
    ];
    let key = prop::sample::select(vec![
        "metadata",
        "spec",
        "labels",
        "annotations",
        "containers",
        "name",
        "resources",
        "limits",
        "cpu",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
        "matchFields",
        "tolerations",
        "ports",
        "new",
    ]);
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_a_template_is_it_has_a_fingerprint_and_pods_of_it_name_their_node(template in any_template()) {
        let fingerprint = Fingerprint::of(&template);
        prop_assert_eq!(&fingerprint, &Fingerprint::of(&template.clone()));
        prop_assert_eq!(fingerprint.hash.len(), 32);
        let pod = made(&template);
        let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let terms = required["nodeSelectorTerms"].as_array().unwrap();
        prop_assert!(!terms.is_empty());
        for term in terms {
            let field = json!({"key": "metadata.name", "operator": "In", "values": ["node1"]});
            prop_assert_eq!(term["matchFields"].as_array().unwrap().last(), Some(&field));
        }
        prop_assert_eq!(&pod["metadata"]["labels"][keys::EDS_REPLICA_SET], "foo-8z7lr");
    }
}
