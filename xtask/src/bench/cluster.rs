use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use podwright_lab::{Lab, LabOptions, Layout, eventually, nodes};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// The template that the DaemonSet asks for: neither the first nor the last.
const TEMPLATE: usize = 7;

/// A large cluster: real objects in a real API server.
pub(super) struct Cluster {
    lab: Lab,
}

impl Cluster {
    pub(super) fn start(node_count: usize, templates: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let lab = Lab::start(LabOptions { nodes: 0, podwright: false, ..LabOptions::default() }).await?;
            lab.apply("default", include_str!("../../../deploy/crds/flexdaemonsettemplates.yaml")).await?;
            let client = lab.client()?;
            nodes::create_rotation(&client, node_count).await?;
            // The API server takes a moment to serve a new kind.
            let templates = first(templates);
            eventually(Duration::from_secs(30), || lab.apply("default", &templates)).await?;
            let mut daemon_set: Value = json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "bench"},
                "spec": {"selector": {"matchLabels": {"app": "bench"}}, "template": {
                    "metadata": {"labels": {"app": "bench"}},
                    "spec": {"nodeSelector": {"no": "where"}, "containers": [{"name": "a", "image": "x"}]},
                }},
            });
            daemon_set["metadata"]["annotations"] =
                json!({"flexdaemonsets.xai/resource-template": format!("template-{TEMPLATE}")});
            lab.apply("default", &daemon_set.to_string()).await?;
            Ok(Self { lab })
        })
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.lab.kubeconfig()
    }

    /// Stops every process of the control plane where it is.
    pub(super) fn freeze(&self) -> Result<()> {
        let state = std::fs::read_to_string(Layout::new(self.lab.dir())?.state())?;
        let state: Value = serde_json::from_str(&state)?;
        for process in state["processes"].as_array().context("the lab has no processes")? {
            let pid = process["pid"].as_i64().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
            kill_process(pid.context("a process without a pid")?, Signal::STOP)?;
        }
        Ok(())
    }
}

/// So many templates that differ in their figures.
fn first(templates: usize) -> String {
    let template = |index: usize| {
        let spec = json!({
            "cpuPercentage": index % 100 + 1, "memoryPercentage": 15, "storagePercentage": 5, "minCPU": "100m", "minMemory": "128Mi",
        });
        json!({
            "apiVersion": "flexdaemonsets.xai/v1alpha1", "kind": "FlexDaemonsetTemplate",
            "metadata": {"name": format!("template-{index}")}, "spec": spec,
        })
        .to_string()
    };
    (0..templates.max(TEMPLATE + 1)).map(template).collect::<Vec<_>>().join("\n---\n")
}

/// The same review, of a pod that the DaemonSet controller makes for a node in the middle.
pub(super) fn daemon_set_review(review: &[u8], nodes: usize) -> Result<Vec<u8>> {
    let mut review: Value = serde_json::from_slice(review)?;
    let pod = &mut review["request"]["object"];
    pod["spec"].as_object_mut().context("a review without a pod")?.remove("runtimeClassName");
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "bench", "uid": "u", "controller": true, "blockOwnerDeletion": true,
    }]);
    let name = nodes::NodeShape::in_rotation(nodes / 2).node().metadata.name;
    pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}],
    }}});
    Ok(serde_json::to_vec(&review)?)
}
