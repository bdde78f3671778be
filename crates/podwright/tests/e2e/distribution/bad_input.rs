//! Rules that cannot be meant, or not all of them.

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use podwright_api::distributor::PodDistributor;
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

/// Waits until whatever is created now is younger than this rule.
async fn await_next_second(scene: &Scene<'_>, rule: &str) -> anyhow::Result<()> {
    let api: Api<PodDistributor> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let created = api.get(rule).await?.metadata.creation_timestamp.map(|time| time.0.as_second());
    soon(|| async {
        anyhow::ensure!(created < Some(jiff::Timestamp::now().as_second()), "still the same second");
        Ok(())
    })
    .await
}

/// Waits until a rule's condition Ready has this status and says this.
async fn await_ready(scene: &Scene<'_>, rule: &str, status: &str, part: &str) -> anyhow::Result<()> {
    let api: Api<PodDistributor> = Api::namespaced(scene.client.clone(), &scene.namespace);
    soon(|| async {
        let found = api.get(rule).await?.status.unwrap_or_default().conditions;
        let said = found
            .iter()
            .any(|one| one.type_ == "Ready" && one.status == status && one.message.contains(part));
        anyhow::ensure!(said, "{rule} does not say {part:?} with {status}: {found:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_rules_for_one_target_the_older_wins_and_the_other_says_so() {
    in_namespace(lab().await, "shadow", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 1), ("spot", 1)]).await?;
        let mut older = scene.rule(&[("default", 1), ("spot", 1)]);
        older["metadata"]["name"] = json!("older");
        scene.apply(&older).await?;
        await_next_second(&scene, "older").await?;
        scene.apply(&scene.rule(&[("default", 1), ("spot", 0)])).await?;
        await_ready(&scene, "web", "False", "PodDistributor older counts instead").await?;
        anyhow::ensure!(scene.status().await?["status"] == "Shadowed", "{}", scene.status().await?);
        scene.apply(&scene.deployment(4)).await?;
        scene.expect_ratio(4, "app:1", &[("default", 1), ("spot", 1)]).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_rules_for_a_deployment_and_for_its_replica_set_the_older_wins_and_the_other_says_so() {
    in_namespace(lab().await, "part", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 1), ("spot", 1)]).await?;
        scene.apply(&scene.deployment(2)).await?;
        scene.await_pods(2, "app:1").await?;
        let sets: Api<ReplicaSet> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let owner =
            sets.list(&ListParams::default()).await?.items.swap_remove(0).metadata.name.unwrap_or_default();
        // The first and the last are for the ReplicaSet, the one between for the Deployment.
        let rule = |name: &str, weights: &[(&str, i32)]| {
            let mut rule = scene.rule(weights);
            rule["metadata"]["name"] = json!(name);
            if name != "web" {
                rule["spec"]["target"] = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner});
            }
            rule
        };
        scene.apply(&rule("first", &[("default", 1), ("spot", 0)])).await?;
        await_next_second(&scene, "first").await?;
        scene.apply(&rule("web", &[("default", 0), ("spot", 1)])).await?;
        await_next_second(&scene, "web").await?;
        scene.apply(&rule("last", &[("default", 1), ("spot", 0)])).await?;
        await_ready(
            &scene,
            "first",
            "True",
            &format!("new pods of ReplicaSet {owner} are spread by this rule"),
        )
        .await?;
        await_ready(&scene, "web", "True", &format!("those of ReplicaSet {owner} by PodDistributor first"))
            .await?;
        await_ready(&scene, "last", "False", "PodDistributor first counts instead").await?;
        scene.patch_deployment(json!({"replicas": 4})).await?;
        let await_sent = async |tier: &str, count: usize| {
            soon(|| async {
                let pods = scene.await_pods(count, "app:1").await?;
                let sent = pods.iter().filter(|pod| pod["spec"]["nodeSelector"]["tier"] == tier).count();
                anyhow::ensure!(sent == 2, "{sent} were sent to {tier}");
                Ok(())
            })
            .await
        };
        await_sent("default", 4).await?;
        let rules: Api<PodDistributor> = Api::namespaced(scene.client.clone(), &scene.namespace);
        rules.delete("first", &DeleteParams::default()).await?;
        let why = format!(
            "PodDistributor web counts instead: it is older and for Deployment web, to which ReplicaSet {owner}"
        );
        await_ready(&scene, "last", "False", &why).await?;
        scene.patch_deployment(json!({"replicas": 6})).await?;
        await_sent("spot", 6).await
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
