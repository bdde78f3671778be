//! What a person sees: the demo of the ExtendedDaemonSet project up to its canary, columns, events, metrics.

use k8s_openapi::api::core::v1::PodTemplate;
use kube::Api;
use podwright_api::eds::{Condition, find_condition, words};
use serde_json::{Value, json};

use super::scene::{Scene, alone, scene};
use crate::labs::soon;

impl Scene<'_> {
    /// `kubectl get`: head and rows.
    async fn table(&self, plural: &str) -> anyhow::Result<Vec<Vec<String>>> {
        let path = format!("/apis/datadoghq.com/v1alpha1/namespaces/{}/{plural}", self.name);
        let request =
            http::Request::get(path).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        let table: Value = self.client.request(request.body(Vec::new())?).await?;
        let shown = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let columns = table["columnDefinitions"].as_array().into_iter().flatten();
        let mut rows = vec![columns.map(|column| shown(&column["name"]).to_uppercase()).collect()];
        for row in table["rows"].as_array().into_iter().flatten() {
            rows.push(row["cells"].as_array().into_iter().flatten().map(shown).collect());
        }
        Ok(rows)
    }

    async fn page(&self, path: &str) -> anyhow::Result<String> {
        use http_body_util::BodyExt;
        let port = self.lab.replica(0)?.ports().metrics;
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = http::Request::get(path).header("host", "localhost").body(String::new())?;
        let body = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
        Ok(String::from_utf8(body.to_vec())?)
    }
}

