//! Another webhook, which injects a sidecar after ours has run.

use std::net::IpAddr;

use axum::{Json, Router, routing::post};
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::{Api, Client, api::PostParams};
use podwright_runtime::{
    http::{self, ServeOptions},
    shutdown::Shutdown,
    tls::{managed, policy::TlsPolicy, store::CertStore},
};
use serde_json::{Value, json};

/// Serves until dropped.
pub(crate) struct Injector(Shutdown);

impl Drop for Injector {
    fn drop(&mut self) {
        self.0.trigger();
    }
}

/// Registers for one namespace, by a name that comes after ours.
pub(crate) async fn start(client: &Client, namespace: &str, sidecar: Value) -> anyhow::Result<Injector> {
    let made = managed::generate(Vec::new(), vec![IpAddr::from([127, 0, 0, 1])], Timestamp::now())?;
    let store = std::sync::Arc::new(CertStore::new());
    store.install(made.tls_crt.as_bytes(), made.tls_key.as_bytes())?;
    let tls = TlsPolicy::parse("", "")?.server_config(store)?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let inject = move |Json(review): Json<Value>| async move {
        let there = review["request"]["object"]["spec"]["containers"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["name"] == sidecar["name"]));
        let patch = json!([{"op": "add", "path": "/spec/containers/-", "value": sidecar}]);
        let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
        if !there {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(patch.to_string()));
        }
        Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
    };
    let shutdown = Shutdown::manual();
    let (router, watched) = (Router::new().route("/", post(inject)), shutdown.clone());
    tokio::spawn(
        async move { http::serve_tls(listener, router, tls, ServeOptions::default(), &watched).await },
    );
    let configuration: MutatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": format!("zz-{namespace}")},
        "webhooks": [{
            "name": "injector.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/"), "caBundle": STANDARD.encode(&made.ca_crt)},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        }],
    }))?;
    Api::all(client.clone()).create(&PostParams::default(), &configuration).await?;
    Ok(Injector(shutdown))
}
