//! Versprei's own registration, which the API server calls instead of ours.

use std::{fs, path::Path, process::Command};

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::{admissionregistration::v1::MutatingWebhookConfiguration, core::v1::Pod};
use kube::{Api, api::PostParams};
use podwright_lab::Lab;
use serde_json::{Value, json};

use super::Scene;
use crate::labs::{binary, soon, start_with};

/// Each has a registration of its own, which names these versions in this order. The first is as in Versprei's manifest. The API
/// server asks in the first version that it knows, and never in one that is not listed.
const REGISTRATIONS: [(&str, &[&str]); 3] =
    [("default", &["v1beta1", "v1"]), ("only-beta", &["v1beta1"]), ("beta-last", &["v1", "v1beta1"])];

/// A lab in which we leave the registration to others.
async fn unregistered(certificates: &Path) -> Lab {
    let made = Command::new(binary())
        .args(["certs", "--ip", "127.0.0.1", "--dir"])
        .arg(certificates)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let namespaces = REGISTRATIONS.map(|(namespace, _)| namespace).join(", ");
    let config = format!(
        "features: [distribution]\nwatchNamespaces: [{namespaces}]\nwebhook: {{register: false}}\n\
         tls: {{mode: directory, directory: {}}}\n",
        certificates.display()
    );
    start_with(1, &config, &[]).await
}

/// Versprei's registration, but for where it is served and which namespace it is for.
async fn register(scene: &Scene<'_>, versions: &[&str], ca: &[u8]) -> anyhow::Result<String> {
    let name = match scene.namespace.as_str() {
        "default" => "versprei-webhook-service".to_owned(),
        other => format!("versprei-webhook-service-{other}"),
    };
    let url = scene.lab.webhook_url().unwrap_or_default();
    let configuration: MutatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": name},
        "webhooks": [{
            "name": "versprei.default.com", "failurePolicy": "Ignore", "sideEffects": "None", "timeoutSeconds": 2,
            "admissionReviewVersions": versions,
            "clientConfig": {"url": format!("{url}/mutate"), "caBundle": STANDARD.encode(ca)},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}},
        }],
    }))?;
    Api::all(scene.client.clone()).create(&PostParams::default(), &configuration).await?;
    Ok(name)
}

/// Which registrations have changed each new pod of the Deployment, by the API server's own account.
fn changed_by(scene: &Scene) -> anyhow::Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(scene.lab.log("audit"))?;
    let created = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(|entry| {
        entry["verb"] == "create"
            && entry["objectRef"]["resource"] == "pods"
            && entry["objectRef"]["namespace"] == scene.namespace.as_str()
            && entry["user"]["username"] == "system:serviceaccount:kube-system:replicaset-controller"
            && entry["responseStatus"]["code"] == 201
    });
    let registrations = |entry: Value| {
        let notes = entry["annotations"].as_object().cloned().unwrap_or_default().into_iter();
        let notes = notes.filter(|(key, _)| key.starts_with("mutation.webhook.admission.k8s.io/"));
        let notes = notes.filter_map(|(_, note)| serde_json::from_str::<Value>(note.as_str()?).ok());
        let changes = notes.filter(|note| note["mutated"] == true);
        changes.filter_map(|note| note["configuration"].as_str().map(str::to_owned)).collect()
    };
    Ok(created.map(registrations).collect())
}

async fn spreads(scene: &Scene<'_>, versions: &[&str], ca: &[u8]) -> anyhow::Result<()> {
    let weights = [("default", 80), ("spot", 20)];
    scene.nodes(&[("default", 1), ("spot", 1)]).await?;
    scene.apply(&scene.rule(&weights)).await?;
    scene.await_rule().await?;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"generateName": "probe-", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]},
    }))?;
    let is_placed = async || -> anyhow::Result<bool> {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let made = scene.pods_api().create(&dry, &pod).await?;
        Ok(made
            .spec
            .and_then(|spec| spec.node_selector)
            .is_some_and(|selector| selector.contains_key("tier")))
    };
    // In a new namespace pods are refused until it has its ServiceAccount.
    anyhow::ensure!(!soon(&is_placed).await?, "somebody else places pods here");
    let name = register(scene, versions, ca).await?;
    soon(|| async {
        anyhow::ensure!(is_placed().await?, "the API server does not call us yet");
        Ok(())
    })
    .await?;
    scene.apply(&scene.deployment(10)).await?;
    let pods = scene.await_pods(10, "app:1").await?;
    let tally = Scene::tally(&pods);
    anyhow::ensure!((tally.get("default"), tally.get("spot")) == (Some(&8), Some(&2)), "{tally:?}");
    let changed_by = changed_by(scene)?;
    anyhow::ensure!(changed_by == vec![vec![name]; 10], "{changed_by:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verspreis_own_registration_spreads_pods_in_whichever_version_it_asks_for() {
    let certificates = tempfile::tempdir().unwrap();
    let lab = unregistered(certificates.path()).await;
    let ca = fs::read(certificates.path().join("ca.crt")).unwrap();
    let client = lab.client().unwrap();
    let ours = Api::<MutatingWebhookConfiguration>::all(client.clone()).get("podwright").await.unwrap();
    assert_eq!(ours.webhooks.unwrap_or_default(), [], "we were to register nothing");
    for (namespace, versions) in REGISTRATIONS {
        if namespace != "default" {
            let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            lab.apply("default", &made.to_string()).await.unwrap();
        }
        let scene = Scene::new(&lab, client.clone(), namespace.to_owned());
        if let Err(error) = spreads(&scene, versions, &ca).await {
            panic!("{namespace}, {versions:?}: {error:#}\n{}", lab.dump(namespace).await);
        }
    }
}
