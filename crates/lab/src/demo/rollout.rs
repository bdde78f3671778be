//! Rollout: a daemon on every node, a new version tried on one of them, then everywhere; and one that fails and is taken back.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use kube::{
    Api,
    api::{DynamicObject, GroupVersionKind, Patch, PatchParams},
    core::ApiResource,
};
use serde_json::{Value, json};

use super::{SOON, shown, stage::Stage};
use crate::{eventually, progress};

const V1: &str = include_str!("../../../../examples/rollout/foo-v1.yaml");
const V2: &str = include_str!("../../../../examples/rollout/foo-v2.yaml");

/// One ExtendedDaemonSet on the stage.
struct Play<'s, 'l> {
    stage: &'s Stage<'l>,
    namespace: String,
    sets: Api<DynamicObject>,
    replica_sets: Api<DynamicObject>,
}

pub(super) async fn play(stage: &Stage<'_>) -> Result<()> {
    stage.title("Rollout: a new version of a daemon is tried on one node first");
    let namespace = stage.lab.namespace("rollout").await?;
    let api = |kind: &str| {
        let kind = GroupVersionKind::gvk("datadoghq.com", "v1alpha1", kind);
        Api::namespaced_with(stage.client.clone(), &namespace, &ApiResource::from_gvk(&kind))
    };
    let (sets, replica_sets) = (api("ExtendedDaemonSet"), api("ExtendedDaemonSetReplicaSet"));
    let play = Play { stage, namespace, sets, replica_sets };
    play.first_pods().await?;
    play.canary().await?;
    play.failure().await
}

impl Play<'_, '_> {
    async fn first_pods(&self) -> Result<()> {
        self.stage.command("kubectl apply -f examples/rollout/foo-v1.yaml");
        self.stage.lab.apply(&self.namespace, V1).await?;
        let status = self.await_status(|status| done(status, 10)).await?;
        self.show().await?;
        self.stage.check("every node has its pod, of one replica set", status["state"] == "Running");
        Ok(())
    }

    async fn canary(&self) -> Result<()> {
        self.stage.command("kubectl apply -f examples/rollout/foo-v2.yaml");
        self.stage.lab.apply(&self.namespace, V2).await?;
        let started = Instant::now();
        let status = self
            .await_status(|status| status["state"] == "Canary" && status["upToDate"] == 1 && done(status, 10))
            .await?;
        self.show().await?;
        let nodes = status["canary"]["nodes"].as_array().map_or(0, Vec::len);
        self.stage.check("one node runs the new version, the others the old one", nodes == 1);
        let canary = shown(status.pointer("/canary/replicaSet"));
        let key = "extendeddaemonset.datadoghq.com/canary-valid";
        self.stage.say("Its five minutes are not waited for here: it is found to be good.");
        self.stage.command("kubectl patch eds foo --type merge -p '{\"spec\":{\"strategy\":{\"rollingUpdate\":{\"maxUnavailable\":3}}}}'");
        self.stage.command(&format!("kubectl annotate eds foo {key}={canary}"));
        self.patch(json!({
            "metadata": {"annotations": {key: canary}}, "spec": {"strategy": {"rollingUpdate": {"maxUnavailable": 3}}},
        }))
        .await?;
        self.await_status(|status| {
            status["activeReplicaSet"] == canary.as_str() && done(status, 10) && status["upToDate"] == 10
        })
        .await?;
        self.show().await?;
        let took = progress::seconds(started.elapsed());
        self.stage.check(
            &format!("the new version is everywhere, at most 3 nodes bare at a time, {took} after it came"),
            true,
        );
        Ok(())
    }

    async fn failure(&self) -> Result<()> {
        let before = self.set().await?;
        let good = before.pointer("/spec/template").cloned().context("no template")?;
        self.stage.say("A third version ends as soon as it has started, again and again.");
        self.stage.command("kubectl patch eds foo --type merge -p '{\"spec\":{\"template\":… pause:3.2, lab.podwright.io/fault: crashloop …}}'");
        self.patch(json!({"spec": {"template": {
            "metadata": {"annotations": {"lab.podwright.io/fault": "crashloop"}},
            "spec": {"containers": [{"name": "daemon", "image": "registry.k8s.io/pause:3.2"}]},
        }}}))
        .await?;
        let paused = self.await_status(|status| status["state"] == "Canary Paused").await?;
        self.show().await?;
        let reason = shown(paused.get("reason"));
        self.stage.check(&format!("the canary paused by itself: {reason}"), !reason.is_empty());
        let active = shown(paused.get("activeReplicaSet"));
        eventually(SOON, || async {
            let set = self.set().await?;
            let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
            ensure!(set.pointer("/spec/template") == Some(&good), "the template is not restored yet");
            ensure!(done(&set["status"], 10) && set["status"]["state"] == "Running", "{}", set["status"]);
            ensure!(
                conditions.iter().any(|one| one["type"] == "Canary-Failed"),
                "no condition says that it failed"
            );
            Ok(())
        })
        .await?;
        self.show().await?;
        let now = shown(self.set().await?.pointer("/status/activeReplicaSet"));
        self.stage
            .check("it failed, the spec has the good template again, and every node runs it", now == active);
        Ok(())
    }

    async fn set(&self) -> Result<Value> {
        Ok(serde_json::to_value(self.sets.get("foo").await?)?)
    }

    async fn patch(&self, change: Value) -> Result<()> {
        self.sets.patch("foo", &PatchParams::default(), &Patch::Merge(change)).await?;
        Ok(())
    }

    async fn await_status(&self, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        eventually(SOON, || async {
            let status = self.set().await?["status"].clone();
            ensure!(holds(&status), "{status}");
            Ok(status)
        })
        .await
    }

    /// `kubectl get eds` and `kubectl get ers`, in their columns.
    async fn show(&self) -> Result<()> {
        self.stage.command("kubectl get eds,ers");
        let row = |object: &Value, columns: &[&str]| -> Vec<String> {
            columns.iter().map(|path| shown(object.pointer(path))).collect()
        };
        let columns = [
            "/metadata/name",
            "/status/desired",
            "/status/current",
            "/status/ready",
            "/status/upToDate",
            "/status/available",
            "/status/state",
            "/status/reason",
            "/status/activeReplicaSet",
            "/status/canary/replicaSet",
        ];
        let head = [
            "NAME",
            "DESIRED",
            "CURRENT",
            "READY",
            "UP-TO-DATE",
            "AVAILABLE",
            "STATUS",
            "REASON",
            "ACTIVE RS",
            "CANARY RS",
        ];
        self.stage.table(&[head.map(str::to_owned).to_vec(), row(&self.set().await?, &columns)]);
        let columns = [
            "/metadata/name",
            "/status/status",
            "/status/desired",
            "/status/current",
            "/status/ready",
            "/status/available",
        ];
        let head = ["NAME", "STATUS", "DESIRED", "CURRENT", "READY", "AVAILABLE"];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for replica_set in self.replica_sets.list(&kube::api::ListParams::default()).await? {
            table.push(row(&serde_json::to_value(replica_set)?, &columns));
        }
        println!();
        self.stage.table(&table);
        Ok(())
    }
}

/// Whether so many nodes should have a pod, and have one that is available.
fn done(status: &Value, count: i64) -> bool {
    ["desired", "current", "ready", "available"].iter().all(|field| status[field] == count)
}
