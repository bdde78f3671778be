use anyhow::{Context, Result};
use podwright_lab::registry::{Access, LocalRegistry, image};
use serde_json::{Value, json};

/// A registry with an image for each container of the review.
pub(super) struct Images {
    registry: LocalRegistry,
    names: Vec<String>,
}

impl Images {
    pub(super) fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let registry = LocalRegistry::start(Access::Open).await?;
            let mut names = Vec::new();
            for index in 0..3 {
                let made = image(&format!("bench/app-{index}")).tag("1");
                let platforms = ["linux/arm64", "linux/s390x", "linux/amd64"];
                // The last is for arm64 alone, so that there is something to write.
                let made = made.platforms(platforms.into_iter().take(3 - index));
                names.push(made.push(&registry).await?.by_tag());
            }
            Ok(Self { registry, names })
        })
    }

    /// What lets the manager ask the registry.
    pub(super) fn settings(&self) -> String {
        let registries = json!({self.registry.address(): {"insecure": true}});
        format!("architecture: {{registries: {registries}}}")
    }

    /// The same review, of a pod with these images: opted out or not.
    pub(super) fn review(&self, review: &[u8], opted_out: bool) -> Result<Vec<u8>> {
        let mut review: Value = serde_json::from_slice(review)?;
        let pod = &mut review["request"]["object"];
        pod["spec"].as_object_mut().context("a review without a pod")?.remove("runtimeClassName");
        if opted_out {
            pod["metadata"]["labels"]["podwright.io/architecture"] = json!("off");
        }
        let containers = pod["spec"]["containers"].as_array_mut().context("a review without containers")?;
        for (container, name) in containers.iter_mut().zip(&self.names) {
            container["image"] = json!(name);
            container["imagePullPolicy"] = json!("IfNotPresent");
        }
        Ok(serde_json::to_vec(&review)?)
    }
}
