//! New templates reach all nodes, within the budget, and then there is rest.

use std::time::{Duration, Instant};

use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use podwright_api::eds::{Condition, ExtendedDaemonSet, find_condition, words};
use serde_json::json;

use super::scene::{Scene, scene, scene_in, uid_of};
use crate::{
    audit::{Audit, Write},
    labs::{soon, start_with},
    record::Record,
};

#[tokio::test]
async fn every_node_gets_one_pod_and_a_new_template_replaces_them_within_the_budget() {
    scene("roll", |scene| async move {
        scene.nodes(9).await?;
        scene.budget(2);
        let mut wanted = scene.foo("3.0");
        wanted["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = json!(2);
        scene.apply(&wanted).await?;
        let first = scene.await_version("3.0", 9).await?;
        let before = scene.await_done("foo", 9).await?;

        wanted["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.k8s.io/pause:3.1");
        scene.apply(&wanted).await?;
        let second = scene.await_version("3.1", 9).await?;
        anyhow::ensure!(first.iter().all(|(node, pod)| uid_of(pod) != uid_of(&second[node])), "none is left");
        let after = soon(|| async {
            let status = scene.await_done("foo", 9).await?;
            anyhow::ensure!(
                status.active_replica_set != before.active_replica_set,
                "{}",
                status.active_replica_set
            );
            Ok(status)
        })
        .await?;
        anyhow::ensure!(after.state == words::state::RUNNING, "{}", after.state);
        // The old replica set goes once it has no pods.
        soon(|| async {
            let roles = scene.roles().await?;
            anyhow::ensure!(roles.len() == 1 && roles[&after.active_replica_set] == "active", "{roles:?}");
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn at_rest_nothing_is_written() {
    scene("rest", |scene| async move {
        scene.nodes(3).await?;
        scene.apply(&scene.foo("3.0")).await?;
        scene.await_version("3.0", 3).await?;
        scene.await_done("foo", 3).await?;
        scene.settled().await?;
        let before = scene.writes()?;
        // Heartbeats of nodes, renewals of leases, and time: none of them is a reason to write.
        scene.patch_node("0", json!({"metadata": {"annotations": {"somebody": "else"}}})).await?;
        scene.await_renewals(10).await?;
        let after = scene.writes()?;
        anyhow::ensure!(before == after, "{before:?} became {after:?}");
        Ok(())
    })
    .await;
}

/// Seconds from the first to the last of these writes.
fn lasted(writes: &[Write]) -> f64 {
    let times = || writes.iter().map(|write| write.at);
    times().max().zip(times().min()).map_or(0.0, |(last, first)| last.duration_since(first).as_secs_f64())
}

/// How often statuses may have been stored meanwhile: twice a second while only figures change, and at once when there is more to
/// say, which in a rollout without incidents is that it begins, that it is under way, and that it is done.
fn times(writes: &[Write]) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
    let paced = (lasted(writes) * 2.0) as usize + 1;
    paced + 3
}

#[tokio::test]
async fn a_replaced_pod_costs_two_writes_and_little_more() {
    scene("cost", |scene| async move {
        scene.nodes(20).await?;
        scene.budget(5);
        let mut wanted = scene.foo("3.0");
        wanted["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = json!("25%");
        scene.apply(&wanted).await?;
        scene.await_version("3.0", 20).await?;
        scene.settled().await?;
        let rollout = Audit::of_namespace(scene.lab, &scene.name)?;
        wanted["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.k8s.io/pause:3.1");
        scene.apply(&wanted).await?;
        scene.await_version("3.1", 20).await?;
        scene.settled().await?;
        let writes = rollout.writes()?;
        println!("{} writes for 20 pods in {:.1} s", writes.len(), lasted(&writes));
        let of = |deed: &str| writes.iter().filter(|write| write.deed == deed).count();
        anyhow::ensure!((of("create pods"), of("delete pods")) == (20, 20), "{writes:?}");
        let is_status = |write: &&Write| write.deed.ends_with("/status");
        let statuses: Vec<Write> = writes.iter().filter(is_status).cloned().collect();
        // Each time that of the set and those of the old and the new replica set.
        let allowed = 3 * times(&statuses);
        anyhow::ensure!(
            statuses.len() <= allowed,
            "{} statuses, {allowed} allowed: {writes:?}",
            statuses.len()
        );
        // The new replica set comes, the old one goes, and the template for autoscalers follows.
        let others = writes.len() - statuses.len() - 40;
        anyhow::ensure!(others <= 3, "{writes:?}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn nodes_that_come_and_go_are_followed_at_once() {
    scene("nodes", |scene| async move {
        scene.nodes(2).await?;
        scene.apply(&scene.foo("3.0")).await?;
        scene.await_version("3.0", 2).await?;
        let started = Instant::now();
        scene.node(scene.shape("late")).await?;
        scene.await_version("3.0", 3).await?;
        println!("a new node had its pod after {:.1} s", started.elapsed().as_secs_f64());
        scene.lenient(true);
        scene.remove_node("1").await?;
        // Its pod is on its way; with no kubelet to see it off, the pod garbage collector will.
        soon(|| async {
            let serving: Vec<String> = scene.serving().await?.into_keys().collect();
            anyhow::ensure!(serving == ["0", "late"], "{serving:?}");
            Ok(())
        })
        .await?;
        scene.await_done("foo", 2).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn two_sets_of_one_name_in_two_namespaces_leave_each_other_alone() {
    scene("twin", |here| async move {
        here.nodes(2).await?;
        let there = here.lab.namespace("twin").await?;
        here.apply(&here.foo("3.0")).await?;
        let mut other = here.foo("3.1");
        other["metadata"]["namespace"] = json!(there);
        here.apply(&other).await?;
        let pods = here.await_version("3.0", 2).await?;
        let audit = Audit::of_namespace(here.lab, &there)?;
        let (client, bounds) = (here.client.clone(), here.bounds.clone());
        let twin = Scene { lab: here.lab, client, name: there, bounds, audit };
        soon(|| async {
            let count = twin.pods().await?.iter().filter(|pod| super::scene::is_serving(pod)).count();
            anyhow::ensure!(count == 2, "{count} of 2 pods");
            Ok(())
        })
        .await?;
        here.await_done("foo", 2).await?;
        twin.await_done("foo", 2).await?;
        let after = here.await_version("3.0", 2).await?;
        anyhow::ensure!(
            pods.iter().all(|(node, pod)| uid_of(pod) == uid_of(&after[node])),
            "a twin killed a pod"
        );
        anyhow::ensure!(
            here.roles().await?.len() == 1 && twin.roles().await?.len() == 1,
            "one replica set each"
        );
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_quick_change_of_mind_leaves_one_replica_set_a_template() {
    scene("mind", |scene| async move {
        scene.nodes(4).await?;
        scene.budget(4);
        let mut wanted = scene.foo("3.0");
        wanted["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = json!(4);
        scene.apply(&wanted).await?;
        scene.await_version("3.0", 4).await?;
        let first = scene.status().await?.active_replica_set;
        for version in ["3.1", "3.2", "3.0", "3.1", "3.0"] {
            wanted["spec"]["template"]["spec"]["containers"][0]["image"] =
                json!(format!("registry.k8s.io/pause:{version}"));
            scene.apply(&wanted).await?;
        }
        scene.await_version("3.0", 4).await?;
        soon(|| async {
            let roles = scene.roles().await?;
            anyhow::ensure!(roles.len() == 1 && roles.contains_key(&first), "{roles:?}");
            Ok(())
        })
        .await?;
        scene.await_done("foo", 4).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_deleted_set_takes_everything_with_it() {
    scene("gone", |scene| async move {
        scene.nodes(2).await?;
        scene.apply(&scene.foo("3.0")).await?;
        scene.await_version("3.0", 2).await?;
        scene.lenient(true);
        scene.sets().delete("foo", &DeleteParams::foreground()).await?;
        soon(|| async {
            let (pods, sets) = (scene.pods().await?.len(), scene.roles().await?.len());
            anyhow::ensure!(
                pods == 0 && sets == 0 && scene.sets().get_opt("foo").await?.is_none(),
                "{pods} {sets}"
            );
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn a_pod_counts_as_available_only_after_min_ready_seconds() {
    scene("minready", |scene| async move {
        scene.nodes(2).await?;
        let mut wanted = scene.foo("3.0");
        wanted["spec"]["minReadySeconds"] = json!(5);
        let sets = Record::begin(scene.sets()).await?;
        scene.apply(&wanted).await?;
        let both_ready = |set: &ExtendedDaemonSet| set.status.clone().filter(|status| status.ready == 2);
        let (_, status) = sets.first("two pods ready", both_ready).await?;
        anyhow::ensure!(status.available < 2, "available at once: {status:?}");
        let status = scene.await_done("foo", 2).await?;
        let ready = find_condition(&status.conditions, words::condition::READY);
        anyhow::ensure!(ready.is_some_and(Condition::is_true), "{:?}", status.conditions);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_spec_that_makes_no_sense_is_refused_with_words() {
    scene("refused", |scene| async move {
        for (path, value, part) in [
            ("maxUnavailable", json!("abc"), "percentage"),
            ("maxUnavailable", json!("5"), "quotes"),
            ("slowStartIntervalDuration", json!("0s"), "slowStartIntervalDuration"),
        ] {
            let mut wanted = scene.foo("3.0");
            wanted["spec"]["strategy"]["rollingUpdate"][path] = value.clone();
            let error = scene.apply(&wanted).await.expect_err("it was taken");
            anyhow::ensure!(format!("{error:#}").contains(part), "{path}: {value}: {error:#}");
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_killed_leader_is_followed_by_another_in_the_middle_of_a_rollout() {
    let config = "leaderElection: {leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 300ms}\n";
    let lab = start_with(2, config, &["--features", "rollout"]).await;
    scene_in(&lab, "killed", |scene| async move {
        scene.nodes(12).await?;
        scene.budget(2);
        let mut wanted = scene.foo("3.0");
        wanted["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = json!(2);
        scene.apply(&wanted).await?;
        scene.await_version("3.0", 12).await?;
        for version in ["3.1", "3.2", "3.3"] {
            wanted["spec"]["template"]["spec"]["containers"][0]["image"] =
                json!(format!("registry.k8s.io/pause:{version}"));
            scene.apply(&wanted).await?;
            soon(|| async {
                let done = scene
                    .serving()
                    .await?
                    .values()
                    .filter(|pod| super::scene::version_of(pod) == version)
                    .count();
                anyhow::ensure!(done >= 3, "{done} so far");
                Ok(())
            })
            .await?;
            let leader = scene.leader().await?;
            scene.lab.replica(leader)?.kill().await?;
            scene.lab.replica(leader)?.start().await?;
            scene.await_version(version, 12).await?;
        }
        scene.await_done("foo", 12).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_change_of_the_selector_counts_without_a_new_template() {
    scene("selector", |scene| async move {
        scene.nodes(3).await?;
        scene.patch_node("0", json!({"metadata": {"labels": {"pool": "a"}}})).await?;
        scene.apply(&scene.foo("3.0")).await?;
        let before = scene.await_version("3.0", 3).await?;
        scene.lenient(true);
        scene.patch("foo", json!({"spec": {"selector": {"matchLabels": {"pool": "a"}}}})).await?;
        let after = scene.await_version("3.0", 1).await?;
        anyhow::ensure!(
            uid_of(&after["0"]) == uid_of(&before["0"]),
            "the pod on the node that stays was replaced"
        );
        scene.patch("foo", json!({"spec": {"selector": null}})).await?;
        scene.await_version("3.0", 3).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn only_watched_namespaces_are_looked_at() {
    let lab = start_with(1, "watchNamespaces: [default]\n", &["--features", "rollout"]).await;
    scene_in(&lab, "unwatched", |scene| async move {
        scene.nodes(1).await?;
        scene.apply(&scene.foo("3.0")).await?;
        let mut watched = scene.foo("3.0");
        watched["metadata"]["namespace"] = json!("default");
        scene.apply(&watched).await?;
        let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
            kube::Api::namespaced(scene.client.clone(), "default");
        soon(|| async {
            let count = pods.list(&ListParams::default()).await?.items.len();
            anyhow::ensure!(count == 1, "{count} pods in the watched namespace");
            Ok(())
        })
        .await?;
        anyhow::ensure!(
            scene.pods().await?.is_empty() && scene.roles().await?.is_empty(),
            "it is not looked at"
        );
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_users_read_modify_write_seldom_conflicts() {
    scene("edit", |scene| async move {
        scene.nodes(12).await?;
        scene.budget(3);
        let mut wanted = scene.foo("3.0");
        wanted["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = json!(3);
        scene.apply(&wanted).await?;
        scene.await_version("3.0", 12).await?;
        scene.settled().await?;
        let rollout = Audit::of_namespace(scene.lab, &scene.name)?;
        wanted["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.k8s.io/pause:3.1");
        scene.apply(&wanted).await?;
        let (mut tries, mut conflicts) = (0, 0);
        while scene.serving().await?.values().filter(|pod| super::scene::version_of(pod) == "3.1").count()
            < 12
            && tries < 60
        {
            let set = scene.sets().get("foo").await?;
            let change = json!({"metadata": {
                "resourceVersion": set.resource_version(), "annotations": {"try": tries.to_string()},
            }});
            // As long as a person's tool takes between reading and writing.
            tokio::time::sleep(Duration::from_millis(50)).await;
            tries += 1;
            match scene.sets().patch("foo", &PatchParams::default(), &Patch::Merge(change)).await {
                Err(kube::Error::Api(status)) if status.code == 409 => conflicts += 1,
                other => drop(other?),
            }
        }
        // A conflict needs a write of ours between somebody's reading and writing, and of these there are few.
        let writes = rollout.writes()?;
        let is_stored = |write: &&Write| write.deed.contains(" extendeddaemonsets") && write.code < 300;
        let stored: Vec<Write> = writes.iter().filter(is_stored).cloned().collect();
        println!("{conflicts} conflicts in {tries} tries, {} writes of ours", stored.len());
        anyhow::ensure!(tries > 5 && conflicts <= stored.len(), "{conflicts} conflicts in {tries} tries");
        let allowed = times(&stored);
        anyhow::ensure!(stored.len() <= allowed, "{} writes, {allowed} allowed: {stored:?}", stored.len());
        scene.await_version("3.1", 12).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn several_sets_are_rolled_out_side_by_side() {
    scene("several", |scene| async move {
        scene.nodes(4).await?;
        // Invariants are about one set on each node.
        scene.lenient(true);
        let names = ["a", "b", "c", "d", "e"];
        for name in names {
            scene.apply(&scene.set(name, "3.0")).await?;
        }
        for name in names {
            scene.await_done(name, 4).await?;
        }
        let started = Instant::now();
        for name in names {
            scene.apply(&scene.set(name, "3.1")).await?;
        }
        for name in names {
            soon(|| async {
                let pods = scene.pods().await?;
                let done = pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == name);
                let done = done
                    .filter(|pod| super::scene::is_serving(pod) && super::scene::version_of(pod) == "3.1")
                    .count();
                anyhow::ensure!(done == 4, "{name}: {done} of 4");
                Ok(())
            })
            .await?;
        }
        println!("five sets on four nodes, one after the other, in {:.1} s", started.elapsed().as_secs_f64());
        Ok(())
    })
    .await;
}
