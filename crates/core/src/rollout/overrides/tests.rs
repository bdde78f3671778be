use std::collections::BTreeMap;

use podwright_api::{Moment, eds::ExtendedDaemonsetSettingStatus, keys};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    settings::{Setting, chosen, judge},
    *,
};
use crate::rollout::objects::{Origin, pod};

const KEY: &str = "resources.extendeddaemonset.datadoghq.com/bar.foo.daemons";

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn node(annotations: &[(&str, &str)]) -> NodeOverrides {
    NodeOverrides::read(&map(annotations), "bar", "foo")
}

fn template() -> Value {
    json!({"spec": {
        "containers": [{"name": "daemons", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}, {"name": "other"}],
        "initContainers": [{"name": "init", "resources": {"requests": {"cpu": "7"}}}],
    }})
}

fn setting(name: &str, age: i64, reference: &str, selector: Value, containers: Value) -> Setting {
    let spec = serde_json::from_value(json!({
        "reference": {"kind": "ExtendedDaemonset", "name": reference}, "nodeSelector": selector, "containers": containers,
    }))
    .unwrap();
    Setting::read("bar", name, Moment::from_millis(1_000_000 - age), &spec)
}

fn daemons(resources: Value) -> Value {
    json!([{"name": "daemons", "resources": resources}])
}

/// The pod that is made from it.
fn made(wanted: &Wanted) -> Value {
    let template = template();
    let origin = Origin {
        namespace: "bar",
        daemon_set: "foo",
        replica_set: "foo-x",
        uid: "u",
        template_generation: "h",
        template: &template,
        canary: false,
    };
    pod(&origin, "n", wanted, 0)
}

fn record(pod: &Value) -> PodRecord {
    let strings = |field: &str| serde_json::from_value(pod["metadata"][field].clone()).unwrap_or_default();
    PodRecord::read(&strings("labels"), &strings("annotations"), || {
        let containers = pod["spec"]["containers"].as_array().unwrap();
        containers
            .iter()
            .map(|one| (one["name"].as_str().unwrap().to_owned(), one["resources"].clone()))
            .collect()
    })
}

fn resources(pod: &Value, container: usize) -> &Value {
    &pod["spec"]["containers"][container]["resources"]
}

