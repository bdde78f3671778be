//! How soon running pods follow their template, and the rest that comes after.

#[expect(dead_code, reason = "shared with the tests of e2e, which use all of it")]
#[path = "../e2e/sizing/scene.rs"]
mod scene;

use std::time::{Duration, Instant};

use podwright_lab::PODWRIGHT_NAME;
use serde_json::json;

use self::scene::{Scene, resources, scene};
use crate::{
    audit::Audit,
    labs::{plain, soon},
    quiet,
};

#[tokio::test]
async fn a_changed_template_resizes_fifty_running_pods_in_place_and_then_rests() {
    let _turn = quiet().await;
    scene("resize", |scene| async move {
        for index in 0..50 {
            scene.node(&index.to_string(), "4", "16Gi", Some("100Gi")).await?;
        }
        scene.apply(&scene.template()).await?;
        scene.apply(&scene.daemon_set()).await?;
        let before = scene.await_pods(50).await?;
        let started = Instant::now();
        scene.patch_template(json!({"cpuPercentage": 20})).await?;
        soon(|| async {
            let pods = scene.pods().await?;
            let done = pods.values().filter(|pod| resources(pod)["limits"]["cpu"] == "800m").count();
            anyhow::ensure!(done == 50, "{done} of 50 pods are resized");
            Ok(())
        })
        .await?;
        let took = started.elapsed();
        println!("50 pods resized in {:.1} s", took.as_secs_f64());
        anyhow::ensure!(took < Duration::from_secs(10), "it took {took:?}");
        let after = scene.pods().await?;
        for (node, pod) in &before {
            assert_eq!(after[node]["metadata"]["uid"], pod["metadata"]["uid"]);
            assert_eq!(after[node]["status"]["containerStatuses"][0]["restartCount"], 0);
        }
        rests(&scene).await
    })
    .await;
}

/// No pod of the scene is written to by us while the lease is renewed three times.
async fn rests(scene: &Scene) -> anyhow::Result<()> {
    let audit = Audit::of_namespace(plain().await, &scene.name)?;
    let look = || anyhow::Ok((audit.renewals(PODWRIGHT_NAME)?, audit.writes()?.len()));
    // The annotation and the status follow the resize.
    let mut last = look()?;
    soon(|| {
        let settled = look().map(|now| {
            let settled = now.1 == last.1 && now.0 > last.0;
            if now.1 != last.1 {
                last = now;
            }
            settled
        });
        async move {
            anyhow::ensure!(settled?, "still writing");
            Ok(())
        }
    })
    .await?;
    let (leases, pods) = look()?;
    soon(|| async {
        anyhow::ensure!(look()?.0 >= leases + 3, "no three renewals yet");
        Ok(())
    })
    .await?;
    let writes = look()?.1 - pods;
    anyhow::ensure!(writes == 0, "{writes} writes at rest");
    Ok(())
}
