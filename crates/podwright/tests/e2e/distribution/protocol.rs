//! What is answered on Versprei's path, health check, dry runs and repeated looks at one pod.

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use super::{Scene, lab};
use crate::{
    https::{self, Version},
    labs::{in_namespace, soon},
};

impl Scene<'_> {
    async fn ca(&self) -> anyhow::Result<String> {
        let secret =
            Api::<Secret>::namespaced(self.client.clone(), "podwright-system").get("podwright-tls").await?;
        Ok(String::from_utf8(secret.data.unwrap_or_default()["ca.crt"].0.clone())?)
    }

    /// Has a replica look at a pod, as an API server does, and gives its answer.
    async fn review(
        &self,
        ca: &str,
        port: u16,
        version: &str,
        dry_run: bool,
        pod: &Value,
    ) -> anyhow::Result<Value> {
        let review = json!({
            "apiVersion": format!("admission.k8s.io/{version}"), "kind": "AdmissionReview",
            "request": {
                "uid": "3c1f0a52-9d8e-4f5e-8a0b-2f6f5f1f7b11", "operation": "CREATE", "namespace": self.namespace,
                "kind": {"group": "", "version": "v1", "kind": "Pod"}, "dryRun": dry_run, "object": pod,
            },
        });
        let (status, body) = https::post(Version::Http1, port, "/mutate", ca, review.to_string()).await?;
        anyhow::ensure!(status == 200, "{status}: {body}");
        Ok(serde_json::from_str(&body)?)
    }

    /// Waits until every replica knows of the rule for pods that nobody controls and that have these labels, and so of all rules
    /// that were made before it.
    pub(super) async fn await_rule_of(&self, labels: &Value) -> anyhow::Result<()> {
        let ca = self.ca().await?;
        let pod = json!({"metadata": {"generateName": "probe-", "labels": labels}, "spec": {"containers": [{"name": "a"}]}});
        for index in 0..self.lab.replicas() {
            let port = self.lab.replica(index)?.ports().webhook;
            soon(|| async {
                let answer = self.review(&ca, port, "v1", true, &pod).await?;
                anyhow::ensure!(answer["response"]["patch"].is_string(), "replica {index}: {answer}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_review_on_verspreis_path_is_answered_in_its_own_version_and_a_dry_run_reserves_nothing() {
    in_namespace(lab().await, "versprei", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 1), ("spot", 1)]).await?;
        let mut rule = scene.rule(&[("default", 1), ("spot", 1)]);
        rule["spec"]["target"] = json!({"name": "web"});
        scene.apply(&rule).await?;
        let (ca, port) = (scene.ca().await?, scene.lab.replica(0)?.ports().webhook);
        let pod = json!({"metadata": {"generateName": "x-", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "a"}]}});
        let ask = async |dry_run: bool| scene.review(&ca, port, "v1beta1", dry_run, &pod).await;
        // The replica may hear of the rule a moment later.
        let answer = soon(|| async {
            let answer = ask(true).await?;
            anyhow::ensure!(answer["response"]["patch"].is_string(), "{answer}");
            Ok(answer)
        })
        .await?;
        anyhow::ensure!(answer["apiVersion"] == "admission.k8s.io/v1beta1", "{answer}");
        let patch: Value = serde_json::from_slice(&STANDARD.decode(answer["response"]["patch"].as_str().unwrap())?)?;
        anyhow::ensure!(
            patch.as_array().unwrap().iter().any(|one| one["path"] == "/spec/nodeSelector" && one["op"] == "add"),
            "{patch}"
        );
        anyhow::ensure!(scene.status().await?["reserved"].is_null(), "a dry run has reserved a place");
        ask(false).await?;
        anyhow::ensure!(!scene.status().await?["reserved"].is_null(), "nothing has been reserved");
        let node = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "1", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Node"}, "object": {}}});
        let (status, body) = https::post(Version::Http1, port, "/mutate", &ca, node.to_string()).await?;
        anyhow::ensure!(status == 200 && body.contains(r#""allowed":true"#), "{status}: {body}");
        let (status, body) = https::get(port, "/health", &ca).await?;
        anyhow::ensure!((status, body.as_str()) == (200, "\"OK\""), "{status}: {body}");
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_through_the_api_server_writes_nothing_and_another_webhook_s_change_takes_no_second_place()
{
    in_namespace(lab().await, "again", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 1), ("spot", 1)]).await?;
        let mut rule = scene.rule(&[("default", 1), ("spot", 1)]);
        rule["spec"]["target"] = json!({"name": "web"});
        scene.apply(&rule).await?;
        let sidecar = json!({"name": "proxy", "image": "proxy:1"});
        let _injector = crate::injector::start(&scene.client, &scene.namespace, sidecar).await?;
        let pod = |name: &str| {
            serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": "web"}},
                "spec": {"nodeSelector": {"scene": scene.namespace}, "containers": [{"name": "a", "image": "a:1"}]}}))
        };
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let tier = |pod: &k8s_openapi::api::core::v1::Pod| {
            pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref()?.get("tier").cloned())
        };
        let containers = |pod: &k8s_openapi::api::core::v1::Pod| {
            pod.spec.as_ref().map_or(0, |spec| spec.containers.len())
        };
        scene.await_rule_of(&json!({"app": "web"})).await?;
        soon(|| async {
            let made = scene.pods_api().create(&dry, &pod("dry")?).await?;
            anyhow::ensure!(tier(&made).is_some(), "not placed");
            anyhow::ensure!(containers(&made) == 2, "the other webhook is not called yet");
            Ok(())
        })
        .await?;
        anyhow::ensure!(scene.status().await?["reserved"].is_null(), "a dry run has reserved a place");
        let mut tiers = Vec::new();
        for name in ["one", "two", "three", "four"] {
            let made = scene.pods_api().create(&PostParams::default(), &pod(name)?).await?;
            anyhow::ensure!(containers(&made) == 2, "the other webhook has changed nothing");
            tiers.push(tier(&made).unwrap_or_default());
        }
        anyhow::ensure!(tiers == ["default", "spot", "default", "spot"], "{tiers:?}");
        Ok(())
    })
    .await;
}
