//! The demo: every feature on the examples, on a real API server, readable on a terminal.
//!
//! Each scene shows something and checks it. A check that does not hold fails the demo, so that CI can run it too.

mod architecture;
mod distribution;
mod peer_pods;
mod rollout;
mod sizing;
mod stage;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use self::stage::Stage;
use crate::{Lab, LabOptions, Progress, progress, registry::LocalRegistry};

/// VMs on every node, more on the spot nodes: enough for all scenes.
const CONFIG: &str = "peerPods:\n  capacity:\n    default: 10\n    nodes:\n    - selector: {matchLabels: {type: spot}}\n      vms: 20\n";

/// How long anything may take that should happen soon.
const SOON: Duration = Duration::from_secs(30);

/// Starts a lab, plays every scene and gives the lab back with its registry, for whoever wants to look around in it.
pub async fn play() -> Result<(Lab, LocalRegistry)> {
    let registry = architecture::registry().await?;
    let config = format!("{CONFIG}{}", architecture::config(&registry));
    let options = LabOptions { config: Some(config), progress: Progress::Steps, ..LabOptions::default() };
    let lab = Lab::start(options).await?;
    let started = Instant::now();
    let stage = Stage::new(&lab)?;
    let played = scenes(&stage).await;
    stage.curtain(played, progress::seconds(started.elapsed())).await?;
    Ok((lab, registry))
}

async fn scenes(stage: &Stage<'_>) -> Result<()> {
    architecture::play(stage).await?;
    distribution::play(stage).await?;
    sizing::play(stage).await?;
    peer_pods::play(stage).await?;
    rollout::play(stage).await
}

/// Tells how to look around.
pub fn invite(lab: &Lab) -> Result<()> {
    let kubeconfig = lab.kubeconfig();
    let path = kubeconfig.to_str().context("the lab's directory has an odd name")?;
    println!("\nThe cluster stays up until Ctrl-C. To look around:\n\n    export KUBECONFIG={path}");
    println!("    kubectl get nodes,pods --all-namespaces");
    Ok(())
}

impl Stage<'_> {
    /// Ends the demo: with a line that says how it went, or with what went wrong and the state of the cluster.
    async fn curtain(&self, played: Result<()>, took: String) -> Result<()> {
        let failed = self.failed();
        match played {
            Ok(()) if failed.is_empty() => {
                println!("\n{} checks passed, 0 failed; played in {took}", self.passed());
                Ok(())
            }
            Ok(()) => bail!(
                "{} checks failed: {}\n{}",
                failed.len(),
                failed.join("; "),
                self.lab.dump("default").await
            ),
            Err(error) => bail!("a scene broke off: {error:#}\n{}", self.lab.dump("default").await),
        }
    }
}

/// A value as a person reads it.
fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(fields)) => fields
            .iter()
            .map(|(key, value)| format!("{key}={}", shown(Some(value))))
            .collect::<Vec<_>>()
            .join(" "),
        Some(other) => other.to_string(),
    }
}
