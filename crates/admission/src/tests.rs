//! The router, driven without a socket.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Request, StatusCode};
use podwright_api::{
    Feature,
    config::{PeerPodsConfig, SizingConfig},
};
use podwright_core::{
    mutate::{
        self, Fact, Facts, Lookup, Mutator, Outcome, PeerPods, Pipeline, Review, Sizing, WorkloadFacts,
    },
    pod::PodView,
    sizing::NodeFacts,
};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::{AdmissionMetrics, AdmissionOptions, FactSource, Finding, MAX_BODY, NoFacts, router};

const PATH: &str = "/mutate/peer-pods";

struct Server {
    router: Router,
    registry: Arc<Registry>,
}

fn server_with(mutator: impl Mutator + 'static, timeout: Duration) -> Server {
    let mut registry = Registry::default();
    let metrics = AdmissionMetrics::register(&mut registry);
    let pipeline = Pipeline::new(vec![Box::new(mutator)]);
    let router = router(pipeline, Arc::new(NoFacts), AdmissionOptions { timeout, max_in_flight: 4 }, metrics);
    Server { router, registry: Arc::new(registry) }
}

fn server() -> Server {
    server_with(PeerPods::new(&PeerPodsConfig::default()).unwrap(), Duration::from_secs(5))
}

impl Server {
    async fn post(&self, path: &str, body: impl Into<Body>) -> (StatusCode, Bytes) {
        let request = Request::post(path).body(body.into()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        (status, to_bytes(response.into_body(), usize::MAX).await.unwrap())
    }

    async fn answer(&self, path: &str, review: &Value) -> Value {
        let (status, body) = self.post(path, review.to_string()).await;
        assert_eq!(status, StatusCode::OK, "{body:?}");
        serde_json::from_slice(&body).unwrap()
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn review(object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE",
            "namespace": "default", "object": object, "oldObject": null, "options": {"kind": "CreateOptions"},
        },
    })
}