#[tokio::test]
async fn the_demo_shows_the_columns_that_users_know() {
    scene("columns", |scene| async move {
        scene.nodes(3).await?;
        let mut wanted: Value =
            serde_saphyr::from_str(include_str!("../../../../../examples/rollout/foo-v1.yaml"))?;
        wanted["spec"]["template"]["spec"]["nodeSelector"] = json!({"scene": scene.name});
        scene.apply(&wanted).await?;
        let status = scene.await_done("foo", 3).await?;
        let active = status.active_replica_set;
        anyhow::ensure!(active.len() == "foo-8z7lr".len() && active.starts_with("foo-"), "{active}");
        let sets = scene.table("extendeddaemonsets").await?;
        let head = [
            "NAME",
            "DESIRED",
            "CURRENT",
            "READY",
            "UP-TO-DATE",
            "AVAILABLE",
            "IGNORED UNRESPONSIVE NODES",
            "STATUS",
            "REASON",
            "ACTIVE RS",
            "CANARY RS",
            "AGE",
        ];
        anyhow::ensure!(sets[0] == head, "{:?}", sets[0]);
        anyhow::ensure!(
            sets[1][..11] == ["foo", "3", "3", "3", "3", "3", "0", "Running", "", &active, ""],
            "{:?}",
            sets[1]
        );
        let replica_sets = scene.table("extendeddaemonsetreplicasets").await?;
        let head = [
            "NAME",
            "STATUS",
            "DESIRED",
            "CURRENT",
            "READY",
            "AVAILABLE",
            "IGNORED UNRESPONSIVE NODES",
            "NODE SELECTOR",
            "AGE",
        ];
        anyhow::ensure!(replica_sets[0] == head, "{:?}", replica_sets[0]);
        anyhow::ensure!(
            replica_sets[1][..8] == [&active, "active", "3", "3", "3", "3", "0", ""],
            "{:?}",
            replica_sets[1]
        );
        for table in [sets, replica_sets] {
            for row in table {
                println!("{}", row.join(" | "));
            }
        }
        for pod in scene.serving().await?.values() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            anyhow::ensure!(name.starts_with(&format!("{active}-")), "{name}");
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn everything_that_is_made_says_whose_it_is() {
    scene("owned", |scene| async move {
        scene.nodes(1).await?;
        let mut wanted = scene.foo("3.0");
        wanted["metadata"]["labels"] = json!({"team": "x"});
        scene.apply(&wanted).await?;
        let pods = scene.await_version("3.0", 1).await?;
        let status = scene.await_done("foo", 1).await?;
        let set = scene.sets().get("foo").await?;
        let replica_set = serde_json::to_value(scene.replica_sets().get(&status.active_replica_set).await?)?;
        let owner = &replica_set["metadata"]["ownerReferences"][0];
        anyhow::ensure!(owner["uid"] == json!(set.metadata.uid) && owner["controller"] == true, "{owner}");
        anyhow::ensure!(
            owner["blockOwnerDeletion"] == true && owner["kind"] == "ExtendedDaemonSet",
            "{owner}"
        );
        let hash = replica_set["spec"]["templateGeneration"].as_str().unwrap_or_default();
        anyhow::ensure!(hash.len() == 32, "{hash}");
        let key = "extendeddaemonset.datadoghq.com/templatehash";
        anyhow::ensure!(replica_set["metadata"]["annotations"][key] == hash, "{replica_set}");
        anyhow::ensure!(replica_set["metadata"]["labels"]["team"] == "x", "{replica_set}");
        let pod = &pods["0"];
        let owner = &pod["metadata"]["ownerReferences"][0];
        anyhow::ensure!(
            owner["uid"] == replica_set["metadata"]["uid"] && owner["controller"] == true,
            "{owner}"
        );
        anyhow::ensure!(pod["metadata"]["annotations"][key] == hash, "{pod}");
        anyhow::ensure!(pod["metadata"]["labels"]["extendeddaemonset.datadoghq.com/name"] == "foo", "{pod}");
        let templates: Api<PodTemplate> = Api::namespaced(scene.client.clone(), &scene.name);
        let template = soon(|| async { Ok(serde_json::to_value(templates.get("foo").await?)?) }).await?;
        anyhow::ensure!(template["metadata"]["annotations"][key] == hash, "{template}");
        anyhow::ensure!(
            template["metadata"]["labels"]["cluster-autoscaler.kubernetes.io/daemonset-pod"] == "true",
            "{template}"
        );
        scene.await_event("Create ExtendedDaemonSetReplicaSet", &format!("{}/foo", scene.name)).await?;
        scene.await_event("Create PodTemplate", &format!("{}/foo", scene.name)).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn tools_that_wait_on_any_object_understand_the_status() {
    scene("kstatus", |scene| async move {
        scene.nodes(2).await?;
        scene.apply(&scene.foo("3.0")).await?;
        scene.await_done("foo", 2).await?;
        soon(|| async {
            let set = scene.sets().get("foo").await?;
            let status = set.status.unwrap_or_default();
            anyhow::ensure!(
                status.observed_generation == set.metadata.generation,
                "{:?}",
                status.observed_generation
            );
            let holds = |kind: &str| find_condition(&status.conditions, kind).is_some_and(Condition::is_true);
            let (ready, reconciling) = (holds(words::condition::READY), holds(words::condition::RECONCILING));
            anyhow::ensure!(
                ready && !reconciling && !holds(words::condition::STALLED),
                "{:?}",
                status.conditions
            );
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn both_pages_of_metrics_tell_of_each_object_by_its_name() {
    scene("metrics", |scene| async move {
        scene.nodes(2).await?;
        let mut wanted = scene.foo("3.0");
        wanted["metadata"]["labels"] = json!({"app.kubernetes.io/name": "agent"});
        scene.apply(&wanted).await?;
        let active = scene.await_done("foo", 2).await?.active_replica_set;
        let namespace = &scene.name;
        soon(|| async {
            let page = scene.page("/ksmetrics").await?;
            for line in [
                format!("eds_status_desired{{namespace=\"{namespace}\",name=\"foo\"}} 2"),
                format!("eds_status_uptodate{{namespace=\"{namespace}\",name=\"foo\"}} 2"),
                format!(
                    "eds_labels{{namespace=\"{namespace}\",name=\"foo\",app_kubernetes_io_name=\"agent\"}} 1"
                ),
                format!(
                    "eds_status_canary_activated{{namespace=\"{namespace}\",name=\"foo\",replicaset=\"\"}} 0"
                ),
                format!(
                    "ers_status_current{{namespace=\"{namespace}\",name=\"{active}\",status=\"active\"}} 2"
                ),
                "eds_controller_leader{leader=\"true\"} 1".to_owned(),
            ] {
                anyhow::ensure!(page.lines().any(|found| found == line), "{line} is missing in\n{page}");
            }
            let page = scene.page("/metrics").await?;
            for line in [
                format!("ers_rolling_update_stuck{{name=\"{active}\",namespace=\"{namespace}\"}} 0"),
                "eds_controller_leader{leader=\"true\"} 1".to_owned(),
            ] {
                anyhow::ensure!(page.lines().any(|found| found == line), "{line} is missing in\n{page}");
            }
            for name in ["podwright_rollout_pods_created_total", "podwright_rollout_duration_seconds_count"] {
                let value = page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
                anyhow::ensure!(value.is_some_and(|value| value >= 1.0), "{name} in\n{page}");
            }
            Ok(())
        })
        .await?;
        // As the Go controller's manifests probe it.
        let health = alone().await.replica(0)?.ports().health;
        for path in ["/healthz", "/healthz/", "/healthz/goroutines-number", "/readyz"] {
            let answer = reach(health, path).await?;
            anyhow::ensure!(answer.contains(" 200 "), "{path}: {answer}");
        }
        Ok(())
    })
    .await;
}

async fn reach(port: u16, path: &str) -> anyhow::Result<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn a_field_that_no_type_of_ours_knows_reaches_the_pods_template() {
    scene("newer", |scene| async move {
        scene.nodes(1).await?;
        let mut wanted = scene.foo("3.0");
        wanted["spec"]["template"]["spec"]["someFutureField"] = json!({"a": [1, 2]});
        scene.apply(&wanted).await?;
        scene.await_version("3.0", 1).await?;
        let active = scene.await_done("foo", 1).await?.active_replica_set;
        let replica_set = scene.replica_sets().get(&active).await?;
        let kept = &replica_set.spec.template.0["spec"]["someFutureField"];
        anyhow::ensure!(*kept == json!({"a": [1, 2]}), "{kept}");
        Ok(())
    })
    .await;
}
