//! Running pods and what is told of them, while much happens.

use std::time::Duration;

use k8s_openapi::api::{
    admissionregistration::v1::ValidatingAdmissionPolicyBinding,
    apps::v1::DaemonSet,
    core::v1::{Node, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use podwright_api::{flex::FlexDaemonsetTemplate, keys};
use podwright_lab::Lab;
use serde_json::{Value, json};

use super::scene::{DAEMON_SET, TEMPLATE, scene};
use crate::labs::{soon, start};

#[tokio::test]
async fn pods_follow_their_template_also_while_nodes_keep_changing() {
    scene("busy", |scene| async move {
        scene.node("n", "4", "16Gi", Some("100Gi")).await?;
        scene.apply(&scene.template()).await?;
        scene.apply(&scene.daemon_set()).await?;
        scene.await_pods(1).await?;
        let nodes: Api<Node> = Api::all(scene.client.clone());
        // Far more often than a DaemonSet is looked at: each of these concerns all of them.
        let changes = async {
            let mut often = tokio::time::interval(Duration::from_millis(200));
            for change in 0.. {
                often.tick().await;
                let label = Patch::Merge(json!({"metadata": {"labels": {"change": format!("{change}")}}}));
                nodes.patch(&format!("{}-n", scene.name), &PatchParams::default(), &label).await?;
            }
            anyhow::Ok(())
        };
        let follows = async {
            for percent in [20, 30] {
                scene.patch_template(json!({"cpuPercentage": percent})).await?;
                scene.await_cpu("n", &format!("{}m", 40 * percent)).await?;
            }
            Ok(())
        };
        tokio::select! {
            ended = changes => ended,
            followed = follows => followed,
        }
    })
    .await;
}

#[tokio::test]
async fn what_became_of_a_templates_pods_is_told_also_if_they_may_not_be_replaced() {
    scene("denied", |scene| async move {
        scene.node("n", "4", "16Gi", Some("100Gi")).await?;
        let mut template = scene.template();
        template["spec"]["onDrift"] = json!("Recreate");
        scene.apply(&template).await?;
        scene.apply(&scene.daemon_set()).await?;
        scene.await_pods(1).await?;
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": scene.name},
            "spec": {
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.name}},
                    "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}],
                },
                "validations": [{"expression": "false"}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": scene.name}, "spec": {"policyName": scene.name, "validationActions": ["Deny"]},
        });
        for object in [policy, binding] {
            scene.apply(&object).await?;
        }
        let pods: Api<Pod> = Api::namespaced(scene.client.clone(), &scene.name);
        let name = scene.pods().await?["n"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        soon(|| async {
            let tried = pods.delete(&name, &DeleteParams { dry_run: true, ..DeleteParams::default() }).await;
            anyhow::ensure!(tried.is_err(), "the policy is not in force yet");
            Ok(())
        })
        .await?;
        // Of what cannot be resized in place.
        scene.patch_template(json!({"storagePercentage": 20})).await?;
        soon(|| async {
            let status = scene.status().await?;
            let is_told = status["drifted"] == 1 && status["conditions"][1]["status"] == "False";
            anyhow::ensure!(is_told, "{status}");
            Ok(())
        })
        .await?;
        let api: Api<ValidatingAdmissionPolicyBinding> = Api::all(scene.client.clone());
        api.delete(&scene.name, &DeleteParams::default()).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_manager_that_begins_anew_claims_nothing_of_pods_that_it_has_not_looked_at() {
    let brief = "features: [sizing]\n\
                 leaderElection: {leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 500ms}\n\
                 webhook: {shutdownGrace: 1s}\n";
    let lab = start(1, brief).await;
    let namespace = lab.namespace("anew").await.unwrap();
    if let Err(error) = status_outlives_a_restart(&lab, &namespace).await {
        panic!("{error:#}\n{}", lab.dump(&namespace).await);
    }
}

async fn status_outlives_a_restart(lab: &Lab, namespace: &str) -> anyhow::Result<()> {
    let client = lab.client()?;
    let (pods, daemon_sets, templates): (Api<Pod>, Api<DaemonSet>, Api<FlexDaemonsetTemplate>) = (
        Api::namespaced(client.clone(), namespace),
        Api::namespaced(client.clone(), namespace),
        Api::all(client.clone()),
    );
    lab.apply(namespace, TEMPLATE).await?;
    // Made before their DaemonSet asks for the template, its pods cannot be resized.
    let mut daemon_set: Value = serde_saphyr::from_str(DAEMON_SET)?;
    let annotations = std::mem::take(&mut daemon_set["metadata"]["annotations"]);
    lab.apply(namespace, &daemon_set.to_string()).await?;
    soon(|| async {
        let running = pods.list(&ListParams::default().fields("status.phase=Running")).await?.items.len();
        anyhow::ensure!(running == 3, "{running} of 3 pods run");
        Ok(())
    })
    .await?;
    let asks = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    daemon_sets.patch("example-daemonset", &PatchParams::default(), &asks).await?;
    let name = annotations[keys::RESOURCE_TEMPLATE].as_str().unwrap_or_default();
    // What is told of the template as it is now.
    let told = || {
        soon(|| async {
            let template = serde_json::to_value(templates.get(name).await?)?;
            let status = &template["status"];
            anyhow::ensure!(
                status["observedGeneration"] == template["metadata"]["generation"] && status["drifted"] == 3,
                "{status}"
            );
            Ok(status.clone())
        })
    };
    let before = told().await?;
    let replica = lab.replica(0)?;
    replica.terminate().await?;
    // So that there is something to write for whoever comes next.
    let figure = Patch::Merge(json!({"spec": {"cpuPercentage": 20}}));
    templates.patch(name, &PatchParams::default(), &figure).await?;
    replica.start().await?;
    let after = told().await?;
    for condition in 0..2 {
        let since = |status: &Value| status["conditions"][condition]["lastTransitionTime"].clone();
        assert_eq!(since(&after), since(&before), "{after}");
    }
    Ok(())
}