fn peer_pod() -> Value {
    json!({"metadata": {}, "spec": {"runtimeClassName": "kata-remote", "containers": [
        {"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}})
}

#[tokio::test]
async fn a_peer_pod_is_answered_with_a_patch_warnings_and_an_audit_annotation() {
    let answer = server().answer(PATH, &review(&peer_pod())).await;
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    let response = &answer["response"];
    assert_eq!(
        (&response["uid"], &response["allowed"], &response["patchType"]),
        (&json!("u-1"), &json!(true), &json!("JSONPatch"))
    );
    let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    let mut pod = peer_pod();
    json_patch::patch(&mut pod, &patch).unwrap();
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"], json!({"kata.peerpods.io/vm": "1"}));
    assert_eq!(response["warnings"][0], "peer pod: removed cpu=1 memory=1Gi; the VM has 1 vCPU / 1024 MiB");
    assert_eq!(response["auditAnnotations"]["peer-pod-vm"], "1 vCPU / 1024 MiB");
}

#[tokio::test]
async fn a_review_is_answered_in_the_version_it_came_in() {
    let mut review = review(&peer_pod());
    review["apiVersion"] = json!("admission.k8s.io/v1beta1");
    assert_eq!(server().answer(PATH, &review).await["apiVersion"], "admission.k8s.io/v1beta1");
}

#[tokio::test]
async fn the_replaced_webhooks_path_is_served_too() {
    assert!(
        server().answer("/mutate-v1-pod?timeout=10s", &review(&peer_pod())).await["response"]["patch"]
            .is_string()
    );
}

#[tokio::test]
async fn another_pod_is_allowed_without_a_patch() {
    let answer = server().answer(PATH, &review(&json!({"spec": {"containers": []}}))).await;
    assert_eq!(answer["response"], json!({"uid": "u-1", "allowed": true}));
}

#[tokio::test]
async fn a_denial_is_an_answer_and_not_a_fault() {
    let mut review = review(&peer_pod());
    review["request"]["operation"] = json!("UPDATE");
    review["request"]["subResource"] = json!("resize");
    let answer = server().answer(PATH, &review).await;
    assert_eq!(answer["response"]["allowed"], false);
    assert_eq!(answer["response"]["status"]["code"], 403);
    assert!(answer["response"]["status"]["message"].as_str().unwrap().contains("VM of its own"));
}

#[tokio::test]
async fn what_is_no_review_is_refused_with_a_reason() {
    let with = |pointer: &str, value: Value| {
        let mut review = review(&peer_pod());
        *review.pointer_mut(pointer).unwrap() = value;
        review.to_string()
    };
    let valid = review(&peer_pod()).to_string();
    for (body, reason) in [
        (String::new(), "not an AdmissionReview"),
        ("garbage".to_owned(), "not an AdmissionReview"),
        (valid[..valid.len() / 2].to_owned(), "not an AdmissionReview"),
        ("[]".to_owned(), "not an AdmissionReview"),
        ("{}".to_owned(), "expected kind AdmissionReview"),
        (with("/apiVersion", json!("admission.k8s.io/v2")), "v1beta1 are"),
        (with("/request", Value::Null), "no request"),
        (with("/request/uid", json!("")), "no uid"),
        (with("/request/object", Value::Null), "no object"),
        (with("/request/object", json!([1])), "not a Pod"),
        (with("/request/object", json!({"spec": {"containers": 7}})), "not a Pod"),
        (
            with("/request/object/spec/containers/0/resources/requests/cpu", json!("much")),
            "\"much\" is not a quantity",
        ),
        (with("/request/kind/kind", json!("Node")), "only Pods"),
        (with("/request/operation", json!("DELETE")), "\"DELETE\""),
    ] {
        let (status, text) = server().post(PATH, body.clone()).await;
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body} gave {text}");
        assert!(text.contains(reason), "{body} gave {text}");
    }
    let (status, text) = server().post(PATH, vec![0xff, 0xfe]).await;
    assert_eq!((status, &text[..]), (StatusCode::BAD_REQUEST, &b"the body is not UTF-8\n"[..]));
}

#[tokio::test]
async fn a_body_over_the_limit_is_too_large_and_one_at_the_limit_is_not() {
    let (status, text) = server().post(PATH, vec![b' '; MAX_BODY + 1]).await;
    assert_eq!(
        (status, &text[..]),
        (StatusCode::PAYLOAD_TOO_LARGE, &b"the review is larger than 7 MiB\n"[..])
    );
    let mut body = review(&peer_pod()).to_string().into_bytes();
    body.resize(MAX_BODY, b' ');
    assert_eq!(server().post(PATH, body).await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_unknown_path_says_where_the_webhooks_are() {
    let (status, text) = server().post("/mutate/nothing", "").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(String::from_utf8_lossy(&text).contains("/mutate/peer-pods"));
}

struct Panics;

impl Mutator for Panics {
    fn feature(&self) -> Feature {
        Feature::PeerPods
    }

    fn review(&self, _: &mutate::Request<'_>, pod: &PodView, _: &Facts) -> Review {
        assert!(pod.spec.runtime_class_name.is_none(), "on purpose");
        Review::Done(Outcome::skipped())
    }
}

#[tokio::test]
async fn a_panic_is_one_failed_review_and_the_next_is_answered() {
    let server = server_with(Panics, Duration::from_secs(5));
    // More often than there are turns: a panic gives its turn back.
    for _ in 0..10 {
        assert_eq!(
            server.post(PATH, review(&peer_pod()).to_string()).await.0,
            StatusCode::INTERNAL_SERVER_ERROR
        );
    }
    server.answer(PATH, &review(&json!({}))).await;
    let metrics = server.metrics();
    assert!(metrics.contains("admission_answers_total{code=\"500\"} 10"), "{metrics}");
    assert!(metrics.contains("admission_in_flight 0"), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_given_up_before_the_api_server_does() {
    let server = server_with(Panics, Duration::from_secs(5));
    let (_writer, reader) = tokio::io::duplex(16);
    let body = Body::from_stream(futures::stream::unfold(reader, |mut reader| async move {
        let mut buffer = [0; 8];
        tokio::io::AsyncReadExt::read(&mut reader, &mut buffer).await.ok()?;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), reader))
    }));
    let (status, text) = server.post(&format!("{PATH}?timeout=2s"), body).await;
    assert_eq!((status, &text[..]), (StatusCode::GATEWAY_TIMEOUT, &b"no answer within 1800 ms\n"[..]));
}

#[tokio::test]
async fn verdicts_and_answers_are_counted_with_bounded_labels() {
    let server = server();
    server.answer(PATH, &review(&peer_pod())).await;
    server.answer(PATH, &review(&json!({}))).await;
    server.post(PATH, "x").await;
    let metrics = server.metrics();
    for line in [
        "admission_mutations_total{feature=\"peer-pods\",verdict=\"mutated\"} 1",
        "admission_mutations_total{feature=\"peer-pods\",verdict=\"skipped\"} 1",
        "admission_answers_total{code=\"200\"} 2",
        "admission_answers_total{code=\"400\"} 1",
        "admission_review_duration_seconds_count 3",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

/// A cluster with one annotated DaemonSet, and with the template and the node that it needs, or without.
struct Cluster {
    complete: bool,
    asked: std::sync::Mutex<Vec<Lookup>>,
}

impl FactSource for Cluster {
    fn find<'a>(&'a self, lookup: &'a Lookup) -> Finding<'a> {
        self.asked.lock().unwrap().push(lookup.clone());
        let annotations = [("flexdaemonsets.xai/resource-template".to_owned(), "t".to_owned())].into();
        let spec = json!({"cpuPercentage": 10, "memoryPercentage": 10, "storagePercentage": 10});
        let fact = match lookup {
            Lookup::Workload { .. } => Fact::Workload(Arc::new(WorkloadFacts { annotations, owner: None })),
            Lookup::Template { .. } => Fact::Template(Arc::new(serde_json::from_value(spec).unwrap())),
            Lookup::Node { name } => Fact::Node(Arc::new(NodeFacts {
                name: name.clone(),
                allocatable: [("cpu".to_owned(), "4".parse().unwrap())].into(),
                ..NodeFacts::default()
            })),
            other => panic!("nobody asks for {other}"),
        };
        let known = self.complete || matches!(lookup, Lookup::Workload { .. });
        Box::pin(std::future::ready(Ok(known.then_some(fact))))
    }
}

fn sizing_server(source: Arc<dyn FactSource>) -> Server {
    let mut registry = Registry::default();
    let metrics = AdmissionMetrics::register(&mut registry);
    let pipeline = Pipeline::new(vec![Box::new(Sizing::new(&SizingConfig::default()))]);
    let options = AdmissionOptions { timeout: Duration::from_secs(5), max_in_flight: 4 };
    Server { router: router(pipeline, source, options, metrics), registry: Arc::new(registry) }
}

fn daemon_pod() -> Value {
    review(&json!({
        "metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]},
        "spec": {"nodeName": "n", "containers": [{"name": "a"}]},
    }))
}

#[tokio::test]
async fn facts_are_looked_up_until_a_decision_can_be_taken() {
    let cluster = Arc::new(Cluster { complete: true, asked: std::sync::Mutex::default() });
    let answer = sizing_server(cluster.clone()).answer("/mutate/sizing", &daemon_pod()).await;
    assert!(answer["response"]["patch"].is_string(), "{answer}");
    assert_eq!(cluster.asked.lock().unwrap().len(), 3, "workload, template and node, each once");
}

#[tokio::test]
async fn what_is_known_to_be_missing_is_a_denial_that_says_what_to_create() {
    let cluster = Cluster { complete: false, asked: std::sync::Mutex::default() };
    let answer = sizing_server(Arc::new(cluster)).answer("/mutate-v1-pod", &daemon_pod()).await;
    assert_eq!(answer["response"]["allowed"], false);
    assert!(
        answer["response"]["status"]["message"].as_str().unwrap().contains("FlexDaemonsetTemplate"),
        "{answer}"
    );
}

#[tokio::test]
async fn what_cannot_be_looked_up_is_a_fault_and_not_a_denial() {
    let (status, text) =
        sizing_server(Arc::new(NoFacts)).post("/mutate/sizing", daemon_pod().to_string()).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(String::from_utf8_lossy(&text).contains("could not be looked up"));
}

/// Asks for three things that take a second each to find.
struct Slow;

impl Mutator for Slow {
    fn feature(&self) -> Feature {
        Feature::Architecture
    }

    fn review(&self, _: &mutate::Request<'_>, _: &PodView, facts: &Facts) -> Review {
        let nodes = ["a", "b", "c"].map(|name| Lookup::Node { name: name.to_owned() });
        let needs: Vec<Lookup> =
            nodes.into_iter().filter(|node| facts.get(node) == mutate::Known::Unknown).collect();
        if needs.is_empty() { Review::Done(Outcome::skipped()) } else { Review::Needs(needs) }
    }
}

impl FactSource for Slow {
    fn find<'a>(&'a self, _: &'a Lookup) -> Finding<'a> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(None)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn lookups_that_take_long_wait_together() {
    let mut registry = Registry::default();
    let metrics = AdmissionMetrics::register(&mut registry);
    let options = AdmissionOptions { timeout: Duration::from_secs(5), max_in_flight: 4 };
    let router = router(Pipeline::new(vec![Box::new(Slow)]), Arc::new(Slow), options, metrics);
    let server = Server { router, registry: Arc::new(registry) };
    let begun = tokio::time::Instant::now();
    server.answer("/mutate/architecture", &review(&json!({}))).await;
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
}
