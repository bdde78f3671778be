//! How we are registered with the API server: one webhook for each feature, each behind a door as narrow as it can be.
//!
//! Match conditions are evaluated in the API server, so a pod that does not concern a feature never leaves it, and a
//! `failurePolicy` of Fail can only ever hold up pods that the feature is for.

use podwright_api::{
    Feature,
    config::{Config, NodeSelector, Operator, Requirement, TlsMode},
    keys,
};
use serde_json::{Map, Value, json};

use crate::pod::DaemonOwner;

/// The MutatingWebhookConfiguration as it should be: what we write, and nothing of what others may write.
///
/// `ca_bundle` is PEM text. Without one the API server's own roots count, or cert-manager's injector fills it in.
#[must_use]
pub fn desired(config: &Config, ca_bundle: Option<&str>) -> Value {
    let mut metadata = json!({"name": config.webhook.configuration});
    if let (TlsMode::CertManager, Some(certificate)) = (config.tls.mode, &config.tls.certificate) {
        metadata["annotations"] = json!({"cert-manager.io/inject-ca-from": certificate});
    }
    let mut features = config.features.clone();
    features.sort_unstable();
    features.dedup();
    let webhooks: Vec<Value> =
        features.into_iter().filter_map(|feature| webhook(feature, config, ca_bundle)).collect();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": metadata,
        "webhooks": webhooks,
    })
}

/// None for a feature that only controls.
fn webhook(feature: Feature, config: &Config, ca_bundle: Option<&str>) -> Option<Value> {
    let rule = |operation: &str, resource: &str| {
        json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource],
            "scope": "Namespaced",
        })
    };
    let (concerns, rules, failure_policy) = match feature {
        Feature::Architecture => (
            format!("!({})", daemon_pod_expression()),
            vec![rule("CREATE", "pods")],
            config.architecture.failure_policy,
        ),
        Feature::Distribution => {
            (spread_pod_expression(), vec![rule("CREATE", "pods")], config.distribution.failure_policy)
        }
        Feature::Sizing => {
            (daemon_pod_expression(), vec![rule("CREATE", "pods")], config.sizing.failure_policy)
        }
        Feature::PeerPods => (
            peer_pod_expression(&config.peer_pods.runtime_classes),
            vec![rule("CREATE", "pods"), rule("UPDATE", "pods/resize")],
            config.peer_pods.failure_policy,
        ),
        Feature::Rollout => return None,
    };
    let mut webhook = json!({
        "name": format!("{feature}.podwright.io"),
        "clientConfig": client_config(feature, config, ca_bundle),
        "rules": rules,
        "failurePolicy": failure_policy.name(),
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": if feature == Feature::Distribution { "NoneOnDryRun" } else { "None" },
        "timeoutSeconds": config.webhook.timeout.get().as_secs(),
        "admissionReviewVersions": ["v1", "v1beta1"],
        "namespaceSelector": {"matchExpressions": namespaces(config)},
        "matchConditions": [
            {"name": feature.name(), "expression": concerns},
            {"name": "not-a-mirror-pod", "expression": format!(
                "!has(object.metadata.annotations) || !('{}' in object.metadata.annotations)", keys::MIRROR_POD
            )},
        ],
    });
    if feature == Feature::Architecture {
        narrow(&mut webhook, config);
    }
    Some(webhook)
}

/// Architecture is for nearly every pod, so its door is made narrower still: by what is configured, and by whatever shows
/// that a pod's place is somebody else's choice.
fn narrow(webhook: &mut Value, config: &Config) {
    let peer_pods = &config.peer_pods.runtime_classes;
    let config = &config.architecture;
    let NodeSelector { match_labels, match_expressions } = &config.namespace_selector;
    if let Some(rules) = webhook["namespaceSelector"]["matchExpressions"].as_array_mut() {
        rules.extend(match_expressions.iter().map(|rule| json!(rule)));
    }
    if !match_labels.is_empty() {
        webhook["namespaceSelector"]["matchLabels"] = json!(match_labels);
    }
    let mut objects = config.object_selector.clone();
    objects.match_expressions.push(Requirement {
        key: keys::ARCHITECTURE.to_owned(),
        operator: Operator::NotIn,
        values: vec![keys::OFF.to_owned()],
    });
    webhook["objectSelector"] = json!(objects);
    webhook["reinvocationPolicy"] = json!(config.reinvocation_policy.name());
    let unselected = [keys::ARCH_LABEL, keys::OLD_ARCH_LABEL]
        .map(|label| format!("!('{label}' in object.spec.nodeSelector)"))
        .join(" && ");
    if let Some(conditions) = webhook["matchConditions"].as_array_mut() {
        conditions.extend([
            json!({"name": "not-bound", "expression": "!has(object.spec.nodeName) || object.spec.nodeName == ''"}),
            json!({
                "name": "no-architecture-selected",
                "expression": format!("!has(object.spec.nodeSelector) || ({unselected})"),
            }),
        ]);
        // Without a machine type to choose there is nothing to do about them.
        if config.architectures.values().all(|rules| rules.machine_type.is_none()) {
            let expression = format!("!({})", peer_pod_expression(peer_pods));
            conditions.push(json!({"name": "not-a-peer-pod", "expression": expression}));
        }
    }
}

