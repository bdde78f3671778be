use serde_json::{Value, json};

use super::*;

fn text(template: &Value) -> String {
    Writer::write(template, Form::Go)
}

fn hash(template: &Value) -> String {
    Fingerprint::of(template).hash
}

fn same(a: &Value, b: &Value) -> bool {
    Fingerprint::of(a).identity == Fingerprint::of(b).identity
}

fn container(fields: &Value) -> Value {
    let mut container = json!({"name": "c"});
    container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"spec": {"containers": [container]}})
}

#[test]
fn the_vectors_of_the_go_controllers_own_tests_hold() {
    assert_eq!(text(&json!({})), r#"{"metadata":{"creationTimestamp":null},"spec":{"containers":null}}"#);
    assert_eq!(hash(&json!({})), "a2bb34618483323482d9a56ae2515eed");
    let one = json!({"spec": {"containers": [{"name": "name", "image": "image"}]}});
    assert_eq!(
        text(&one),
        r#"{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"name":"name","image":"image","resources":{}}]}}"#
    );
    assert_eq!(hash(&one), "c08e4c7b196a8a9ba3fd4723a4366c8b");
}

/// Each line: the MD5 that a Go program made with the types of k8s.io/api v0.31 gives, and a random template.
#[test]
fn random_templates_hash_as_go_hashes_them() {
    let mut count = 0;
    for line in include_str!("vectors.txt").lines() {
        let (expected, template) = line.split_once(' ').unwrap();
        let template: Value = serde_json::from_str(template).unwrap();
        assert_eq!(hash(&template), expected, "{template}\nis written as\n{}", text(&template));
        count += 1;
    }
    assert!(count >= 70);
}

/// The Go controller stores what it has read in this form, for instance in its replica sets.
#[test]
fn a_template_that_went_through_the_go_controller_is_still_the_same() {
    for line in include_str!("vectors.txt").lines() {
        let (_, template) = line.split_once(' ').unwrap();
        let template: Value = serde_json::from_str(template).unwrap();
        let stored: Value = serde_json::from_str(&text(&template)).unwrap();
        assert_eq!(Fingerprint::of(&template), Fingerprint::of(&stored), "{template}\n{stored}");
    }
}

#[test]
fn what_is_written_differently_and_means_the_same_is_the_same() {
    let resources = |amount: &Value| container(&json!({"resources": {"limits": {"memory": amount}}}));
    for (a, b) in [
        (
            json!({}),
            json!({"metadata": {"creationTimestamp": null, "name": "anything", "labels": {}}, "spec": null}),
        ),
        (resources(&json!("1Gi")), resources(&json!("1024Mi"))),
        (resources(&json!("1Gi")), resources(&json!(1_073_741_824))),
        (resources(&json!("1")), resources(&json!("1000m"))),
        (container(&json!({})), container(&json!({"resources": {}, "env": [], "tty": false, "args": null}))),
        (
            container(&json!({"ports": [{"containerPort": 80}]})),
            container(&json!({"ports": [{"protocol": "TCP", "containerPort": 80}]})),
        ),
        (
            container(&json!({"ports": [{"containerPort": 80, "protocol": ""}]})),
            container(&json!({"ports": [{"containerPort": 80, "protocol": null}]})),
        ),
        (
            container(&json!({"livenessProbe": {"grpc": {"port": 1}}})),
            container(&json!({"livenessProbe": {"grpc": {"port": 1, "service": ""}}})),
        ),
        (
            container(&json!({"new": {"a": 1, "b": 2}})),
            container(&json!({"new": {"b": 2, "a": 1}, "newer": null})),
        ),
    ] {
        assert!(same(&a, &b), "{a}\n{b}");
    }
}

#[test]
fn what_differs_differs_in_hash_and_in_meaning_fields_from_the_future_among_it() {
    let variants = [
        container(&json!({})),
        container(&json!({"image": "x"})),
        container(&json!({"args": ["a", "b"]})),
        container(&json!({"args": ["b", "a"]})),
        container(&json!({"resources": {"limits": {"cpu": "1"}}})),
        container(&json!({"resources": {"requests": {"cpu": "1"}}})),
        container(&json!({"ports": [{"containerPort": 80, "protocol": "UDP"}]})),
        container(&json!({"securityContext": {}})),
        container(&json!({"fromTheFuture": {"x": 1}})),
        container(&json!({"fromTheFuture": {"x": 2}})),
        container(&json!({"fromTheFuture": {}})),
        json!({"spec": {"containers": [{"name": "c"}], "alsoNew": true}}),
        json!({"spec": {"containers": [{"name": "c"}], "terminationGracePeriodSeconds": 0}}),
        json!({"spec": {"containers": "none"}}),
    ];
    for (index, a) in variants.iter().enumerate() {
        for b in &variants[index + 1..] {
            assert_ne!(hash(a), hash(b), "{a}\n{b}");
            assert!(!same(a, b), "{a}\n{b}");
        }
    }
}

#[test]
fn suffixes_look_like_those_of_kubernetes() {
    let suffix = safe_suffix(b"anything", 5);
    assert_eq!(suffix.len(), 5);
    assert!(suffix.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)));
    assert_ne!(suffix, safe_suffix(b"anything else", 5));
}
