//! The manager is killed at random moments of a canary, and another goes on: same end, within the budget, nobody bare for long.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use podwright_api::eds::words;
use serde_json::json;

use super::scene::{Scene, scene_in, version_of};
use crate::{
    labs::{soon, start_with},
    quiet, silence,
};

/// How often it is killed.
const TIMES: usize = 20;

#[tokio::test]
async fn a_manager_killed_at_any_moment_of_a_canary_changes_nothing_but_the_time_it_takes() {
    let config = "leaderElection: {leaseDuration: 2s, renewDeadline: 1500ms, retryPeriod: 200ms}\n";
    let lab = {
        let _alone = silence().await;
        start_with(2, config, &["--features", "rollout"]).await
    };
    let _turn = quiet().await;
    scene_in(&lab, "random", |scene| async move {
        scene.nodes(4).await?;
        // The lease runs out, another takes it, and a pod is replaced, on a busy machine.
        scene.bounds.bare_millis.store(10_000, Ordering::Release);
        for round in 0..TIMES {
            // Different moments in each round, the same in each run.
            let moment = Duration::from_millis(u64::try_from(round * 613 % 4000)?);
            one_round(&scene, round, moment).await?;
        }
        Ok(())
    })
    .await;
}

/// A canary, promoted on even rounds and failed on odd ones, with a kill somewhere on the way.
async fn one_round(scene: &Scene<'_>, round: usize, moment: Duration) -> anyhow::Result<()> {
    let fails = round % 2 == 1;
    let mut wanted = scene.foo(&format!("3.{round}"));
    wanted["spec"]["strategy"]["canary"] = json!({
        "replicas": 1, "duration": if fails { "10m" } else { "2s" }, "noRestartsDuration": "1s",
        "autoPause": {"enabled": false}, "autoFail": {"maxRestarts": 0},
    });
    if fails {
        wanted["spec"]["template"]["metadata"]["annotations"] =
            json!({"lab.podwright.io/fault": "crashloop"});
    }
    let before = scene.serving().await?.values().next().map(|pod| version_of(pod).to_owned());
    let started = Instant::now();
    scene.apply(&wanted).await?;
    tokio::time::sleep(moment).await;
    let leader = scene.leader().await?;
    scene.lab.replica(leader)?.kill().await?;
    scene.lab.replica(leader)?.start().await?;
    let expected = match before {
        // The first template of all has nothing to be tried against.
        Some(before) if fails => before,
        _ => format!("3.{round}"),
    };
    scene.await_version(&expected, 4).await?;
    let status = soon(|| async {
        let status = scene.status().await?;
        anyhow::ensure!(status.state == words::state::RUNNING && status.canary.is_none(), "{status:?}");
        Ok(status)
    })
    .await?;
    scene.await_done("foo", 4).await?;
    println!(
        "round {round}: killed after {moment:?}, {} after {:.1} s, {}",
        if fails { "failed and restored" } else { "promoted" },
        started.elapsed().as_secs_f64(),
        status.active_replica_set
    );
    Ok(())
}
