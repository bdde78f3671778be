//! `/ksmetrics`: one series for each object, as kube-state-metrics writes them. Every replica shows them.

use std::fmt::Write;

use kube::ResourceExt;
use podwright_api::{
    eds::{Condition, ExtendedDaemonSet, ExtendedDaemonSetReplicaSet, find_condition, words},
    keys,
};

use super::{World, metrics::LEADER_HELP};

/// A value with its labels, the object's own apart.
type Sample = (Vec<(String, String)>, i64);
/// Name, help, and the value for an object.
type Column<K> = (&'static str, &'static str, fn(&K) -> Sample);

const SETS: &[Column<ExtendedDaemonSet>] = &[
    ("eds_created", "Unix creation timestamp", |set| plain(created(&set.metadata))),
    ("eds_labels", "Kubernetes labels converted to Prometheus labels", |set| (labels(set.labels()), 1)),
    ("eds_status_desired", "Nodes that should have a pod", |set| plain(status(set).desired.into())),
    ("eds_status_current", "Pods that there are", |set| plain(status(set).current.into())),
    ("eds_status_ready", "Pods that are ready", |set| plain(status(set).ready.into())),
    ("eds_status_available", "Pods that are available", |set| plain(status(set).available.into())),
    ("eds_status_uptodate", "Pods of the newest template", |set| plain(status(set).up_to_date.into())),
    ("eds_status_ignored_unresponsive_nodes", "Nodes that are left out of the count", |set| {
        plain(status(set).ignored_unresponsive_nodes.into())
    }),
    ("eds_status_canary_activated", "Whether a canary is under way", |set| {
        (vec![canary(set)], i64::from(status(set).canary.is_some()))
    }),
    ("eds_status_canary_paused", "Whether the canary is paused", |set| {
        let paused = status(set).state == words::state::CANARY_PAUSED;
        let reason = if paused { status(set).reason } else { String::new() };
        (vec![canary(set), ("paused_reason".to_owned(), reason)], i64::from(paused))
    }),
    ("eds_status_canary_node_number", "Nodes of the canary", |set| {
        let nodes = status(set).canary.map_or(0, |canary| canary.nodes.len());
        plain(i64::try_from(nodes).unwrap_or(i64::MAX))
    }),
    ("eds_status_rolling_update_paused", "Whether the rolling update is paused", |set| {
        plain(annotated(set, keys::EDS_ROLLING_UPDATE_PAUSED))
    }),
    ("eds_status_rollout_frozen", "Whether the rollout is frozen", |set| {
        plain(annotated(set, keys::EDS_ROLLOUT_FROZEN))
    }),
];

const REPLICA_SETS: &[Column<ExtendedDaemonSetReplicaSet>] = &[
    ("ers_created", "Unix creation timestamp", |set| plain(created(&set.metadata))),
    ("ers_labels", "Kubernetes labels converted to Prometheus labels", |set| (labels(set.labels()), 1)),
    ("ers_status_desired", "Nodes that should have a pod", |set| plain(counts(set)[0])),
    ("ers_status_current", "Pods that there are", |set| {
        let role = set.status.as_ref().map(|status| status.status.to_lowercase()).unwrap_or_default();
        (vec![("status".to_owned(), role)], counts(set)[1])
    }),
    ("ers_status_ready", "Pods that are ready", |set| plain(counts(set)[2])),
    ("ers_status_available", "Pods that are available", |set| plain(counts(set)[3])),
    ("ers_status_ignored_unresponsive_nodes", "Nodes that are left out of the count", |set| {
        plain(counts(set)[4])
    }),
    ("ers_status_canary_failed", "Whether its template was tried and failed", |set| {
        let conditions = set.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let failed = find_condition(conditions, words::condition::CANARY_FAILED);
        plain(i64::from(failed.is_some_and(Condition::is_true)))
    }),
];

/// The whole page.
pub(super) fn page(world: &World, leads: bool) -> String {
    let mut page = String::new();
    let mut sets = world.sets();
    sets.sort_by_key(|set| (set.namespace(), set.name_any()));
    let sets: Vec<&ExtendedDaemonSet> = sets.iter().map(|set| &**set).collect();
    write(&mut page, SETS, &sets);
    let mut replica_sets = world.replica_sets();
    replica_sets.sort_by_key(|set| (set.object.namespace(), set.object.name_any()));
    let replica_sets: Vec<&ExtendedDaemonSetReplicaSet> =
        replica_sets.iter().map(|set| &set.object).collect();
    write(&mut page, REPLICA_SETS, &replica_sets);
    head(&mut page, "eds_controller_leader", LEADER_HELP);
    let _ = writeln!(page, "eds_controller_leader{{leader=\"{leads}\"}} 1");
    page
}