fn peer_pod_expression(classes: &[String]) -> String {
    let names: Vec<String> = classes.iter().map(|class| format!("'{class}'")).collect();
    format!("has(object.spec.runtimeClassName) && object.spec.runtimeClassName in [{}]", names.join(", "))
}

/// Everything but what has its node already: which workloads have a rule only we know.
fn spread_pod_expression() -> String {
    format!("(!has(object.spec.nodeName) || object.spec.nodeName == '') && !({})", daemon_pod_expression())
}

fn daemon_pod_expression() -> String {
    let kinds = DaemonOwner::KINDS
        .map(|(version, kind)| format!("(owner.apiVersion == '{version}' && owner.kind == '{kind}')"));
    format!(
        "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, {})",
        kinds.join(" || ")
    )
}

/// Whether pods of this namespace are sent to us.
#[must_use]
pub fn admits(config: &Config, namespace: &str) -> bool {
    let watched = &config.watch_namespaces;
    namespace != KUBE_SYSTEM
        && namespace != config.home()
        && (watched.is_empty() || watched.iter().any(|one| one == namespace))
}

const KUBE_SYSTEM: &str = "kube-system";

/// Never our own namespace and never kube-system: what we need to come up must not wait for us.
fn namespaces(config: &Config) -> Value {
    let by_name = |operator: &str, values: &[&str]| json!({"key": "kubernetes.io/metadata.name", "operator": operator, "values": values});
    let mut rules = vec![by_name("NotIn", &[KUBE_SYSTEM, config.home()])];
    if !config.watch_namespaces.is_empty() {
        let watched: Vec<&str> = config.watch_namespaces.iter().map(String::as_str).collect();
        rules.push(by_name("In", &watched));
    }
    Value::from(rules)
}

fn client_config(feature: Feature, config: &Config, ca_bundle: Option<&str>) -> Value {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let webhook = &config.webhook;
    let mut client = Map::new();
    match &webhook.url {
        Some(url) => {
            client.insert("url".to_owned(), json!(format!("{}{}", url.trim_end_matches('/'), feature.path())))
        }
        None => client.insert(
            "service".to_owned(),
            json!({
                "name": webhook.service, "namespace": config.home(),
                "port": webhook.service_port, "path": feature.path(),
            }),
        ),
    };
    if let Some(pem) = ca_bundle {
        client.insert("caBundle".to_owned(), json!(STANDARD.encode(pem)));
    }
    Value::Object(client)
}

/// Whether any of these webhooks calls us, by our Service or at our address. Those of another installation do not.
#[must_use]
pub fn calls_us(config: &Config, webhooks: &Value) -> bool {
    let service = json!({"name": config.webhook.service, "namespace": config.home()});
    let url = config.webhook.url.as_deref().map(|url| format!("{}/", url.trim_end_matches('/')));
    webhooks.as_array().into_iter().flatten().map(|webhook| &webhook["clientConfig"]).any(|client| {
        let address = client["url"].as_str().zip(url.as_deref());
        covers(&client["service"], &service) || address.is_some_and(|(called, ours)| called.starts_with(ours))
    })
}

