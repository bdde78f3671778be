//! Does the lab behave like a cluster?
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use podwright_lab::{Lab, LabOptions, NodeShape, eventually};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const SOON: Duration = Duration::from_secs(30);

/// One lab for all tests of this file. It dies with the process; the next run clears its directory.
async fn lab() -> &'static Lab {
    static LAB: OnceCell<Lab> = OnceCell::const_new();
    LAB.get_or_init(|| async {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lab");
        Lab::start(LabOptions { dir: Some(dir), podwright: false, ..LabOptions::default() }).await.unwrap()
    })
    .await
}

/// Waits for `check` in a namespace of its own, and shows the namespace when it does not come true.
async fn expect<T, F: Future<Output = Result<T>>>(lab: &Lab, namespace: &str, check: impl FnMut() -> F) -> T {
    match eventually(SOON, check).await {
        Ok(found) => found,
        Err(error) => panic!("{error:#}\n{}", lab.dump(namespace).await),
    }
}

fn pod_yaml(name: &str, fault: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, annotations: {{lab.podwright.io/fault: {fault}}}}}
spec:
  initContainers: [{{name: prepare, image: busybox}}]
  containers: [{{name: main, image: nginx}}]
"
    )
}

/// A pod with a fault, in a namespace of its own.
struct Patient {
    lab: &'static Lab,
    namespace: String,
    pods: Api<Pod>,
}

impl Patient {
    async fn with(fault: &str) -> Self {
        let lab = lab().await;
        let namespace = lab.namespace(fault).await.unwrap();
        lab.apply(&namespace, &pod_yaml("patient", fault)).await.unwrap();
        let pods = Api::namespaced(lab.client().unwrap(), &namespace);
        Self { lab, namespace, pods }
    }

    /// Waits until the pod and its container's status are as `check` wants them.
    async fn shows<T>(&self, check: impl Fn(&Pod, &ContainerStatus) -> Result<T>) -> T {
        expect(self.lab, &self.namespace, || async {
            let pod = self.pods.get("patient").await?;
            let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
            let main = statuses.and_then(|all| all.first()).context("no container status")?;
            check(&pod, main)
        })
        .await
    }

    async fn waits_for(&self, reason: &str) -> Pod {
        self.shows(|pod, main| {
            let waiting = main.state.as_ref().and_then(|state| state.waiting.as_ref());
            let actual = waiting.and_then(|waiting| waiting.reason.clone()).unwrap_or_default();
            ensure!(actual == reason, "waiting for {actual:?}, not {reason}");
            ensure!(phase(pod) == "Pending" && !is_ready(pod), "{} and {}", phase(pod), is_ready(pod));
            Ok(pod.clone())
        })
        .await
    }
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

fn start_time(pod: &Pod) -> String {
    pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0.to_string()).unwrap()
}

