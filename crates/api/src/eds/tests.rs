use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::config::ValidationMode;

fn definition(index: usize) -> Value {
    serde_json::to_value(&definitions()[index]).unwrap()
}

fn version(index: usize) -> Value {
    definition(index)["spec"]["versions"][0].clone()
}

fn schema_of(index: usize) -> Value {
    version(index)["schema"]["openAPIV3Schema"]["properties"].clone()
}

fn sorted(list: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = list.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

fn columns(index: usize) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    version(index)["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| (text(&column["name"]), text(&column["jsonPath"]), text(&column["type"])))
        .collect()
}

#[test]
fn the_three_definitions_have_the_names_that_users_know() {
    for (index, kind, plural, short) in [
        (0, "ExtendedDaemonSet", "extendeddaemonsets", json!(["eds"])),
        (1, "ExtendedDaemonSetReplicaSet", "extendeddaemonsetreplicasets", json!(["ers"])),
        (2, "ExtendedDaemonsetSetting", "extendeddaemonsetsettings", Value::Null),
    ] {
        let definition = definition(index);
        assert_eq!(definition["metadata"]["name"], format!("{plural}.datadoghq.com"));
        assert_eq!(definition["spec"]["scope"], "Namespaced");
        let names = &definition["spec"]["names"];
        assert_eq!((&names["kind"], &names["plural"]), (&json!(kind), &json!(plural)));
        assert_eq!(names["singular"], kind.to_lowercase());
        assert_eq!(names["shortNames"], short);
        let version = version(index);
        assert_eq!(
            (&version["name"], &version["served"], &version["storage"]),
            (&json!("v1alpha1"), &json!(true), &json!(true))
        );
        assert_eq!(version["subresources"], json!({"status": {}}));
    }
}

#[test]
fn the_columns_are_those_that_users_know_in_their_order() {
    let expect = |index, expected: &[(&str, &str, &str)]| {
        let columns = columns(index);
        let columns: Vec<_> = columns.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
        assert_eq!(columns, expected);
    };
    expect(
        0,
        &[
            ("desired", ".status.desired", "integer"),
            ("current", ".status.current", "integer"),
            ("ready", ".status.ready", "integer"),
            ("up-to-date", ".status.upToDate", "integer"),
            ("available", ".status.available", "integer"),
            ("ignored unresponsive nodes", ".status.ignoredUnresponsiveNodes", "integer"),
            ("status", ".status.state", "string"),
            ("reason", ".status.reason", "string"),
            ("active rs", ".status.activeReplicaSet", "string"),
            ("canary rs", ".status.canary.replicaSet", "string"),
            ("age", ".metadata.creationTimestamp", "date"),
        ],
    );
    expect(
        1,
        &[
            ("status", ".status.status", "string"),
            ("desired", ".status.desired", "integer"),
            ("current", ".status.current", "integer"),
            ("ready", ".status.ready", "integer"),
            ("available", ".status.available", "integer"),
            ("ignored unresponsive nodes", ".status.ignoredUnresponsiveNodes", "integer"),
            ("node selector", ".spec.selector", "string"),
            ("age", ".metadata.creationTimestamp", "date"),
        ],
    );
    expect(
        2,
        &[
            ("status", ".status.status", "string"),
            ("node selector", ".spec.nodeSelector", "string"),
            ("error", ".status.error", "string"),
            ("age", ".metadata.creationTimestamp", "date"),
        ],
    );
}

#[test]
fn what_was_required_is_required_and_nothing_else_is() {
    let [eds, ers, setting] = [0, 1, 2].map(schema_of);
    for (schema, expected) in [
        (&eds["spec"], vec!["strategy", "template"]),
        (
            &eds["status"],
            vec![
                "activeReplicaSet",
                "available",
                "current",
                "desired",
                "ignoredUnresponsiveNodes",
                "ready",
                "upToDate",
            ],
        ),
        (&eds["status"]["properties"]["canary"], vec!["replicaSet"]),
        (&ers["spec"], vec!["template"]),
        (
            &ers["status"],
            vec!["available", "current", "desired", "ignoredUnresponsiveNodes", "ready", "status"],
        ),
        (&setting["spec"], vec!["nodeSelector", "reference"]),
        (&setting["spec"]["properties"]["reference"], vec!["kind", "name"]),
        (&setting["status"], vec!["status"]),
    ] {
        assert_eq!(sorted(&schema["required"]), expected, "{schema}");
    }
    assert_eq!(eds["spec"]["properties"]["strategy"]["required"], Value::Null);
}

#[test]
fn the_only_default_is_the_protocol_of_a_port_and_nothing_is_nullable() {
    for index in 0..3 {
        let text = schema_of(index)["spec"].to_string();
        assert!(!text.contains("\"nullable\"") && !text.contains("$ref"), "{text}");
        let defaults = text.matches("\"default\":").count();
        assert_eq!(
            (defaults, text.matches(r#""default":"TCP""#).count()),
            if index < 2 { (2, 2) } else { (0, 0) }
        );
    }
}

#[test]
fn a_definition_is_small_enough_for_the_annotation_of_kubectl_apply() {
    for index in 0..3 {
        let size = definition(index).to_string().len();
        assert!(size < 32 * 1024, "{size} of at most 262144 bytes");
    }
}

#[test]
fn every_field_reads_and_writes_back_the_same_and_a_template_keeps_fields_from_the_future() {
    let written = json!({
        "selector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]},
        "minReadySeconds": 5,
        "template": {"metadata": {"labels": {"a": "b"}, "fromTheFuture": 1}, "spec": {"containers": [{"name": "c", "new": {"x": [1]}}]}},
        "strategy": {
            "reconcileFrequency": "10s",
            "rollingUpdate": {
                "maxUnavailable": "10%", "maxPodSchedulerFailure": 2, "maxParallelPodCreation": 20,
                "slowStartIntervalDuration": "1m", "slowStartAdditiveIncrease": 5,
            },
            "canary": {
                "replicas": "5%", "duration": "5m", "nodeSelector": {"matchLabels": {"canary": "true"}},
                "nodeAntiAffinityKeys": ["zone"], "noRestartsDuration": "1m", "validationMode": "auto",
                "requireReady": true, "pauseStopsClock": false, "spreadBy": ["zone"], "onFailure": "HoldActive",
                "autoPause": {"enabled": true, "maxRestarts": 3, "maxSlowStartDuration": "2m"},
                "autoFail": {"enabled": false, "maxRestarts": 6, "maxRestartsDuration": "20m", "canaryTimeout": "1h"},
            },
        },
    });
    let spec: ExtendedDaemonSetSpec = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&spec).unwrap(), written);
    assert_eq!(spec.template.labels().collect::<Vec<_>>(), [("a", "b")]);
    let status = json!({
        "desired": 3, "current": 3, "ready": 2, "available": 2, "upToDate": 1, "ignoredUnresponsiveNodes": 0,
        "state": "Canary Paused", "reason": "OOMKilled", "activeReplicaSet": "foo-8z7lr",
        "canary": {"replicaSet": "foo-xdj4b", "nodes": ["n1"], "seed": "7", "pausedSeconds": 12}, "observedGeneration": 4,
        "conditions": [{
            "type": "Canary-Paused", "status": "True", "reason": "OOMKilled", "message": "canary paused with ers: foo-xdj4b",
            "lastTransitionTime": "2026-11-15T10:00:00Z", "lastUpdateTime": "2026-11-15T10:00:01Z",
        }],
    });
    let read: ExtendedDaemonSetStatus = serde_json::from_value(status.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), status);
    assert!(find_condition(&read.conditions, words::condition::CANARY_PAUSED).unwrap().is_true());
}

