//! How we are registered, and what that means for others.

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::MutatingWebhookConfiguration, coordination::v1::Lease, core::v1::Secret,
    },
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use podwright_lab::PODWRIGHT_NAME;
use serde_json::{Value, json};

use crate::{
    audit::Audit,
    labs::{SOON, create, in_namespace, options, peer_pod, plain, soon, start_with},
};

#[tokio::test]
async fn a_registration_that_somebody_changes_is_put_right() {
    // A lab of its own: without a registration other tests' pods would be left alone.
    let lab = start_with(1, "features: [peer-pods]\n", &[]).await;
    let api: Api<MutatingWebhookConfiguration> = Api::all(lab.client().unwrap());
    let before = api.get("podwright").await.unwrap();
    for damage in [
        json!([{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": STANDARD.encode("nonsense")}]),
        json!([{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 29}]),
        json!([{"op": "remove", "path": "/webhooks"}]),
    ] {
        let damage = Patch::Json::<()>(serde_json::from_value(damage).unwrap());
        let damaged = api.patch("podwright", &PatchParams::default(), &damage).await.unwrap();
        soon(|| async {
            let after = api.get("podwright").await?;
            anyhow::ensure!(
                after.metadata.resource_version != damaged.metadata.resource_version,
                "still as damaged"
            );
            anyhow::ensure!(after.webhooks == before.webhooks, "not as before: {:?}", after.webhooks);
            Ok(())
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn once_no_feature_has_a_webhook_and_nobody_serves_one_nothing_is_registered() {
    let election = "leaderElection: {leaseDuration: 2s, renewDeadline: 1500ms, retryPeriod: 200ms}\n";
    let lab = start_with(2, &format!("features: [sizing]\n{election}"), &[]).await;
    let api: Api<MutatingWebhookConfiguration> = Api::all(lab.client().unwrap());
    let before = api.get("podwright").await.unwrap();
    assert_eq!(before.webhooks.as_ref().map(Vec::len), Some(1));

    // One after the other, as a Deployment does it: while one of the former configuration lives, it serves.
    std::fs::write(lab.dir().join("podwright.yaml"), format!("features: [rollout]\n{election}")).unwrap();
    let restart = async |index| {
        let replica = lab.replica(index).unwrap();
        replica.terminate().await.unwrap();
        replica.start().await.unwrap();
        replica.await_ready(SOON).await.unwrap();
    };
    restart(0).await;
    let leases: Api<Lease> = Api::namespaced(lab.client().unwrap(), "podwright-system");
    let renewals = async || leases.get("podwright").await.map(|lease| lease.metadata.resource_version);
    // For four times as long as it must be seen unchanged.
    for _ in 0..40 {
        let last = renewals().await.unwrap();
        soon(|| async {
            anyhow::ensure!(renewals().await? != last, "nobody renews the Lease of those who register");
            Ok(())
        })
        .await
        .unwrap();
    }
    assert_eq!(api.get("podwright").await.unwrap().webhooks, before.webhooks);

    restart(1).await;
    soon(|| async {
        let webhooks = api.get("podwright").await?.webhooks.unwrap_or_default();
        anyhow::ensure!(webhooks.is_empty(), "{} webhooks are still registered", webhooks.len());
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn the_replaced_webhooks_own_registration_goes_on_working() {
    in_namespace(plain().await, "legacy", |client, namespace| async move {
        let secret = Api::<Secret>::namespaced(client.clone(), "podwright-system").get("podwright-tls").await?;
        let ByteString(ca) = &secret.data.unwrap()["ca.crt"];
        let legacy: MutatingWebhookConfiguration = serde_json::from_value(json!({
            "metadata": {"name": "peer-pods-webhook-mutating-webhook-configuration"},
            "webhooks": [{
                "name": "mwebhook.peerpods.io", "failurePolicy": "Fail", "reinvocationPolicy": "IfNeeded", "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": format!("{}/mutate-v1-pod", plain().await.webhook_url().unwrap()), "caBundle": STANDARD.encode(ca)},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "Namespaced"}],
                // A namespace that our own registration leaves out.
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "podwright-system"}},
            }],
        }))?;
        Api::all(client.clone()).create(&PostParams::default(), &legacy).await?;
        soon(|| async {
            let mut pod = peer_pod("", &json!([{"name": "a", "image": "x", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]));
            pod.metadata = serde_json::from_value(json!({"generateName": format!("{namespace}-")}))?;
            pod.spec.as_mut().unwrap().security_context =
                serde_json::from_value(json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}))?;
            pod.spec.as_mut().unwrap().service_account_name = Some("podwright".to_owned());
            let pod: Value = create(&client, "podwright-system", &pod).await?;
            anyhow::ensure!(pod["spec"]["containers"][0]["resources"]["limits"]["kata.peerpods.io/vm"] == "1", "not yet: {pod}");
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn at_rest_nothing_is_written_but_the_lease() {
    let lab = options().await;
    let audit = Audit::of_lab(lab).unwrap();
    // Three renewals later is about six seconds later; other tests of this lab change no object that we write to.
    soon(|| async {
        anyhow::ensure!(audit.renewals(PODWRIGHT_NAME)? >= 3, "no three renewals yet");
        Ok(())
    })
    .await
    .unwrap();
    let writes = audit.writes().unwrap();
    assert!(writes.is_empty(), "{writes:?}");
}
