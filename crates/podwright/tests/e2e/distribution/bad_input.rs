//! Rules that cannot be meant.

use serde_json::{Value, json};

use super::{Scene, lab};
use crate::labs::{in_namespace, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_that_cannot_be_meant_are_refused_with_the_reason() {
    in_namespace(lab().await, "refused", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        let good = scene.rule(&[("default", 1), ("spot", 1)]);
        let with = |change: &dyn Fn(&mut Value)| {
            let mut rule = good.clone();
            change(&mut rule["spec"]);
            rule
        };
        for (rule, part) in [
            (with(&|spec| spec["distribution"] = json!([])), "name at least one entry"),
            (with(&|spec| spec["distribution"][0]["weight"] = json!(-1)), "must not be negative"),
            (
                with(&|spec| {
                    spec["distribution"][0]["weight"] = json!(0);
                    spec["distribution"][1]["weight"] = json!(0);
                }),
                "at least one weight must be above 0",
            ),
            (
                with(&|spec| {
                    spec["distribution"][1]["nodeLabel"] = spec["distribution"][0]["nodeLabel"].clone();
                }),
                "two entries have the same labels",
            ),
            (with(&|spec| spec["target"]["kind"] = json!("DaemonSet")), "nothing to spread"),
            (with(&|spec| spec["target"]["name"] = json!("")), "must name the workload"),
            (with(&|spec| spec["strategy"] = json!("Random")), "Unsupported value"),
            (
                with(&|spec| spec["distribution"][0]["tolerations"] = json!([{"effect": "NoSchedule"}])),
                "operator: Exists",
            ),
        ] {
            let error = scene.apply(&rule).await.err().map(|error| format!("{error:#}")).unwrap_or_default();
            anyhow::ensure!(error.contains(part), "{}: {error:?} does not say {part:?}", rule["spec"]);
        }
        scene.apply(&good).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_rules_for_one_target_the_older_wins_and_the_other_says_so() {
    in_namespace(lab().await, "shadow", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 1), ("spot", 1)]).await?;
        let mut older = scene.rule(&[("default", 1), ("spot", 1)]);
        older["metadata"]["name"] = json!("older");
        scene.apply(&older).await?;
        soon(|| async {
            let api: kube::Api<podwright_api::distributor::PodDistributor> =
                kube::Api::namespaced(scene.client.clone(), &scene.namespace);
            let created = api.get("older").await?.metadata.creation_timestamp.map(|time| time.0.as_second());
            anyhow::ensure!(created < Some(jiff::Timestamp::now().as_second()), "still the same second");
            Ok(())
        })
        .await?;
        scene.apply(&scene.rule(&[("default", 1), ("spot", 0)])).await?;
        soon(|| async {
            let status = scene.status().await?;
            let ready = &status["conditions"].as_array().cloned().unwrap_or_default();
            let said = ready.iter().any(|one| {
                one["type"] == "Ready"
                    && one["status"] == "False"
                    && one["message"].as_str().unwrap_or_default().contains("older")
            });
            anyhow::ensure!(said && status["status"] == "Shadowed", "{status}");
            Ok(())
        })
        .await?;
        scene.apply(&scene.deployment(4)).await?;
        scene.expect_ratio(4, "app:1", &[("default", 1), ("spot", 1)]).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_without_nodes_is_shown_and_its_pods_wait() {
    in_namespace(lab().await, "nonodes", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 1)]).await?;
        scene.apply(&scene.rule(&[("default", 1), ("spot", 1)])).await?;
        scene.apply(&scene.deployment(4)).await?;
        soon(|| async {
            let status = scene.status().await?;
            anyhow::ensure!(status["entries"][1]["state"] == "NoNodes", "{status}");
            anyhow::ensure!(status["status"] == "Unsatisfied" && status["actual"] == "2/2", "{status}");
            Ok(())
        })
        .await?;
        scene.await_event("EntryWithoutNodes", "tier=spot").await?;
        scene.nodes(&[("spot", 1)]).await?;
        scene.expect_ratio(4, "app:1", &[("default", 1), ("spot", 1)]).await
    })
    .await;
}
