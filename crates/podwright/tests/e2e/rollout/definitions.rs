//! What the API server itself refuses, and what it lets be.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use podwright_api::eds;
use serde_json::{Value, json};

use super::scene::{Scene, alone, scene};
use crate::labs::{in_namespace, soon};

impl Scene<'_> {
    /// What the API server says to an ExtendedDaemonSet with this strategy, without storing it.
    async fn answer(&self, strategy: Value) -> Result<(), String> {
        let mut wanted = self.foo("3.0");
        wanted["spec"]["strategy"] = strategy;
        let wanted = serde_json::from_value(wanted).map_err(|error| error.to_string())?;
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let raw: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.name, &resource("datadoghq.com"));
        raw.create(&dry, &wanted).await.map(|_| ()).map_err(|error| error.to_string())
    }
}

fn resource(group: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(group, "v1alpha1", "ExtendedDaemonSet"),
        "extendeddaemonsets",
    )
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_with_words_for_a_person() {
    scene("refused", |scene| async move {
        let update = |fields: Value| json!({"rollingUpdate": fields});
        let canary = |fields: Value| json!({"canary": fields});
        for (strategy, expected) in [
            (json!({}), None),
            (update(json!({"maxUnavailable": "10%", "slowStartIntervalDuration": "1.5m", "slowStartAdditiveIncrease": 5})), None),
            (update(json!({"maxUnavailable": 0})), None),
            (update(json!({"maxUnavailable": "abc"})), Some("must be a number such as 5, without quotes")),
            (update(json!({"maxUnavailable": "5"})), Some("without quotes")),
            (update(json!({"maxPodSchedulerFailure": -1})), Some("must be a number")),
            (update(json!({"slowStartAdditiveIncrease": "0%"})), Some("or no pod would ever be created")),
            (update(json!({"maxParallelPodCreation": 0})), Some("or no pod would ever be created")),
            (update(json!({"slowStartIntervalDuration": "0s"})), Some("must be longer than 0s")),
            (update(json!({"slowStartIntervalDuration": "1 minute"})), Some("such as 90s, 5m or 1h30m")),
            (json!({"reconcileFrequency": "-5s"}), Some("not negative")),
            (canary(json!({"autoFail": {"maxRestarts": 2}, "autoPause": {"maxRestarts": 2}})), None),
            (canary(json!({"autoFail": {"maxRestarts": 1}})), Some("would fail before it could be paused")),
            (canary(json!({"autoPause": {"maxRestarts": 6}})), Some("would fail before it could be paused")),
            (canary(json!({"autoPause": {"enabled": false}, "autoFail": {"maxRestarts": 1}})), None),
            (canary(json!({"autoFail": {"canaryTimeout": "10m"}})), Some("every canary would fail before its end")),
            (canary(json!({"duration": "5m", "autoFail": {"canaryTimeout": "1m"}})), Some("every canary would fail")),
            (canary(json!({"duration": "30s", "autoFail": {"canaryTimeout": "1m"}})), None),
            (canary(json!({"validationMode": "manual", "autoFail": {"canaryTimeout": "1m"}})), None),
            (canary(json!({"validationMode": "manual", "duration": "10m"})), Some("duration has no effect")),
            (canary(json!({"validationMode": "manual", "noRestartsDuration": "5m"})), Some("noRestartsDuration has no effect")),
            // As the Go controller has written them by itself.
            (canary(json!({"validationMode": "manual", "duration": "10m0s", "noRestartsDuration": "5m0s"})), None),
            (canary(json!({"validationMode": "sometimes"})), Some("supported values: \"auto\", \"manual\"")),
        ] {
            match (scene.answer(strategy.clone()).await, expected) {
                (Ok(()), None) => {}
                (Err(error), Some(expected)) if error.contains(expected) => {}
                (answer, expected) => anyhow::bail!("{strategy}: {answer:?} and not {expected:?}"),
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_name_that_cannot_be_a_label_is_refused() {
    scene("longname", |scene| async move {
        let raw: Api<DynamicObject> =
            Api::namespaced_with(scene.client.clone(), &scene.name, &resource("datadoghq.com"));
        for (length, refused) in [(63, false), (64, true)] {
            let wanted = serde_json::from_value(scene.set(&"x".repeat(length), "3.0"))?;
            let dry = PostParams { dry_run: true, ..PostParams::default() };
            let answer = raw.create(&dry, &wanted).await;
            anyhow::ensure!(answer.is_err() == refused, "{length}: {answer:?}");
        }
        Ok(())
    })
    .await;
}

/// The same definition for a group of its own, so that no other test meets it.
fn definition(group: &str, rules: bool) -> Value {
    let [definition, ..] = eds::definitions();
    let mut definition = json!(definition);
    definition["spec"]["group"] = group.into();
    definition["metadata"]["name"] = format!("extendeddaemonsets.{group}").into();
    definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
    definition["kind"] = "CustomResourceDefinition".into();
    if !rules {
        without_rules(&mut definition);
    }
    definition
}

/// As the definition of the Go controller is.
fn without_rules(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, _| {
                !["x-kubernetes-validations", "enum", "minimum", "maxLength"].contains(&key.as_str())
            });
            fields.values_mut().for_each(without_rules);
        }
        Value::Array(values) => values.iter_mut().for_each(without_rules),
        _ => {}
    }
}

async fn define(client: &Client, definition: &Value) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    definitions.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(definition)).await?;
    Ok(())
}