#[test]
fn the_digest_of_a_nodes_annotations_is_the_one_that_the_go_controller_writes() {
    let ours = (KEY, r#"{"limits":{"cpu": "1"}}"#);
    let others = [
        ("resources.extendeddaemonset.datadoghq.com/bar.food.daemons", "{}"),
        ("resources.extendeddaemonset.datadoghq.com/baz.foo.daemons", "{}"),
        ("unrelated", "x"),
    ];
    assert_eq!(node(&[]).hash, None);
    assert_eq!(node(&others).hash, None, "present, but not for this one");
    let expected = Some("bc9eacb89b7a44531492e87a37922dc3");
    assert_eq!(node(&[ours]).hash.as_deref(), expected);
    assert_eq!(node(&[ours, others[0], others[1], others[2]]).hash.as_deref(), expected);
}

#[test]
fn several_annotations_are_digested_in_the_order_of_their_lines() {
    let prefix = "resources.extendeddaemonset.datadoghq.com/bar.foo.";
    let (a, longer) = (format!("{prefix}a"), format!("{prefix}a-b"));
    // "-" sorts before "=", so the longer key comes first.
    let expected = md5_hex(format!("{longer}={{}}{a}={{}}").as_bytes());
    assert_eq!(node(&[(&a, "{}"), (&longer, "{}")]).hash, Some(expected));
}

#[test]
fn an_annotation_replaces_the_resources_of_its_container_with_keys_in_any_case() {
    for json in [
        r#"{"Requests":{"cpu":"2"}}"#,
        r#"{"requests":{"cpu":"2"}}"#,
        r#"{"REQUESTS":{"cpu":2},"limits":null}"#,
    ] {
        let overrides = node(&[(KEY, json)]);
        assert_eq!(overrides.problems, []);
        let pod = made(&Wanted::of(&template(), &overrides, None));
        assert_eq!(resources(&pod, 0), &json!({"requests": {"cpu": "2"}}), "memory is gone as well");
        assert_eq!(resources(&pod, 1), &Value::Null);
        assert_eq!(pod["spec"]["initContainers"], template()["spec"]["initContainers"]);
        assert_eq!(pod["metadata"]["annotations"][keys::EDS_NODE_OVERRIDES], json!(overrides.hash));
    }
}

#[test]
fn an_annotation_that_cannot_be_read_is_named_and_changes_nothing() {
    for (json, expected) in [
        ("{oops", "it is not JSON"),
        ("[]", "must be an object"),
        (r#"{"limits":{"cpu":"much"}}"#, "limits.cpu: \"much\" is not a quantity"),
        (r#"{"limits":[1]}"#, "limits must be an object"),
        (r#"{"requests":{"cpu":true}}"#, "requests.cpu is neither"),
    ] {
        let overrides = node(&[(KEY, json)]);
        let [problem] = &overrides.problems[..] else { panic!("{json}: {:?}", overrides.problems) };
        assert_eq!(problem.annotation, KEY);
        assert!(problem.message.contains(expected), "{}", problem.message);
        let wanted = Wanted::of(&template(), &overrides, None);
        let pod = made(&wanted);
        assert_eq!(resources(&pod, 0), &template()["spec"]["containers"][0]["resources"]);
        assert!(wanted.is_met_by(&record(&made(&Wanted::default()))), "and no pod is replaced for it");
        assert!(Wanted::default().is_met_by(&record(&pod)), "nor when it is removed");
    }
    let odd = node(&[(KEY, r#"{"limits":{"cpu":"1"},"request":{}}"#)]);
    assert!(odd.problems[0].message.contains("\"request\" is passed over"), "{:?}", odd.problems);
    assert_eq!(resources(&made(&Wanted::of(&template(), &odd, None)), 0), &json!({"limits": {"cpu": "1"}}));
}

#[test]
fn a_setting_replaces_resources_and_names_itself_and_the_annotation_wins_over_it() {
    let setting = setting("big", 0, "foo", json!({}), daemons(json!({"limits": {"cpu": "3"}})));
    let plain = made(&Wanted::of(&template(), &node(&[]), Some(&setting)));
    assert_eq!(resources(&plain, 0), &json!({"limits": {"cpu": "3"}}));
    assert_eq!(plain["metadata"]["labels"]["extendeddaemonsetsetting.datadoghq.com/name"], "big");
    assert_eq!(plain["metadata"]["labels"]["extendeddaemonsetsetting.datadoghq.com/namespace"], "bar");
    let overrides = node(&[(KEY, r#"{"limits":{"cpu":"4"}}"#)]);
    let wanted = Wanted::of(&template(), &overrides, Some(&setting));
    let both = made(&wanted);
    assert_eq!(resources(&both, 0), &json!({"limits": {"cpu": "4"}}));
    assert!(wanted.is_met_by(&record(&both)), "made and compared by the same rule (W17)");
}

#[test]
fn a_pod_is_replaced_when_an_override_comes_changes_or_goes_and_only_then() {
    let of = |json: Option<&str>, setting: Option<&Setting>| {
        let annotations: Vec<(&str, &str)> = json.map(|json| (KEY, json)).into_iter().collect();
        Wanted::of(&template(), &node(&annotations), setting)
    };
    let three = setting("s", 0, "foo", json!({}), daemons(json!({"limits": {"cpu": "3", "memory": "1Gi"}})));
    let less = setting("s", 0, "foo", json!({}), daemons(json!({"limits": {"cpu": "3"}})));
    let renamed =
        setting("t", 0, "foo", json!({}), daemons(json!({"limits": {"cpu": "3000m", "memory": "1024Mi"}})));
    let elsewhere =
        setting("s", 0, "foo", json!({}), json!([{"name": "absent", "resources": {"limits": {"cpu": "1"}}}]));
    let cpu_2 = Some(r#"{"limits":{"cpu":"2"}}"#);
    for (before, after, stays) in [
        (of(None, None), of(None, None), true),
        (of(None, None), of(cpu_2, None), false),
        (of(cpu_2, None), of(None, None), false),
        (of(cpu_2, None), of(Some(r#"{"limits":{"cpu":"3"}}"#), None), false),
        (of(cpu_2, None), of(Some(r#"{"Limits": {"cpu": "2000m"}}"#), None), true),
        (of(None, None), of(None, Some(&three)), false),
        (of(None, Some(&three)), of(None, None), false),
        (of(None, Some(&three)), of(None, Some(&less)), false),
        (of(None, Some(&less)), of(None, Some(&three)), false),
        (of(None, Some(&three)), of(None, Some(&renamed)), true),
        (of(cpu_2, Some(&three)), of(cpu_2, Some(&less)), true),
        (of(cpu_2, Some(&three)), of(None, Some(&three)), false),
        (of(None, None), of(None, Some(&elsewhere)), true),
        (of(None, Some(&elsewhere)), of(None, None), true),
    ] {
        assert_eq!(after.is_met_by(&record(&made(&before))), stays, "{before:?}\n{after:?}");
    }
}

#[test]
fn what_admission_adds_to_a_pod_is_no_reason_to_replace_it() {
    let wanted = Wanted::of(&template(), &node(&[(KEY, r#"{"limits":{"cpu":"2"}}"#)]), None);
    for wanted in [wanted, Wanted::default()] {
        let mut pod = made(&wanted);
        pod["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "9", "memory": "9Gi"}});
        assert!(wanted.is_met_by(&record(&pod)));
    }
}

/// As the Go controller leaves them: without our annotation.
#[test]
fn pods_of_the_go_controller_are_kept_as_long_as_they_have_what_they_should_have() {
    let setting = setting("s", 0, "foo", json!({}), daemons(json!({"limits": {"cpu": "2", "memory": "1G"}})));
    let foreign = |wanted: &Wanted| {
        let mut pod = made(wanted);
        pod["metadata"]["annotations"].as_object_mut().unwrap().remove(keys::EDS_POD_OVERRIDES);
        pod
    };
    let none = Wanted::of(&template(), &node(&[]), None);
    let by_setting = Wanted::of(&template(), &node(&[]), Some(&setting));
    let by_node = Wanted::of(&template(), &node(&[(KEY, r#"{"limits":{"cpu":"1"}}"#)]), None);
    let bad = Wanted::of(&template(), &node(&[(KEY, "{oops")]), None);
    let all = [none, by_setting, by_node, bad];
    for (index, wanted) in all.iter().enumerate() {
        let mut pod = foreign(wanted);
        assert!(wanted.is_met_by(&record(&pod)), "{wanted:?}");
        let others = all.iter().enumerate().filter(|(other, _)| *other != index);
        for (_, other) in others {
            let harmless = other.containers == wanted.containers && record(&pod) == PodRecord::Plain;
            assert_eq!(other.is_met_by(&record(&pod)), harmless, "{wanted:?} is not {other:?}");
        }
        pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = json!("1");
        assert!(wanted.is_met_by(&record(&pod)), "what was added at admission");
    }
    let mut changed = foreign(&all[1]);
    changed["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("1");
    assert!(!all[1].is_met_by(&record(&changed)), "cpu 2 and memory 1G against cpu 1");
}

fn labels(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    map(entries)
}

fn errors(statuses: &[ExtendedDaemonsetSettingStatus]) -> Vec<&str> {
    statuses.iter().map(|status| if status.status == "valid" { "" } else { status.error.as_str() }).collect()
}

#[test]
fn of_two_settings_for_the_same_daemon_set_and_node_the_newer_is_used() {
    let (one, two) = (labels(&[("app", "x"), ("node", "1")]), labels(&[("node", "2")]));
    let both = json!({"matchExpressions": [{"key": "node", "operator": "Exists"}]});
    let first = json!({"matchLabels": {"node": "1"}});
    let make =
        |name, age, reference, selector: &Value| setting(name, age, reference, selector.clone(), json!([]));
    let conflict = |name: &str| format!("conflict with another ExtendedDaemonsetSetting: {name}");
    for (settings, nodes, expected) in [
        (vec![], vec![&one], vec![]),
        (vec![make("a", 9, "foo", &both)], vec![], vec![String::new()]),
        (vec![make("a", 9, "foo", &both)], vec![&one, &two], vec![String::new()]),
        (
            vec![make("old", 9, "foo", &both), make("new", 1, "foo", &first)],
            vec![&one, &two],
            vec![conflict("new"), String::new()],
        ),
        // No node in common, no conflict.
        (
            vec![make("old", 9, "foo", &both), make("new", 1, "foo", &first)],
            vec![&two],
            vec![String::new(); 2],
        ),
        // For different ExtendedDaemonSets, no conflict (W19).
        (vec![make("a", 9, "foo", &both), make("b", 1, "bar", &both)], vec![&one], vec![String::new(); 2]),
        // Of the same age, the name that comes last.
        (
            vec![make("b", 1, "foo", &both), make("a", 1, "foo", &both)],
            vec![&one],
            vec![String::new(), conflict("b")],
        ),
        // What loses stands in nobody's way.
        (
            vec![
                make("oldest", 9, "foo", &json!({"matchLabels": {"node": "2"}})),
                make("old", 5, "foo", &both),
                make("new", 1, "foo", &first),
            ],
            vec![&one, &two],
            vec![String::new(), conflict("new"), String::new()],
        ),
        (vec![make("a", 1, "", &both)], vec![&one], vec!["missing reference in spec".to_owned()]),
    ] {
        assert_eq!(errors(&judge(&settings, &nodes)), expected, "{settings:?}");
    }
}

#[test]
fn a_setting_that_makes_no_sense_says_why_and_is_not_used() {
    let node = labels(&[("node", "1")]);
    let bad = setting(
        "a",
        1,
        "foo",
        json!({"matchExpressions": [{"key": "node", "operator": "Nearly"}]}),
        json!([]),
    );
    let amount = setting("b", 1, "foo", json!({}), daemons(json!({"limits": {"cpu": "much"}})));
    let good = setting("c", 9, "foo", json!({}), json!([]));
    let all = [bad, amount, good];
    let statuses = judge(&all, &[&node]);
    let errors = errors(&statuses);
    assert!(errors[0].contains("Nearly") && errors[1].contains("\"daemons\": limits.cpu"), "{errors:?}");
    assert_eq!(chosen(&all, &statuses, "foo", &node).map(|setting| setting.name.as_str()), Some("c"));
    assert_eq!(chosen(&all, &statuses, "bar", &node), None);
}

#[test]
fn deleting_the_winner_revives_the_loser() {
    let node = labels(&[]);
    let old = setting("old", 9, "foo", json!({}), json!([]));
    let new = setting("new", 1, "foo", json!({}), json!([]));
    let pair = [old.clone(), new];
    let statuses = judge(&pair, &[&node]);
    assert_eq!(chosen(&pair, &statuses, "foo", &node).unwrap().name, "new");
    let alone = [old];
    let statuses = judge(&alone, &[&node]);
    assert_eq!(chosen(&alone, &statuses, "foo", &node).unwrap().name, "old");
}

fn any_settings() -> impl Strategy<Value = Vec<Setting>> {
    let one = (0..3i64, 0..2u8, 0..4u8, "[a-e]").prop_map(|(age, reference, zone, name)| {
        let selector = if zone == 3 { json!({}) } else { json!({"matchLabels": {"zone": zone.to_string()}}) };
        setting(&name, age, &reference.to_string(), selector, daemons(json!({"limits": {"cpu": age + 1}})))
    });
    proptest::collection::vec(one, 0..6).prop_map(|mut settings| {
        settings.sort_by(|a, b| a.name.cmp(&b.name));
        settings.dedup_by(|a, b| a.name == b.name);
        settings
    })
}

proptest! {
    #[test]
    fn whatever_the_order_the_same_settings_are_used_and_at_most_one_a_node(settings in any_settings()) {
        let nodes: Vec<_> = (0..3u8).map(|zone| labels(&[("zone", zone.to_string().as_str())])).collect();
        let nodes: Vec<_> = nodes.iter().collect();
        let statuses = judge(&settings, &nodes);
        let reversed: Vec<Setting> = settings.iter().rev().cloned().collect();
        let mut reversed_statuses = judge(&reversed, &nodes);
        reversed_statuses.reverse();
        prop_assert_eq!(&statuses, &reversed_statuses);
        for reference in ["0", "1"] {
            for node in &nodes {
                let applying = settings.iter().zip(&statuses).filter(|(setting, status)| {
                    status.status == "valid" && setting.reference() == Some(reference)
                        && chosen(std::slice::from_ref(setting), std::slice::from_ref(status), reference, node).is_some()
                });
                prop_assert!(applying.count() <= 1);
                let any = settings.iter().any(|setting| {
                    let alone = judge(std::slice::from_ref(setting), &nodes);
                    chosen(std::slice::from_ref(setting), &alone, reference, node).is_some()
                });
                prop_assert!(!any || chosen(&settings, &statuses, reference, node).is_some() || statuses.iter().any(|s| s.status == "error"));
            }
        }
    }

    #[test]
    fn a_pod_has_what_it_was_made_with(
        limits in proptest::collection::btree_map("cpu|memory", 0..5u8, 0..3),
        by_node in any::<bool>(),
        by_setting in any::<bool>(),
    ) {
        let text = json!({"limits": limits}).to_string();
        let annotations: Vec<(&str, &str)> = by_node.then_some((KEY, text.as_str())).into_iter().collect();
        let setting = by_setting.then(|| setting("s", 0, "foo", json!({}), daemons(json!({"requests": {"cpu": "1"}}))));
        let wanted = Wanted::of(&template(), &node(&annotations), setting.as_ref());
        prop_assert!(wanted.is_met_by(&record(&made(&wanted))));
    }
}
