//! Whose pods are spread.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use podwright_lab::NodeShape;
use serde_json::json;

use super::{Scene, lab};
use crate::labs::{in_namespace, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stateful_sets_replica_sets_jobs_and_bare_pods_are_spread_when_a_rule_names_them() {
    in_namespace(lab().await, "kinds", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        let weights = [("default", 3), ("spot", 1)];
        scene.nodes(&[("default", 1), ("spot", 1)]).await?;
        let template = |app: &str| {
            json!({"metadata": {"labels": {"app": app}}, "spec": {
                "nodeSelector": {"scene": scene.namespace}, "containers": [{"name": "app", "image": "app:1"}]}})
        };
        for (name, target) in [
            ("sts", json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"})),
            ("rs", json!({"kind": "ReplicaSet", "name": "plain"})),
            ("job", json!({"apiVersion": "batch/v1", "kind": "Job", "name": "sums"})),
            ("bare", json!({"name": "alone"})),
        ] {
            let mut rule = scene.rule(&weights);
            rule["metadata"]["name"] = json!(name);
            rule["spec"]["target"] = target;
            scene.apply(&rule).await?;
        }
        scene.await_rule_of(&json!({"app": "alone"})).await?;
        scene.apply(&json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
            "replicas": 8, "podManagementPolicy": "Parallel", "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}}, "template": template("db")}})).await?;
        scene.apply(&json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "plain"}, "spec": {
            "replicas": 8, "selector": {"matchLabels": {"app": "plain"}}, "template": template("plain")}})).await?;
        let mut job = template("sums");
        job["spec"]["restartPolicy"] = json!("Never");
        // A pod that has completed counts no more: all of them are to be there at once, however long that takes.
        job["metadata"]["annotations"] = json!({"lab.podwright.io/fault": "never-ready"});
        for name in ["sums", "strangers"] {
            scene.apply(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {
                "completions": 8, "parallelism": 8, "template": job}})).await?;
        }
        for index in 0..8 {
            let pod = json!({"metadata": {"name": format!("alone-{index}"), "labels": {"app": "alone"}},
                             "spec": template("alone")["spec"]});
            scene.pods_api().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        }
        for (selector, tally) in [
            ("app=db", Some((6, 2))),
            ("app=plain", Some((6, 2))),
            ("batch.kubernetes.io/job-name=sums", Some((6, 2))),
            ("app=alone", Some((6, 2))),
            ("batch.kubernetes.io/job-name=strangers", None),
        ] {
            let pods = soon(|| async {
                let pods = scene.pods_api().list(&ListParams::default().labels(selector)).await?.items;
                anyhow::ensure!(pods.len() == 8, "{selector}: {} pods", pods.len());
                pods.into_iter().map(|pod| Ok(serde_json::to_value(pod)?)).collect::<anyhow::Result<Vec<_>>>()
            })
            .await?;
            let found = Scene::tally(&pods);
            let found = found.get("default").copied().zip(found.get("spot").copied());
            anyhow::ensure!(found == tally, "{selector}: {found:?}");
        }
        // A StatefulSet's pod comes back to where it was.
        let tier_of = |pod: &Pod| {
            pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref()?.get("tier").cloned())
        };
        let before = scene.pods_api().get("db-2").await?;
        scene.pods_api().delete("db-2", &kube::api::DeleteParams::default()).await?;
        soon(|| async {
            let after = scene.pods_api().get("db-2").await?;
            anyhow::ensure!(after.metadata.uid != before.metadata.uid, "not yet made anew");
            anyhow::ensure!(tier_of(&after) == tier_of(&before), "{:?} and {:?}", tier_of(&after), tier_of(&before));
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tainted_entries_are_tolerated_and_a_users_own_deletion_cost_stays() {
    in_namespace(lab().await, "taint", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 1)]).await?;
        scene.lab.add_node(&scene.node("spot", 0).taint("spot", "true", "NoSchedule")).await?;
        let mut rule = scene.rule(&[("default", 1), ("spot", 1)]);
        rule["spec"]["distribution"][1]["tolerations"] = json!([{"key": "spot", "operator": "Exists"}]);
        scene.apply(&rule).await?;
        let mut deployment = scene.deployment(4);
        deployment["spec"]["template"]["metadata"]["annotations"] =
            json!({"controller.kubernetes.io/pod-deletion-cost": "7"});
        scene.apply(&deployment).await?;
        let pods = scene.await_pods(4, "app:1").await?;
        for pod in &pods {
            let annotations = &pod["metadata"]["annotations"];
            anyhow::ensure!(
                annotations["controller.kubernetes.io/pod-deletion-cost"] == "7",
                "{annotations}"
            );
            anyhow::ensure!(annotations["mutated-by"] == "spread-webhook-service", "{annotations}");
            let spot = pod["spec"]["nodeSelector"]["tier"] == "spot";
            let tolerates = pod["spec"]["tolerations"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one["key"] == "spot"));
            anyhow::ensure!(spot == tolerates, "{pod}");
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_s_rule_and_deployment_give_80_and_20_percent_when_applied_together() {
    in_namespace(lab().await, "example", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        // The example names the lab's own kinds of nodes, of which this lab has too few.
        scene.lab.add_node(&NodeShape::new(scene.node_name("x", 0)).label("type", "default")).await?;
        scene.lab.add_node(&NodeShape::new(scene.node_name("x", 1)).label("type", "spot")).await?;
        for manifest in [
            include_str!("../../../../../examples/distribution/poddistributor.yaml"),
            include_str!("../../../../../examples/distribution/deployment.yaml"),
        ] {
            scene.lab.apply(&scene.namespace, manifest).await?;
        }
        soon(|| async {
            let pods = scene.pods().await?;
            let of =
                |kind: &str| pods.iter().filter(|pod| pod["spec"]["nodeSelector"]["type"] == kind).count();
            anyhow::ensure!(
                (pods.len(), of("default"), of("spot")) == (20, 16, 4),
                "{} {}",
                of("default"),
                of("spot")
            );
            Ok(())
        })
        .await?;
        scene
            .lab
            .apply(&scene.namespace, include_str!("../../../../../examples/distribution/spill.yaml"))
            .await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preferred_pods_run_elsewhere_where_their_entry_has_no_node() {
    in_namespace(lab().await, "prefer", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 1)]).await?;
        let mut rule = scene.rule(&[("default", 1), ("spot", 1)]);
        rule["spec"]["mode"] = json!("Preferred");
        rule["spec"]["strategy"] = json!("FirstFit");
        scene.apply(&rule).await?;
        scene.await_rule().await?;
        scene.apply(&scene.deployment(6)).await?;
        let pods = scene.await_pods(6, "app:1").await?;
        let preferring = |tier: &str| {
            let term = |pod: &&serde_json::Value| {
                let terms = &pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
                terms[0]["preference"]["matchExpressions"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(|one| one["values"][0] == tier))
            };
            pods.iter().filter(term).count()
        };
        // Pods count where they run, so as long as none runs on spot nodes it is these that new ones prefer.
        let (default, spot) = (preferring("default"), preferring("spot"));
        anyhow::ensure!(default >= 1 && spot >= 3 && default + spot == 6, "{default} and {spot}");
        anyhow::ensure!(pods.iter().all(|pod| pod["spec"]["nodeSelector"]["tier"].is_null()), "a preference is no selector");
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_whose_own_selector_contradicts_the_rule_is_left_alone_with_a_warning() {
    in_namespace(lab().await, "contra", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 1), ("spot", 1)]).await?;
        let mut rule = scene.rule(&[("default", 1), ("spot", 1)]);
        rule["spec"]["target"] = json!({"name": "own"});
        scene.apply(&rule).await?;
        scene.await_rule_of(&json!({"app": "own"})).await?;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own", "labels": {"app": "own"}},
            "spec": {"nodeSelector": {"tier": "spot"}, "containers": [{"name": "a", "image": "a:1"}]}});
        let path = <Pod as kube::Resource>::url_path(&(), Some(&scene.namespace));
        let request = kube::core::Request::new(path).create(&PostParams::default(), pod.to_string().into_bytes())?;
        let response = scene.client.send(request.map(kube::client::Body::from)).await?;
        let told = format!("{:?}", response.headers().get_all("warning").iter().collect::<Vec<_>>());
        anyhow::ensure!(told.contains("distribution: left alone") && told.contains("tier=spot"), "{told}");
        let made = serde_json::to_value(scene.pods_api().get("own").await?)?;
        anyhow::ensure!(made["metadata"]["annotations"]["mutated-by"].is_null(), "{made}");
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relabelled_nodes_are_picked_up_and_metrics_show_desired_and_actual() {
    in_namespace(lab().await, "relabel", async |client, namespace| {
        let scene = Scene::new(lab().await, client, namespace);
        scene.nodes(&[("default", 1), ("spot", 1)]).await?;
        scene.apply(&scene.rule(&[("default", 1), ("spot", 1)])).await?;
        scene.await_rule().await?;
        scene.apply(&scene.deployment(4)).await?;
        scene.expect_ratio(4, "app:1", &[("default", 1), ("spot", 1)]).await?;
        soon(|| async {
            let mut pages = String::new();
            for index in 0..scene.lab.replicas() {
                pages += &scrape(scene.lab.replica(index)?.ports().metrics).await?;
            }
            for (metric, entry) in [("desired_pods", "spot"), ("actual_pods", "default")] {
                let name = format!("podwright_distribution_{metric}{{namespace=\"{}\"", scene.namespace);
                let line = pages
                    .lines()
                    .find(|line| line.starts_with(&name) && line.contains(&format!("tier={entry}")));
                anyhow::ensure!(
                    line.is_some_and(|line| line.ends_with(" 2")),
                    "{metric} of {entry}: {line:?}"
                );
            }
            Ok(())
        })
        .await?;
        let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(scene.client.clone());
        let other = kube::api::Patch::Merge(json!({"metadata": {"labels": {"tier": "default"}}}));
        nodes.patch(&scene.node_name("spot", 0), &kube::api::PatchParams::default(), &other).await?;
        soon(|| async {
            let status = scene.status().await?;
            anyhow::ensure!(
                status["actual"] == "4/0" && status["entries"][1]["state"] == "NoNodes",
                "{status}"
            );
            Ok(())
        })
        .await
    })
    .await;
}

async fn scrape(port: u16) -> anyhow::Result<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nhost: localhost\r\n\r\n").await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    Ok(page)
}
