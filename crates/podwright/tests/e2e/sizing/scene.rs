//! One test's template, DaemonSet and nodes, all named after its namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use podwright_api::{flex::FlexDaemonsetTemplate, keys};
use podwright_lab::NodeShape;
use serde_json::{Value, json};

use crate::labs::{await_event, in_namespace, plain, soon};

pub(super) const TEMPLATE: &str = include_str!("../../../../../examples/sizing/template.yaml");
pub(super) const DAEMON_SET: &str = include_str!("../../../../../examples/sizing/daemonset.yaml");

pub(crate) struct Scene {
    pub(crate) client: Client,
    /// The namespace.
    pub(crate) name: String,
}

impl Scene {
    pub(crate) fn template(&self) -> Value {
        let mut template: Value = serde_saphyr::from_str(TEMPLATE).unwrap();
        template["metadata"]["name"] = json!(self.name);
        template
    }

    /// The example's DaemonSet, kept to this test's nodes.
    pub(crate) fn daemon_set(&self) -> Value {
        let mut daemon_set: Value = serde_saphyr::from_str(DAEMON_SET).unwrap();
        daemon_set["metadata"]["annotations"][keys::RESOURCE_TEMPLATE] = json!(self.name);
        daemon_set["spec"]["template"]["spec"]["nodeSelector"] = json!({"scene": self.name});
        daemon_set
    }

    pub(crate) async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        plain().await.apply(&self.name, &object.to_string()).await
    }

    pub(crate) fn shape(&self, suffix: &str) -> NodeShape {
        NodeShape::new(format!("{}-{suffix}", self.name)).label("scene", &self.name)
    }

    pub(crate) async fn node(
        &self,
        suffix: &str,
        cpu: &str,
        memory: &str,
        storage: Option<&str>,
    ) -> anyhow::Result<()> {
        plain().await.add_node(&self.shape(suffix).cpu(cpu).memory(memory).storage(storage)).await
    }

    pub(crate) fn pods_api(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Running pods by the suffix of their node.
    pub(crate) async fn pods(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        let pods = self.pods_api().list(&ListParams::default().fields("status.phase=Running")).await?;
        pods.items
            .into_iter()
            .map(|pod| {
                let pod = serde_json::to_value(pod)?;
                let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
                Ok((node.strip_prefix(&format!("{}-", self.name)).unwrap_or(&node).to_owned(), pod))
            })
            .collect()
    }

    pub(crate) async fn await_pods(&self, count: usize) -> anyhow::Result<BTreeMap<String, Value>> {
        soon(|| async {
            let pods = self.pods().await?;
            anyhow::ensure!(pods.len() == count, "{} of {count} pods run", pods.len());
            Ok(pods)
        })
        .await
    }

    pub(crate) async fn patch_template(&self, spec: Value) -> anyhow::Result<()> {
        let api: Api<FlexDaemonsetTemplate> = Api::all(self.client.clone());
        api.patch(&self.name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
        Ok(())
    }

    pub(crate) async fn status(&self) -> anyhow::Result<Value> {
        let api: Api<FlexDaemonsetTemplate> = Api::all(self.client.clone());
        Ok(serde_json::to_value(api.get(&self.name).await?.status)?)
    }

    /// Waits until the pod on a node has so much cpu.
    pub(crate) async fn await_cpu(&self, node: &str, cpu: &str) -> anyhow::Result<()> {
        soon(|| async {
            let pods = self.pods().await?;
            let given = pods.get(node).map(|pod| resources(pod)["limits"]["cpu"].clone());
            anyhow::ensure!(given == Some(json!(cpu)), "{given:?} instead of {cpu}");
            Ok(())
        })
        .await
    }

    pub(crate) async fn await_event(&self, reason: &str, part: &str) -> anyhow::Result<()> {
        await_event(&self.client, &self.name, reason, part).await
    }
}

pub(crate) fn resources(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["resources"]
}

pub(crate) fn equal(cpu: &str, memory: &str, storage: Option<&str>) -> Value {
    let mut amounts = json!({"cpu": cpu, "memory": memory});
    if let Some(storage) = storage {
        amounts["ephemeral-storage"] = json!(storage);
    }
    json!({"requests": amounts, "limits": amounts})
}

pub(crate) async fn scene<F: Future<Output = anyhow::Result<()>>>(
    prefix: &str,
    body: impl FnOnce(Scene) -> F,
) {
    in_namespace(plain().await, prefix, |client, name| body(Scene { client, name })).await;
}
