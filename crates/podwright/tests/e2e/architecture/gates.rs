//! Pods that wait until it is known where they can run.

use std::{process::Command, time::Instant};

use kube::api::{Patch, PatchParams};
use podwright_api::keys;
use podwright_lab::registry::{Fault, image};
use serde_json::json;

use super::ground::{Ground, Scene, architectures, gated, is_held, pod, program, scene, tolerates_arm};
use crate::labs::soon;

/// An image behind a proxy that answers nobody, until it is healed.
async fn unreachable(scene: &Scene<'_>, proxy: usize, platforms: &[&str]) -> anyhow::Result<String> {
    let registries = &scene.ground.registries;
    let made = image(&format!("{}/app", scene.namespace)).tag("1").platforms(platforms.iter().copied());
    let pushed = made.push(&registries.open).await?;
    registries.proxies[proxy].fault("", Fault::Status(503, None));
    Ok(pushed.at(&registries.proxies[proxy].address()).by_tag())
}

#[tokio::test]
async fn a_pod_waits_for_its_registry_and_is_then_placed_whoever_leads() {
    // A lab of its own: nobody else's review should be lost.
    let ground = Ground::gated().await;
    scene(&ground, "waits", |scene| async move {
        let image = unreachable(&scene, 0, &["linux/arm64"]).await?;
        let answer = scene.create(&pod("app", &[&image])).await?;
        assert!(is_held(&answer.object), "{answer:?}");
        assert!(answer.warnings.join("\n").contains("waits"), "{answer:?}");
        let told = scene.await_event("app", "WaitingForPlatforms").await?;
        assert!(told.contains(&image), "{told}");

        // Whoever leads goes away without a word; another one takes over.
        let lab = &scene.ground.lab;
        let leader = leader(lab).await?;
        lab.replica(leader)?.kill().await?;
        scene.ground.registries.proxies[0].heal();
        assert_eq!(scene.lands_on("app").await?, "arm64");
        let placed = scene.get("app").await?;
        assert!(!is_held(&placed) && tolerates_arm(&placed), "{}", placed["spec"]);
        assert_eq!(architectures(&placed), ["arm64"]);
        assert!(placed["metadata"]["labels"][keys::ARCHITECTURE_STATE].is_null(), "{}", placed["metadata"]);
        scene.await_event("app", "PlatformsKnown").await?;
        lab.replica(leader)?.start().await?;
        lab.replica(leader)?.await_ready(crate::labs::SOON).await
    })
    .await;
}

/// The replica that holds the lease.
pub(super) async fn leader(lab: &podwright_lab::Lab) -> anyhow::Result<usize> {
    use k8s_openapi::api::coordination::v1::Lease;
    use podwright_lab::{PODWRIGHT_NAME, PODWRIGHT_NAMESPACE};
    soon(|| async {
        let leases: kube::Api<Lease> = kube::Api::namespaced(lab.client()?, PODWRIGHT_NAMESPACE);
        let holder =
            leases.get(PODWRIGHT_NAME).await?.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        for index in 0..lab.replicas() {
            if holder.ends_with(&format!("_{}", lab.replica(index)?.pid().await?)) {
                return Ok(index);
            }
        }
        anyhow::bail!("the lease is held by {holder:?}")
    })
    .await
}

#[tokio::test]
async fn a_pod_that_has_waited_too_long_goes_without() {
    scene(gated().await, "expires", |scene| async move {
        let image = unreachable(&scene, 1, &["linux/arm64"]).await?;
        let begun = Instant::now();
        assert!(is_held(&scene.create(&pod("app", &[&image])).await?.object));
        let freed = podwright_lab::eventually(crate::labs::SOON * 2, || async {
            let pod = scene.get("app").await?;
            anyhow::ensure!(!is_held(&pod), "it waits");
            Ok(pod)
        })
        .await?;
        assert!(begun.elapsed().as_secs() >= 15, "it came free after {:?}", begun.elapsed());
        assert!(architectures(&freed).is_empty(), "{}", freed["spec"]);
        let told = scene.await_event("app", "PlatformsUnknown").await?;
        assert!(told.contains("in vain"), "{told}");
        scene.lands_on("app").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn all_gates_can_be_taken_off_at_once() {
    scene(gated().await, "drain", |scene| async move {
        let image = unreachable(&scene, 2, &["linux/arm64"]).await?;
        let mut other = pod("other", &[&image]);
        other["spec"]["schedulingGates"] = json!([{"name": "example.com/mine"}]);
        assert!(is_held(&scene.create(&pod("app", &[&image])).await?.object));
        assert!(is_held(&scene.create(&other).await?.object));
        assert!(is_held(&scene.create(&pod("opted-out", &[&image])).await?.object));
        let off = json!({"metadata": {"labels": {keys::ARCHITECTURE: keys::OFF}}});
        scene.pods().patch("opted-out", &PatchParams::default(), &Patch::Merge(off)).await?;
        scene.lands_on("opted-out").await?;
        let ungate = |flags: &[&str]| {
            let kubeconfig = scene.ground.lab.kubeconfig();
            let mut command = Command::new(program());
            command
                .args(["ungate", "--kubeconfig"])
                .arg(kubeconfig)
                .args(["--namespace", &scene.namespace])
                .args(flags);
            let output = command.output()?;
            let text = String::from_utf8(output.stdout)?;
            anyhow::ensure!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
            anyhow::Ok(text)
        };
        let tried = ungate(&["--dry-run"])?;
        assert!(tried.contains(&format!("{}/app would come free", scene.namespace)), "{tried}");
        assert!(is_held(&scene.get("app").await?));
        let done = ungate(&[])?;
        assert_eq!(done.lines().count(), 2, "{done}");
        scene.lands_on("app").await?;
        let other = scene.get("other").await?;
        assert_eq!(other["spec"]["schedulingGates"], json!([{"name": "example.com/mine"}]));
        assert!(ungate(&[])?.contains("no pod has"));
        Ok(())
    })
    .await;
}
