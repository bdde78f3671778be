//! Whose pods are spread.

use kube::api::{ListParams, PostParams};
use serde_json::json;

use super::{Scene, lab};
use crate::labs::{in_namespace, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stateful_sets_replica_sets_jobs_and_bare_pods_are_spread_when_a_rule_names_them() {
    in_namespace(lab().await, "kinds", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        let weights = [("default", 3), ("spot", 1)];
        scene.nodes(&[("default", 1), ("spot", 1)]).await?;
        let template = |app: &str| {
            json!({"metadata": {"labels": {"app": app}}, "spec": {
                "nodeSelector": {"scene": scene.namespace}, "containers": [{"name": "app", "image": "app:1"}]}})
        };
        for (name, target) in [
            ("sts", json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"})),
            ("rs", json!({"kind": "ReplicaSet", "name": "plain"})),
            ("job", json!({"apiVersion": "batch/v1", "kind": "Job", "name": "sums"})),
            ("bare", json!({"name": "alone"})),
        ] {
            let mut rule = scene.rule(&weights);
            rule["metadata"]["name"] = json!(name);
            rule["spec"]["target"] = target;
            scene.apply(&rule).await?;
        }
        scene.apply(&json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
            "replicas": 8, "podManagementPolicy": "Parallel", "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}}, "template": template("db")}})).await?;
        scene.apply(&json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "plain"}, "spec": {
            "replicas": 8, "selector": {"matchLabels": {"app": "plain"}}, "template": template("plain")}})).await?;
        let mut job = template("sums");
        job["spec"]["restartPolicy"] = json!("Never");
        for name in ["sums", "strangers"] {
            scene.apply(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {
                "completions": 8, "parallelism": 8, "template": job}})).await?;
        }
        for index in 0..8 {
            let pod = json!({"metadata": {"name": format!("alone-{index}"), "labels": {"app": "alone"}},
                             "spec": template("alone")["spec"]});
            scene.pods_api().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        }
        for (selector, tally) in [
            ("app=db", Some((6, 2))),
            ("app=plain", Some((6, 2))),
            ("batch.kubernetes.io/job-name=sums", Some((6, 2))),
            ("app=alone", Some((6, 2))),
            ("batch.kubernetes.io/job-name=strangers", None),
        ] {
            let pods = soon(|| async {
                let pods = scene.pods_api().list(&ListParams::default().labels(selector)).await?.items;
                anyhow::ensure!(pods.len() == 8, "{selector}: {} pods", pods.len());
                pods.into_iter().map(|pod| Ok(serde_json::to_value(pod)?)).collect::<anyhow::Result<Vec<_>>>()
            })
            .await?;
            let found = Scene::tally(&pods);
            let found = found.get("default").copied().zip(found.get("spot").copied());
            anyhow::ensure!(found == tally, "{selector}: {found:?}");
        }
        // A StatefulSet's pod comes back to where it was.
        let tier_of = |pod: &k8s_openapi::api::core::v1::Pod| {
            pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref()?.get("tier").cloned())
        };
        let before = scene.pods_api().get("db-2").await?;
        scene.pods_api().delete("db-2", &kube::api::DeleteParams::default()).await?;
        soon(|| async {
            let after = scene.pods_api().get("db-2").await?;
            anyhow::ensure!(after.metadata.uid != before.metadata.uid, "not yet made anew");
            anyhow::ensure!(tier_of(&after) == tier_of(&before), "{:?} and {:?}", tier_of(&after), tier_of(&before));
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tainted_entries_are_tolerated_and_a_users_own_deletion_cost_stays() {
    in_namespace(lab().await, "taint", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 1)]).await?;
        scene.lab.add_node(&scene.node("spot", 0).taint("spot", "true", "NoSchedule")).await?;
        let mut rule = scene.rule(&[("default", 1), ("spot", 1)]);
        rule["spec"]["distribution"][1]["tolerations"] = json!([{"key": "spot", "operator": "Exists"}]);
        scene.apply(&rule).await?;
        let mut deployment = scene.deployment(4);
        deployment["spec"]["template"]["metadata"]["annotations"] =
            json!({"controller.kubernetes.io/pod-deletion-cost": "7"});
        scene.apply(&deployment).await?;
        let pods = scene.await_pods(4, "app:1").await?;
        for pod in &pods {
            let annotations = &pod["metadata"]["annotations"];
            anyhow::ensure!(
                annotations["controller.kubernetes.io/pod-deletion-cost"] == "7",
                "{annotations}"
            );
            anyhow::ensure!(annotations["mutated-by"] == "spread-webhook-service", "{annotations}");
            let spot = pod["spec"]["nodeSelector"]["tier"] == "spot";
            let tolerates = pod["spec"]["tolerations"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one["key"] == "spot"));
            anyhow::ensure!(spot == tolerates, "{pod}");
        }
        Ok(())
    })
    .await;
}
