//! Faults as a kubelet shows them, and how soon a canary is judged by them.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use podwright_api::eds::{ExtendedDaemonSet, ExtendedDaemonSetStatus, find_condition, words};
use serde_json::{Value, json};

use super::scene::{scene, uid_of, version_of};
use crate::{labs::soon, quiet, record::Record};

/// How soon after a pod shows what is wrong the status must say so.
const PROMPT: Duration = Duration::from_secs(3);

/// When the first pod of this version showed it.
async fn signal(
    pods: &Record<Pod>,
    version: &str,
    shows: impl Fn(&Value) -> bool,
) -> anyhow::Result<Instant> {
    let look = |pod: &Pod| {
        let pod = serde_json::to_value(pod).ok()?;
        (version_of(&pod) == version && shows(&pod)).then_some(())
    };
    Ok(pods.first(&format!("a pod of {version} that shows it"), look).await?.0)
}

/// The first status that told of a pause, and when it did.
async fn pause(sets: &Record<ExtendedDaemonSet>) -> anyhow::Result<(Instant, ExtendedDaemonSetStatus)> {
    let paused = |set: &ExtendedDaemonSet| {
        set.status.clone().filter(|status| status.state == words::state::CANARY_PAUSED)
    };
    sets.first("paused", paused).await
}

/// A canary with this fault pauses for this reason, promptly.
async fn pauses(
    prefix: &str,
    fault: &str,
    strategy: Value,
    reason: &str,
    sick: impl Fn(&Value) -> bool,
    // How long a pod may show it.
    patience: Duration,
) {
    let _turn = quiet().await;
    scene(prefix, |scene| async move {
        scene.nodes(3).await?;
        let mut canary = json!({"replicas": 1, "duration": "10m"});
        canary["autoPause"] = strategy;
        scene.apply(&scene.canary("3.0", canary.clone())).await?;
        let before = scene.await_version("3.0", 3).await?;
        let mut broken = scene.canary("3.1", canary);
        broken["spec"]["template"]["metadata"]["annotations"] = json!({"lab.podwright.io/fault": fault});
        let (pods, sets) = (Record::begin(scene.pods_api()).await?, Record::begin(scene.sets()).await?);
        scene.apply(&broken).await?;
        let shown = signal(&pods, "3.1", sick).await? + patience;
        let (paused, status) = pause(&sets).await?;
        let took = paused.saturating_duration_since(shown);
        println!("{fault}: paused {:.1} s after the signal: {}", took.as_secs_f64(), status.reason);
        anyhow::ensure!(status.reason == reason, "{}", status.reason);
        anyhow::ensure!(took < PROMPT, "it took {took:?}");
        let paused = find_condition(&status.conditions, words::condition::CANARY_PAUSED);
        anyhow::ensure!(paused.is_some_and(|one| one.is_true() && one.reason == reason), "{paused:?}");
        let now = scene.serving().await?;
        let kept = now.iter().filter(|(node, pod)| uid_of(pod) == uid_of(&before[*node])).count();
        anyhow::ensure!(kept == 2, "{kept} pods go on serving");
        Ok(())
    })
    .await;
}

fn waits_for(pod: &Value, reason: &str) -> bool {
    pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
}

#[tokio::test]
async fn an_image_that_cannot_be_pulled_pauses_the_canary() {
    let shows = |pod: &Value| waits_for(pod, "ErrImagePull");
    pauses("pull", "image-pull", json!({"maxRestarts": 2}), "ErrImagePull", shows, Duration::ZERO).await;
}

#[tokio::test]
async fn a_container_that_cannot_be_configured_pauses_the_canary() {
    let shows = |pod: &Value| waits_for(pod, "CreateContainerConfigError");
    pauses(
        "config",
        "config-error",
        json!({"maxRestarts": 2}),
        "CreateContainerConfigError",
        shows,
        Duration::ZERO,
    )
    .await;
}

#[tokio::test]
async fn a_pod_that_takes_too_long_to_start_pauses_the_canary() {
    let strategy = json!({"maxSlowStartDuration": "2s"});
    let shows = |pod: &Value| pod["status"]["startTime"].is_string();
    pauses("slow", "slow-start", strategy, "SlowStartTimeoutExceeded", shows, Duration::from_secs(2)).await;
}

#[tokio::test]
async fn a_crash_loop_pauses_the_canary_then_fails_it_and_the_template_is_restored() {
    let _turn = quiet().await;
    scene("crash", |scene| async move {
        scene.nodes(3).await?;
        let canary = json!({
            "replicas": 1, "duration": "10m", "autoPause": {"maxRestarts": 1}, "autoFail": {"maxRestarts": 2},
        });
        scene.apply(&scene.canary("3.0", canary.clone())).await?;
        scene.await_version("3.0", 3).await?;
        let good = scene.sets().get("foo").await?.spec.template;
        let active = scene.status().await?.active_replica_set;
        let mut broken = scene.canary("3.1", canary);
        broken["spec"]["template"]["metadata"]["annotations"] =
            json!({"lab.podwright.io/fault": "crashloop"});
        let (pods, sets) = (Record::begin(scene.pods_api()).await?, Record::begin(scene.sets()).await?);
        scene.apply(&broken).await?;
        let restarted = |more_than: i64| {
            move |pod: &Value| {
                pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(0) > more_than
            }
        };
        let shown = signal(&pods, "3.1", restarted(1)).await?;
        let (at, paused) = pause(&sets).await?;
        let took = at.saturating_duration_since(shown);
        anyhow::ensure!(paused.reason == "Error" && took < PROMPT, "{} {took:?}", paused.reason);
        let shown = signal(&pods, "3.1", restarted(2)).await?;
        soon(|| async {
            let set = scene.sets().get("foo").await?;
            anyhow::ensure!(set.spec.template == good, "not restored yet");
            Ok(())
        })
        .await?;
        println!("failed and restored {:.1} s after the signal", shown.elapsed().as_secs_f64());
        anyhow::ensure!(shown.elapsed() < PROMPT, "it took {:?}", shown.elapsed());
        scene.await_version("3.0", 3).await?;
        let status = scene.await_status(|status| status.state == words::state::RUNNING).await?;
        anyhow::ensure!(status.active_replica_set == active && status.canary.is_none(), "{status:?}");
        let failed = find_condition(&status.conditions, words::condition::CANARY_FAILED);
        anyhow::ensure!(failed.is_some(), "{:?}", status.conditions);
        Ok(())
    })
    .await;
}