#[test]
fn whatever_was_stored_can_be_read() {
    for stored in [
        json!({}),
        json!({"template": {"spec": {"containers": null}}, "strategy": {"rollingUpdate": {"maxUnavailable": "abc"}}}),
        json!({"selector": {"matchExpressions": [{"key": "k", "operator": "Nearly"}]}}),
        json!({"strategy": {"reconcileFrequency": "soon", "canary": {"validationMode": "never", "duration": "-1s"}}}),
    ] {
        let spec: ExtendedDaemonSetSpec = serde_json::from_value(stored.clone()).unwrap();
        let _ = spec.effective(ValidationMode::Auto);
    }
    let setting: ExtendedDaemonsetSettingSpec = serde_json::from_value(json!({"nodeSelector": {}})).unwrap();
    assert_eq!(setting.reference, None);
}

fn with_strategy(strategy: Value) -> ExtendedDaemonSetSpec {
    serde_json::from_value(json!({"template": {}, "strategy": strategy})).unwrap()
}

fn problems(strategy: Value, mode: ValidationMode) -> Vec<String> {
    with_strategy(strategy).effective(mode).1.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_unset_has_the_defaults_that_users_know() {
    let (strategy, problems) = with_strategy(json!({"canary": {}})).effective(ValidationMode::Auto);
    assert_eq!(problems, []);
    let seconds = Duration::from_secs;
    assert_eq!(
        strategy,
        EffectiveStrategy {
            max_unavailable: Amount::Count(1),
            max_pod_scheduler_failure: Amount::Count(0),
            max_parallel_pod_creation: 250,
            slow_start_interval: seconds(60),
            slow_start_increase: Amount::Count(1),
            reconcile_frequency: seconds(10),
            min_ready: Duration::ZERO,
            canary: Some(EffectiveCanary {
                replicas: Amount::Count(1),
                mode: ValidationMode::Auto,
                duration: Some(seconds(600)),
                no_restarts: Some(seconds(300)),
                node_selector: crate::NodeSelector::default(),
                anti_affinity_keys: Vec::new(),
                auto_pause: Some(EffectiveAutoPause { max_restarts: 2, max_slow_start: None }),
                auto_fail: Some(EffectiveAutoFail {
                    max_restarts: 5,
                    max_restarts_duration: None,
                    timeout: None,
                }),
                require_ready: false,
                pause_stops_clock: false,
                spread_by: Vec::new(),
                hold_on_failure: false,
            }),
        }
    );
    assert_eq!(with_strategy(json!({})).effective(ValidationMode::Auto).0.canary, None);
    let (manual, _) = with_strategy(json!({"canary": {}})).effective(ValidationMode::Manual);
    let canary = manual.canary.unwrap();
    assert_eq!((canary.duration, canary.no_restarts), (None, None), "a person ends it");
}

#[test]
fn contradictions_of_a_canary_are_named_and_nothing_else_is() {
    let restarts = |pause: Value, fail: Value| json!({"canary": {"autoPause": pause, "autoFail": fail}});
    let canary = |canary: Value| json!({"canary": canary});
    for (name, strategy, expected) in [
        ("valid no canary", json!({}), None),
        ("valid with canary", canary(json!({"replicas": 1, "duration": "10m"})), None),
        ("valid autoFail maxRestarts", restarts(json!({"maxRestarts": 2}), json!({"maxRestarts": 3})), None),
        ("equal maxRestarts", restarts(json!({"maxRestarts": 2}), json!({"maxRestarts": 2})), None),
        (
            "invalid autoFail maxRestarts",
            restarts(json!({"maxRestarts": 2}), json!({"maxRestarts": 1})),
            Some("before it could be paused"),
        ),
        (
            "default autoPause",
            canary(json!({"autoFail": {"maxRestarts": 1}})),
            Some("before it could be paused"),
        ),
        (
            "default autoFail",
            canary(json!({"autoPause": {"maxRestarts": 6}})),
            Some("before it could be paused"),
        ),
        (
            "invalid autoFail canaryTimeout",
            canary(json!({"duration": "10m", "autoFail": {"canaryTimeout": "1m"}})),
            Some("not longer than the canary's duration"),
        ),
        ("equal canaryTimeout", canary(json!({"autoFail": {"canaryTimeout": "10m"}})), Some("not longer")),
        (
            "canaryTimeout of a switched-off autoFail",
            canary(json!({"autoFail": {"enabled": false, "canaryTimeout": "1m"}})),
            None,
        ),
        (
            "valid autoFail no autoPause",
            restarts(json!({"enabled": false, "maxRestarts": 2}), json!({"maxRestarts": 1})),
            None,
        ),
        (
            "valid autoPause no autoFail",
            restarts(json!({"maxRestarts": 2}), json!({"enabled": false, "maxRestarts": 1})),
            None,
        ),
        ("valid manual validation mode", canary(json!({"validationMode": "manual"})), None),
        (
            "manual with duration",
            canary(json!({"validationMode": "manual", "duration": "10m"})),
            Some("canary.duration: has no effect"),
        ),
        (
            "manual with noRestartsDuration",
            canary(json!({"validationMode": "manual", "noRestartsDuration": "5m"})),
            Some("canary.noRestartsDuration: has no effect"),
        ),
        (
            "manual with canaryTimeout, on which the Go controller panics",
            canary(json!({"validationMode": "manual", "autoFail": {"canaryTimeout": "1m"}})),
            None,
        ),
        (
            "manual after the Go controller had written its defaults (W24)",
            canary(json!({"validationMode": "manual", "duration": "10m0s", "noRestartsDuration": "5m0s"})),
            None,
        ),
        (
            "negative restarts",
            canary(json!({"autoPause": {"maxRestarts": -1}})),
            Some("must not be negative"),
        ),
        ("unknown mode", canary(json!({"validationMode": "maybe"})), Some("neither auto nor manual")),
    ] {
        let found = problems(strategy, ValidationMode::Auto);
        match expected {
            None => assert_eq!(found, Vec::<String>::new(), "{name}"),
            Some(expected) => {
                assert!(found.len() == 1 && found[0].contains(expected), "{name}: {found:?}");
            }
        }
    }
    let by_default = problems(json!({"canary": {"duration": "3m"}}), ValidationMode::Manual);
    assert!(
        by_default[0].contains("has no effect"),
        "the controller's own default counts as well: {by_default:?}"
    );
}

#[test]
fn input_on_which_the_go_controller_panics_has_its_default_and_is_named() {
    let update = |update: Value| json!({"rollingUpdate": update});
    for (strategy, expected) in [
        (
            update(json!({"maxUnavailable": "abc"})),
            "spec.strategy.rollingUpdate.maxUnavailable: \"abc\" is neither",
        ),
        (update(json!({"maxUnavailable": "5"})), "without quotes"),
        (update(json!({"maxPodSchedulerFailure": "10$"})), "maxPodSchedulerFailure"),
        (update(json!({"slowStartAdditiveIncrease": "10$"})), "slowStartAdditiveIncrease"),
        (update(json!({"slowStartAdditiveIncrease": "0%"})), "more than nothing"),
        (update(json!({"slowStartIntervalDuration": "0s"})), "longer than 0s"),
        (update(json!({"slowStartIntervalDuration": "-1m"})), "negative"),
        (update(json!({"maxParallelPodCreation": 0})), "1 or more"),
        (json!({"reconcileFrequency": "1 day"}), "is not a duration"),
    ] {
        let (effective, problems) = with_strategy(strategy).effective(ValidationMode::Auto);
        assert!(problems.len() == 1 && problems[0].to_string().contains(expected), "{problems:?}");
        assert_eq!(effective, with_strategy(json!({})).effective(ValidationMode::Auto).0);
    }
}
