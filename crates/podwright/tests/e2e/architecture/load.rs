//! A burst of pods, with nothing known beforehand.

use std::{collections::BTreeMap, time::Instant};

use futures::{StreamExt, stream};
use podwright_lab::registry::image;
use serde_json::json;

use super::ground::{Scene, architectures, ground, pod, scene};

const IMAGES: usize = 50;
const PODS: usize = 500;

#[tokio::test]
async fn five_hundred_pods_of_fifty_images_fetch_each_image_once_and_none_is_lost() {
    scene(ground().await, "burst", |scene| async move {
        let registry = &scene.ground.registries.open;
        let mut images = Vec::new();
        for index in 0..IMAGES {
            let platform = ["linux/arm64", "linux/amd64"][index % 2];
            let made = image(&format!("{}/i{index}", scene.namespace)).tag("1").platforms([platform]);
            images.push(made.push(registry).await?.by_tag());
        }
        let pushed = fetches(&scene)?;
        let begun = Instant::now();
        let created = stream::iter(0..PODS)
            .map(|index| {
                let mut made = pod(&format!("p{index}"), &[&images[index % IMAGES]]);
                made["spec"]["schedulerName"] = json!("nobody");
                let scene = &scene;
                async move { (index, scene.create(&made).await) }
            })
            .buffer_unordered(100)
            .collect::<Vec<_>>()
            .await;
        println!("{PODS} pods of {IMAGES} images, cold: {:?}", begun.elapsed());
        for (index, answer) in created {
            let answer = answer?;
            let expected = ["arm64", "amd64"][index % IMAGES % 2];
            assert_eq!(architectures(&answer.object), [expected], "pod {index}: {answer:?}");
            assert_eq!(answer.warnings, Vec::<String>::new());
        }
        let metrics = crate::peer_pods::metrics(scene.ground.lab.replica(0)?.ports().metrics).await?;
        for name in [
            "registry_lookups_total{result=\"fetched\"}",
            "registry_requests_total{kind=\"manifest\",result=\"success\"}",
        ] {
            assert!(metrics.contains(name), "{name} is not in\n{metrics}");
        }
        assert!(!metrics.contains(&scene.namespace), "a name has become a label:\n{metrics}");
        for (repository, count) in fetches(&scene)? {
            let before = pushed.get(&repository).copied().unwrap_or_default();
            assert_eq!(count - before, 1, "{repository} was fetched more than once");
        }
        Ok(())
    })
    .await;
}

/// By repository of this test: how often its tag's manifest was fetched, by the registry's own log.
fn fetches(scene: &Scene<'_>) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for line in scene.ground.registries.open.logged()? {
        let ours =
            line.path.contains(&format!("/v2/{}/", scene.namespace)) && line.path.contains("/manifests/");
        if ours && line.method == "GET" {
            let repository = line.path.split("/manifests/").next().unwrap_or_default().to_owned();
            *counts.entry(repository).or_default() += 1;
        }
    }
    anyhow::ensure!(
        counts.is_empty() || counts.len() == IMAGES,
        "{} of {IMAGES} images were fetched",
        counts.len()
    );
    Ok(counts)
}