/// Whether everything of `wanted` is in `actual`, which may have more: defaults, and what others own.
///
/// Lists count as equal when they have the same length and each item is covered by the one at its place.
#[must_use]
pub fn covers(actual: &Value, wanted: &Value) -> bool {
    match (actual, wanted) {
        (Value::Object(actual), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| actual.get(key).is_some_and(|actual| covers(actual, wanted)))
        }
        (Value::Array(actual), Value::Array(wanted)) => {
            actual.len() == wanted.len()
                && actual.iter().zip(wanted).all(|(actual, wanted)| covers(actual, wanted))
        }
        (actual, wanted) => actual == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(yaml: &str) -> Config {
        Config::read(yaml).unwrap()
    }

    fn webhook_of(feature: Feature, config: &Config, ca_bundle: Option<&str>) -> Value {
        let webhooks = desired(config, ca_bundle)["webhooks"].clone();
        let name = format!("{feature}.podwright.io");
        webhooks.as_array().unwrap().iter().find(|webhook| webhook["name"] == name.as_str()).unwrap().clone()
    }

    #[test]
    fn a_distribution_webhook_sees_new_pods_without_a_node_and_reserves_nothing_in_a_dry_run() {
        let webhook = webhook_of(Feature::Distribution, &Config::default(), None);
        let expression = webhook["matchConditions"][0]["expression"].as_str().unwrap();
        assert!(
            expression.starts_with("(!has(object.spec.nodeName)") && expression.contains("'DaemonSet'"),
            "{expression}"
        );
        assert_eq!(webhook["sideEffects"], "NoneOnDryRun");
        assert_eq!(webhook["failurePolicy"], "Ignore");
        assert_eq!(webhook["rules"].as_array().unwrap().len(), 1);
        let strict = config("distribution: {failurePolicy: Fail}");
        assert_eq!(webhook_of(Feature::Distribution, &strict, None)["failurePolicy"], "Fail");
    }

    #[test]
    fn a_sizing_webhook_sees_new_pods_of_daemon_sets_only_and_holds_nobody_up() {
        let webhook = webhook_of(Feature::Sizing, &Config::default(), None);
        assert_eq!(
            webhook["matchConditions"][0],
            json!({
                "name": "sizing",
                "expression": "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, \
                    (owner.apiVersion == 'apps/v1' && owner.kind == 'DaemonSet') || \
                    (owner.apiVersion == 'datadoghq.com/v1alpha1' && owner.kind == 'ExtendedDaemonSetReplicaSet'))",
            })
        );
        assert_eq!(webhook["matchConditions"][1]["name"], "not-a-mirror-pod");
        assert_eq!(webhook["rules"].as_array().unwrap().len(), 1);
        assert_eq!(webhook["rules"][0]["operations"], json!(["CREATE"]));
        assert_eq!(webhook["rules"][0]["resources"], json!(["pods"]));
        assert_eq!(webhook["failurePolicy"], "Ignore");
        let strict = config("sizing: {failurePolicy: Fail}");
        assert_eq!(webhook_of(Feature::Sizing, &strict, None)["failurePolicy"], "Fail");
    }

    #[test]
    fn an_architecture_webhook_sees_pods_whose_place_is_open_and_holds_nobody_up() {
        let webhook = webhook_of(Feature::Architecture, &config("namespace: home"), None);
        let conditions: Vec<&str> = webhook["matchConditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|condition| condition["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            conditions,
            ["architecture", "not-a-mirror-pod", "not-bound", "no-architecture-selected", "not-a-peer-pod"]
        );
        let machines = config("architecture: {architectures: {arm64: {machineType: m7g.large}}}");
        let with_machines = webhook_of(Feature::Architecture, &machines, None);
        assert_eq!(with_machines["matchConditions"].as_array().unwrap().len(), 4);
        let expression = webhook["matchConditions"][0]["expression"].as_str().unwrap();
        assert!(expression.starts_with("!(") && expression.contains("'DaemonSet'"), "{expression}");
        assert_eq!(webhook["failurePolicy"], "Ignore");
        assert_eq!(webhook["reinvocationPolicy"], "IfNeeded");
        assert_eq!(
            webhook["objectSelector"],
            json!({"matchExpressions": [{"key": "podwright.io/architecture", "operator": "NotIn", "values": ["off"]}]})
        );
        assert_eq!(
            webhook["namespaceSelector"]["matchExpressions"][0]["values"],
            json!(["kube-system", "home"])
        );
    }

    #[test]
    fn webhooks_of_another_installation_are_told_from_ours() {
        let registered = |yaml: &str| desired(&config(yaml), None)["webhooks"].clone();
        let by_service = registered("{namespace: home, webhook: {servicePort: 8443}}");
        assert!(calls_us(&config("{namespace: home, features: [rollout]}"), &by_service));
        assert!(!calls_us(&config("{namespace: elsewhere, features: [rollout]}"), &by_service));
        assert!(!calls_us(&config("{namespace: home, webhook: {service: other}}"), &by_service));
        let by_url = registered("webhook: {url: 'https://one.example/hooks/'}");
        assert!(calls_us(&config("webhook: {url: 'https://one.example/hooks'}"), &by_url));
        assert!(!calls_us(&config("webhook: {url: 'https://one.example/hook'}"), &by_url));
        assert!(!calls_us(&config("{}"), &by_url) && !calls_us(&config("{}"), &json!(null)));
    }

    #[test]
    fn a_feature_that_only_controls_has_no_webhook() {
        assert_eq!(desired(&config("features: [rollout]"), None)["webhooks"], json!([]));
        let webhooks = desired(&config("features: [rollout, sizing]"), None)["webhooks"].clone();
        assert_eq!(webhooks.as_array().unwrap().len(), 1);
    }

    #[test]
    fn an_architecture_webhook_can_be_made_narrower() {
        let narrow = config(
            "architecture: {failurePolicy: Fail, reinvocationPolicy: Never, namespaceSelector: {matchLabels: {team: a}, \
             matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [x]}]}, \
             objectSelector: {matchLabels: {app: b}}}",
        );
        let webhook = webhook_of(Feature::Architecture, &narrow, None);
        assert_eq!(webhook["failurePolicy"], "Fail");
        assert_eq!(webhook["reinvocationPolicy"], "Never");
        assert_eq!(webhook["namespaceSelector"]["matchLabels"], json!({"team": "a"}));
        assert_eq!(webhook["namespaceSelector"]["matchExpressions"][1]["values"], json!(["x"]));
        assert_eq!(webhook["objectSelector"]["matchLabels"], json!({"app": "b"}));
        assert_eq!(webhook["objectSelector"]["matchExpressions"][0]["operator"], "NotIn");
    }

    #[test]
    fn webhooks_are_registered_in_the_order_of_their_mutations() {
        let webhooks =
            desired(&config("features: [peer-pods, sizing, architecture, peer-pods]"), None)["webhooks"]
                .clone();
        let names: Vec<&Value> =
            webhooks.as_array().unwrap().iter().map(|webhook| &webhook["name"]).collect();
        assert_eq!(names, ["architecture.podwright.io", "sizing.podwright.io", "peer-pods.podwright.io"]);
    }

    #[test]
    fn a_peer_pods_webhook_sees_peer_pods_only() {
        let config = config("peerPods: {runtimeClasses: [kata-remote, kata-two]}\nnamespace: home\n");
        let webhook = webhook_of(Feature::PeerPods, &config, Some("PEM"));
        assert_eq!(
            webhook["matchConditions"][0]["expression"],
            "has(object.spec.runtimeClassName) && object.spec.runtimeClassName in ['kata-remote', 'kata-two']"
        );
        assert_eq!(webhook["failurePolicy"], "Fail");
        assert_eq!(
            webhook["namespaceSelector"]["matchExpressions"][0]["values"],
            json!(["kube-system", "home"])
        );
        assert_eq!(
            webhook["clientConfig"],
            json!({
                "service": {"name": "podwright-webhook", "namespace": "home", "port": 443, "path": "/mutate/peer-pods"},
                "caBundle": "UEVN",
            })
        );
    }

    #[test]
    fn a_manager_outside_the_cluster_is_registered_by_its_address() {
        let config = config("webhook: {url: 'https://127.0.0.1:9443/'}\nwatchNamespaces: [a]\n");
        let webhook = webhook_of(Feature::PeerPods, &config, None);
        assert_eq!(webhook["clientConfig"], json!({"url": "https://127.0.0.1:9443/mutate/peer-pods"}));
        assert_eq!(webhook["namespaceSelector"]["matchExpressions"][1]["values"], json!(["a"]));
    }

    #[test]
    fn what_is_not_registered_for_is_not_ours() {
        let all = config("namespace: home");
        assert!(admits(&all, "default") && !admits(&all, "home") && !admits(&all, "kube-system"));
        let some = config("watchNamespaces: [a]");
        assert!(admits(&some, "a") && !admits(&some, "b"));
    }

    #[test]
    fn cert_managers_injector_is_asked_for_the_bundle() {
        let config = config("tls: {mode: cert-manager, certificate: ns/name}");
        let annotations = &desired(&config, None)["metadata"]["annotations"];
        assert_eq!(annotations["cert-manager.io/inject-ca-from"], "ns/name");
    }

    #[test]
    fn defaults_that_the_api_server_adds_are_no_reason_to_write() {
        let wanted = json!({"a": [{"b": 1}], "c": "x"});
        assert!(covers(&json!({"a": [{"b": 1, "added": true}], "c": "x", "more": {}}), &wanted));
        for other in [
            json!({"a": [{"b": 2}], "c": "x"}),
            json!({"a": [], "c": "x"}),
            json!({"a": [{"b": 1}, {"b": 1}], "c": "x"}),
            json!({"c": "x"}),
        ] {
            assert!(!covers(&other, &wanted), "{other}");
        }
    }
}
