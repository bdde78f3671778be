//! Pods that fail, that are thrown out, that nobody schedules, and API servers that refuse.

use std::{cell::RefCell, collections::BTreeSet, time::Instant};

use kube::api::{Patch, PatchParams};
use podwright_api::eds::{find_condition, words};
use serde_json::json;

use super::scene::{is_serving, scene, uid_of};
use crate::labs::{await_quota, soon};

#[tokio::test]
async fn a_failed_pod_is_replaced_and_a_failing_one_less_and_less_often() {
    scene("failing", |scene| async move {
        scene.nodes(1).await?;
        scene.lenient(true);
        let mut wanted = scene.foo("3.0");
        wanted["spec"]["template"]["metadata"]["annotations"] = json!({"lab.podwright.io/fault": "evicted"});
        scene.apply(&wanted).await?;
        let (seen, started) = (RefCell::new(BTreeSet::new()), Instant::now());
        soon(|| async {
            let pods = scene.pods().await?;
            seen.borrow_mut().extend(pods.iter().map(|pod| uid_of(pod).to_owned()));
            anyhow::ensure!(seen.borrow().len() >= 2, "{} pods so far", seen.borrow().len());
            Ok(())
        })
        .await?;
        println!("replaced after {:.1} s", started.elapsed().as_secs_f64());
        // The second carries that one before it failed, so that a restart of ours forgets nothing.
        let counted = soon(|| async {
            let pods = scene.pods().await?;
            let counts = pods
                .iter()
                .filter_map(|pod| pod["metadata"]["annotations"]["podwright.io/failures"].as_str());
            counts.max().map(str::to_owned).ok_or_else(|| anyhow::anyhow!("no pod carries a count"))
        })
        .await?;
        anyhow::ensure!(counted.parse::<u32>()? >= 1, "{counted}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_template_that_never_gets_ready_stops_at_the_budget() {
    scene("unready", |scene| async move {
        scene.nodes(4).await?;
        let wanted = scene.foo("3.0");
        scene.apply(&wanted).await?;
        let before = scene.await_version("3.0", 4).await?;
        let mut broken = scene.foo("3.1");
        broken["spec"]["template"]["metadata"]["annotations"] =
            json!({"lab.podwright.io/fault": "never-ready"});
        scene.apply(&broken).await?;
        soon(|| async {
            let pods = scene.pods().await?;
            let broken = pods.iter().filter(|pod| !is_serving(pod)).count();
            anyhow::ensure!(pods.len() == 4 && broken == 1, "{} pods, {broken} not serving", pods.len());
            Ok(())
        })
        .await?;
        scene.settled().await?;
        let left = scene.serving().await?;
        anyhow::ensure!(
            left.len() == 3 && left.iter().all(|(node, pod)| uid_of(pod) == uid_of(&before[node])),
            "the rest"
        );
        // And mended, it goes on: the broken pod comes first and costs nothing.
        scene.apply(&scene.foo("3.2")).await?;
        scene.await_version("3.2", 4).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_nobody_schedules_gets_the_template_that_mends_it() {
    scene("toolarge", |scene| async move {
        scene.nodes(2).await?;
        let mut wanted = scene.foo("3.0");
        wanted["spec"]["template"]["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "1000"}});
        scene.apply(&wanted).await?;
        soon(|| async {
            let active = scene.status().await?.active_replica_set;
            anyhow::ensure!(!active.is_empty(), "no active replica set");
            let status = scene.replica_sets().get(&active).await?.status.unwrap_or_default();
            let condition = find_condition(&status.conditions, words::condition::UNSCHEDULE);
            anyhow::ensure!(
                condition.is_some_and(|one| one.message.contains(&scene.node_name("0"))),
                "{condition:?}"
            );
            Ok(())
        })
        .await?;
        scene.apply(&scene.foo("3.1")).await?;
        scene.await_version("3.1", 2).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn pods_that_the_api_server_refuses_are_told_of_and_come_once_it_takes_them() {
    scene("quota", |scene| async move {
        scene.nodes(2).await?;
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}},
        });
        scene.apply(&quota).await?;
        await_quota(&scene.client, &scene.name, false).await?;
        scene.apply(&scene.foo("3.0")).await?;
        soon(|| async {
            let status = scene.status().await?;
            let error = find_condition(&status.conditions, words::condition::RECONCILE_ERROR);
            anyhow::ensure!(error.is_some_and(|one| one.is_true() && one.message.contains("quota")), "{:?}", status.conditions);
            Ok(())
        })
        .await?;
        let writes = scene.writes()?.get("create pods").copied().unwrap_or(0);
        anyhow::ensure!(writes < 30, "{writes} attempts");
        let quotas: kube::Api<k8s_openapi::api::core::v1::ResourceQuota> =
            kube::Api::namespaced(scene.client.clone(), &scene.name);
        let more = json!({"spec": {"hard": {"pods": "10"}}});
        quotas.patch("none", &PatchParams::default(), &Patch::Merge(more)).await?;
        scene.await_version("3.0", 2).await?;
        scene.await_done("foo", 2).await?;
        soon(|| async {
            let status = scene.status().await?;
            let error = find_condition(&status.conditions, words::condition::RECONCILE_ERROR);
            anyhow::ensure!(error.is_none_or(|one| !one.is_true()), "{error:?}");
            Ok(())
        })
        .await
    })
    .await;
}