fn head(page: &mut String, name: &str, help: &str) {
    let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} gauge\n");
}

fn write<K: kube::Resource>(page: &mut String, columns: &[Column<K>], objects: &[&K]) {
    for (name, help, value) in columns {
        head(page, name, help);
        for object in objects {
            let (labels, value) = value(object);
            let namespace = escaped(&object.namespace().unwrap_or_default());
            let _ =
                write!(page, "{name}{{namespace=\"{namespace}\",name=\"{}\"", escaped(&object.name_any()));
            for (label, text) in labels {
                let _ = write!(page, ",{label}=\"{}\"", escaped(&text));
            }
            let _ = writeln!(page, "}} {value}");
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

fn plain(value: i64) -> Sample {
    (Vec::new(), value)
}

fn created(metadata: &kube::api::ObjectMeta) -> i64 {
    metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second())
}

fn status(set: &ExtendedDaemonSet) -> podwright_api::eds::ExtendedDaemonSetStatus {
    set.status.clone().unwrap_or_default()
}

fn counts(set: &ExtendedDaemonSetReplicaSet) -> [i64; 5] {
    let status = set.status.clone().unwrap_or_default();
    [status.desired, status.current, status.ready, status.available, status.ignored_unresponsive_nodes]
        .map(i64::from)
}

fn canary(set: &ExtendedDaemonSet) -> (String, String) {
    ("replicaset".to_owned(), status(set).canary.map(|canary| canary.replica_set).unwrap_or_default())
}

fn annotated(set: &ExtendedDaemonSet, key: &str) -> i64 {
    i64::from(set.annotations().get(key).is_some_and(|value| value == "true"))
}

/// Keys as Prometheus allows them, each with its own value. Those that would hide another get a prefix, or give way.
fn labels(labels: &std::collections::BTreeMap<String, String>) -> Vec<(String, String)> {
    let mut shown: Vec<(String, String)> = Vec::new();
    for (key, value) in labels {
        let mut name: String =
            key.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
        if matches!(name.as_str(), "name" | "namespace") || name.starts_with(|c: char| c.is_ascii_digit()) {
            name.insert_str(0, "label_");
        }
        if shown.iter().all(|(taken, _)| *taken != name) {
            shown.push((name, value.clone()));
        }
    }
    shown.sort();
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_keep_their_values_whatever_their_keys_look_like() {
        let given: std::collections::BTreeMap<String, String> =
            [("app.kubernetes.io/name", "agent"), ("team", "x"), ("name", "y"), ("a-b", "1"), ("a.b", "2")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into();
        let shown = labels(&given);
        let has = |key: &str, value: &str| shown.contains(&(key.to_owned(), value.to_owned()));
        assert!(
            has("app_kubernetes_io_name", "agent") && has("team", "x") && has("label_name", "y"),
            "{shown:?}"
        );
        assert_eq!(shown.iter().filter(|(key, _)| key == "a_b").count(), 1, "{shown:?}");
    }

    #[test]
    fn a_paused_canary_is_shown_with_its_replica_set_and_reason() {
        let set: ExtendedDaemonSet = serde_json::from_value(json!({
            "apiVersion": "datadoghq.com/v1alpha1", "kind": "ExtendedDaemonSet",
            "metadata": {"name": "foo", "namespace": "bar"}, "spec": {"strategy": {}, "template": {}},
            "status": {"state": "Canary Paused", "reason": "say \"why\"", "activeReplicaSet": "foo-a",
                       "canary": {"replicaSet": "foo-b", "nodes": ["n1", "n2"]}},
        }))
        .unwrap();
        let mut page = String::new();
        write(&mut page, SETS, &[&set]);
        for line in [
            r#"eds_status_canary_activated{namespace="bar",name="foo",replicaset="foo-b"} 1"#,
            r#"eds_status_canary_paused{namespace="bar",name="foo",replicaset="foo-b",paused_reason="say \"why\""} 1"#,
            r#"eds_status_canary_node_number{namespace="bar",name="foo"} 2"#,
            "# TYPE eds_created gauge",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is missing in\n{page}");
        }
    }
}