#[tokio::test]
async fn what_was_stored_before_the_rules_can_still_be_written() {
    let group = "stored.example.com";
    in_namespace(alone().await, "stored", |client, namespace| async move {
        define(&client, &definition(group, false)).await?;
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource(group));
        let name = "x".repeat(70);
        let stored = serde_json::from_value(json!({
            "apiVersion": format!("{group}/v1alpha1"), "kind": "ExtendedDaemonSet", "metadata": {"name": name},
            "spec": {
                "template": {"spec": {"containers": [{"name": "a"}]}},
                "strategy": {
                    "rollingUpdate": {"maxUnavailable": "abc", "slowStartIntervalDuration": "0s", "maxParallelPodCreation": 0},
                    "canary": {"autoFail": {"maxRestarts": 1}, "validationMode": "sometimes", "duration": "1d"},
                },
            },
        }))?;
        soon(|| async { Ok(api.create(&PostParams::default(), &stored).await?) }).await?;
        define(&client, &definition(group, true)).await?;
        let merge = PatchParams::default();
        // Another value each time: one that got in before the rules were there would be left alone by them.
        let attempts = std::sync::atomic::AtomicU32::new(0);
        soon(|| async {
            let attempt = attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let worse =
                json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": format!("abcd{attempt}")}}}});
            let answer = api.patch(&name, &merge, &Patch::Merge(&worse)).await;
            anyhow::ensure!(answer.is_err(), "the rules are not there yet");
            Ok(())
        })
        .await?;
        let status = json!({"status": {
            "desired": 1, "current": 0, "ready": 0, "available": 0, "upToDate": 0, "ignoredUnresponsiveNodes": 0, "activeReplicaSet": "",
        }});
        api.patch_status(&name, &merge, &Patch::Merge(&status)).await?;
        for harmless in [
            json!({"metadata": {"labels": {"a": "b"}}}),
            json!({"spec": {"template": {"spec": {"containers": [{"name": "b"}]}}}}),
            json!({"spec": {"strategy": {"rollingUpdate": {"maxPodSchedulerFailure": 1}}}}),
            json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": 2}}}}),
        ] {
            api.patch(&name, &merge, &Patch::Merge(&harmless)).await?;
        }
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        definitions.delete(&format!("extendeddaemonsets.{group}"), &kube::api::DeleteParams::default()).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn fields_of_a_template_that_nobody_knows_yet_are_stored() {
    scene("future", |scene| async move {
        let mut wanted = scene.foo("3.0");
        wanted["metadata"]["name"] = "future".into();
        // No node is selected, so that no pod is made of it.
        wanted["spec"]["selector"] = json!({"matchLabels": {"no": "node"}});
        wanted["spec"]["template"]["spec"]["containers"][0]["fromTheFuture"] = json!({"x": [1]});
        wanted["spec"]["template"]["metadata"]["alsoNew"] = "y".into();
        scene.apply(&wanted).await?;
        let stored = scene.sets().get("future").await?;
        let template = stored.spec.template.0;
        anyhow::ensure!(
            template["spec"]["containers"][0]["fromTheFuture"] == json!({"x": [1]}),
            "{template}"
        );
        let replica_set = soon(|| async {
            let all = scene.replica_sets().list(&kube::api::ListParams::default()).await?;
            all.items.into_iter().next().ok_or_else(|| anyhow::anyhow!("no replica set yet"))
        })
        .await?;
        anyhow::ensure!(replica_set.spec.template.0 == template, "{:?}", replica_set.spec.template);
        Ok(())
    })
    .await;
}