#[tokio::test]
async fn deployments_daemonsets_and_jobs_get_their_pods() {
    let lab = lab().await;
    let client = lab.client().unwrap();
    let namespace = lab.namespace("workloads").await.unwrap();
    let template = "{metadata: {labels: {app: x}}, spec: {containers: [{name: main, image: nginx}]}}";
    let yaml = format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec: {{replicas: 5, selector: {{matchLabels: {{app: x}}}}, template: {template}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: agent}}
spec: {{selector: {{matchLabels: {{app: x}}}}, template: {template}}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: once}}
spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: main, image: nginx}}]}}}}}}
"
    );
    lab.apply(&namespace, &yaml).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    let daemonsets: Api<DaemonSet> = Api::namespaced(client.clone(), &namespace);
    let jobs: Api<Job> = Api::namespaced(client, &namespace);
    expect(lab, &namespace, || async {
        let web = deployments.get("web").await?.status.and_then(|status| status.ready_replicas);
        let agent = daemonsets.get("agent").await?.status.unwrap_or_default();
        let once = jobs.get("once").await?.status.and_then(|status| status.succeeded);
        ensure!(web == Some(5), "{web:?} of the Deployment are ready");
        ensure!(agent.number_ready >= 10, "{} of the DaemonSet are ready", agent.number_ready);
        ensure!(agent.number_ready == agent.desired_number_scheduled, "the DaemonSet is not complete");
        ensure!(once == Some(1), "the Job is not complete");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_deleted_pod_is_gone_in_a_second_or_so() {
    let patient = Patient::with("slow-start").await;
    patient.waits_for("ContainerCreating").await;
    patient.pods.delete("patient", &DeleteParams::default()).await.unwrap();
    let gone = eventually(Duration::from_secs(5), || async {
        ensure!(patient.pods.get_opt("patient").await?.is_none(), "still there");
        Ok(())
    });
    gone.await.unwrap();
}

#[tokio::test]
async fn a_crashing_pod_restarts_again_and_again() {
    let patient = Patient::with("crashloop").await;
    let seen = |more_than: i32| {
        move |pod: &Pod, main: &ContainerStatus| {
            ensure!(main.restart_count > more_than, "{} restarts", main.restart_count);
            let waiting = main.state.as_ref().and_then(|state| state.waiting.as_ref());
            ensure!(waiting.and_then(|waiting| waiting.reason.as_deref()) == Some("CrashLoopBackOff"));
            let last = main.last_state.as_ref().and_then(|state| state.terminated.as_ref());
            let last = last.context("no last state")?.clone();
            ensure!(last.exit_code == 1 && last.reason.as_deref() == Some("Error"), "{last:?}");
            ensure!(phase(pod) == "Running" && !is_ready(pod), "{}", phase(pod));
            Ok((main.restart_count, start_time(pod), last.finished_at.map(|time| time.0)))
        }
    };
    let (restarts, started, first) = patient.shows(seen(0)).await;
    let (_, still, second) = patient.shows(seen(restarts)).await;
    assert_eq!(started, still, "startTime never moves");
    assert!(second > first, "{second:?} after {first:?}");
}

#[tokio::test]
async fn a_pod_whose_image_cannot_be_pulled_tries_and_backs_off_in_turn() {
    let patient = Patient::with("image-pull").await;
    let first = patient.waits_for("ErrImagePull").await;
    patient.waits_for("ImagePullBackOff").await;
    let again = patient.waits_for("ErrImagePull").await;
    assert_eq!(start_time(&first), start_time(&again));
}

#[tokio::test]
async fn a_pod_with_a_configuration_error_says_so() {
    Patient::with("config-error").await.waits_for("CreateContainerConfigError").await;
}

#[tokio::test]
async fn a_fault_that_the_lab_does_not_know_is_named_on_the_pod() {
    Patient::with("gremlins").await.waits_for("UnknownFault").await;
}

#[tokio::test]
async fn a_pod_that_is_never_ready_runs_and_recovers_without_its_annotation() {
    let patient = Patient::with("never-ready").await;
    let running = |ready: bool| {
        move |pod: &Pod, main: &ContainerStatus| {
            let runs = main.state.as_ref().is_some_and(|state| state.running.is_some());
            ensure!(runs && phase(pod) == "Running", "{}", phase(pod));
            ensure!(is_ready(pod) == ready && main.ready == ready, "ready: {}", main.ready);
            Ok(start_time(pod))
        }
    };
    let ill = patient.shows(running(false)).await;
    let cure = json!({ "metadata": { "annotations": { "lab.podwright.io/fault": null } } });
    patient.pods.patch("patient", &PatchParams::default(), &Patch::Merge(cure)).await.unwrap();
    assert_eq!(patient.shows(running(true)).await, ill, "startTime never moves");
}

#[tokio::test]
async fn an_evicted_pod_has_failed_with_that_reason() {
    let patient = Patient::with("evicted").await;
    patient
        .shows(|pod, _| {
            let reason = pod.status.as_ref().and_then(|status| status.reason.as_deref());
            ensure!(phase(pod) == "Failed" && reason == Some("Evicted"), "{} for {reason:?}", phase(pod));
            Ok(())
        })
        .await;
}

#[tokio::test]
async fn what_is_patched_onto_a_node_survives_its_kubelet() {
    let lab = lab().await;
    let shape = NodeShape::new("patched").cpu("2").storage(None).taint("lab", "test", "NoSchedule");
    lab.add_node(&shape).await.unwrap();
    let nodes: Api<Node> = Api::all(lab.client().unwrap());
    // Not ready any more, so that kwok has to write the status.
    let status = json!({ "status": {
        "capacity": { "kata.peerpods.io/vm": "5" },
        "conditions": [{ "type": "Ready", "status": "False" }],
    } });
    nodes.patch_status("patched", &PatchParams::default(), &Patch::Strategic(status)).await.unwrap();
    expect(lab, "default", || async {
        let status = nodes.get("patched").await?.status.unwrap_or_default();
        let ready =
            status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
        ensure!(ready, "not ready again");
        let capacity = serde_json::to_value(status.capacity)?;
        let wanted = json!({ "cpu": "2", "memory": "16Gi", "pods": "110", "kata.peerpods.io/vm": "5" });
        ensure!(capacity == wanted, "{capacity}");
        Ok(())
    })
    .await;
    nodes.delete("patched", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn writes_are_in_the_audit_log() {
    let lab = lab().await;
    let namespace = lab.namespace("audited").await.unwrap();
    let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: written}}";
    lab.apply(&namespace, yaml).await.unwrap();
    expect(lab, &namespace, || async {
        let log = std::fs::read_to_string(lab.log("audit"))?;
        let found = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).any(|event| {
            let object = &event["objectRef"];
            event["user"]["username"] == "admin"
                && object["name"] == "written"
                && object["namespace"] == namespace
        });
        ensure!(found, "the ConfigMap is not in the audit log");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_dump_shows_pods_nodes_and_logs() {
    let patient = Patient::with("config-error").await;
    patient.waits_for("CreateContainerConfigError").await;
    let dump = patient.lab.dump(&patient.namespace).await;
    for part in ["patient node=node-", "main=CreateContainerConfigError/0", " nodes, ", "kube-apiserver.log"]
    {
        assert!(dump.contains(part), "{part:?} is not in:\n{dump}");
    }
}

#[tokio::test]
async fn a_client_works_on_each_runtime() {
    let lab = lab().await;
    let on_another = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { version(&lab.client().unwrap()).await })
    });
    assert_eq!(version(&lab.client().unwrap()).await, podwright_lab::binaries::KUBERNETES_VERSION);
    assert_eq!(on_another.join().unwrap(), podwright_lab::binaries::KUBERNETES_VERSION);
}

async fn version(client: &Client) -> String {
    client.apiserver_version().await.unwrap().git_version
}
