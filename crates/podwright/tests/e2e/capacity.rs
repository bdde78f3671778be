//! Nodes offer VMs.

use k8s_openapi::api::{
    core::v1::{Node, Pod},
    events::v1::Event,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use podwright_api::keys;
use podwright_lab::NodeShape;
use serde_json::{Value, json};

use crate::labs::{create, in_namespace, peer_pod, plain, soon};

/// Capacity and allocatable VMs of a node.
async fn offer(client: &Client, node: &str) -> anyhow::Result<(Option<String>, Option<String>)> {
    let node = Api::<Node>::all(client.clone()).get(node).await?;
    let status = node.status.unwrap_or_default();
    let vms = |list: Option<
        std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>,
    >| { list.and_then(|list| list.get(keys::VM_RESOURCE).map(|amount| amount.0.clone())) };
    Ok((vms(status.capacity), vms(status.allocatable)))
}

async fn offers(client: &Client, node: &str, vms: Option<&str>) -> anyhow::Result<()> {
    soon(|| async {
        let offer = offer(client, node).await?;
        anyhow::ensure!(
            offer == (vms.map(str::to_owned), vms.map(str::to_owned)),
            "{node} offers {offer:?}, not {vms:?}"
        );
        Ok(())
    })
    .await
}

async fn annotate(client: &Client, node: &str, key: &str, value: Value) -> anyhow::Result<()> {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    Api::<Node>::all(client.clone()).patch(node, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Writes the status as a kubelet does, not knowing of us.
async fn kubelet_writes(client: &Client, node: &str, vms: &str) -> anyhow::Result<()> {
    let patch =
        json!({"status": {"capacity": {keys::VM_RESOURCE: vms}, "allocatable": {keys::VM_RESOURCE: vms}}});
    let params = PatchParams { field_manager: Some("kubelet".to_owned()), ..PatchParams::default() };
    Api::<Node>::all(client.clone()).patch_status(node, &params, &Patch::Strategic(patch)).await?;
    Ok(())
}

#[tokio::test]
async fn a_nodes_offer_follows_its_annotation_then_its_labels_then_the_default() {
    in_namespace(plain().await, "offer", |client, name| async move {
        plain().await.add_node(&NodeShape::new(&name).label("pool", "big")).await?;
        offers(&client, &name, Some("20")).await?;
        annotate(&client, &name, keys::NODE_VM_CAPACITY, json!("33")).await?;
        offers(&client, &name, Some("33")).await?;
        annotate(&client, &name, keys::NODE_VM_CAPACITY, Value::Null).await?;
        offers(&client, &name, Some("20")).await?;
        let labels = json!({"metadata": {"labels": {"pool": null}}});
        Api::<Node>::all(client.clone()).patch(&name, &PatchParams::default(), &Patch::Merge(labels)).await?;
        offers(&client, &name, Some("10")).await
    })
    .await;
}

#[tokio::test]
async fn an_offer_that_a_kubelet_zeroes_comes_back() {
    in_namespace(plain().await, "zeroed", |client, name| async move {
        plain().await.add_node(&NodeShape::new(&name)).await?;
        for _ in 0..3 {
            offers(&client, &name, Some("10")).await?;
            kubelet_writes(&client, &name, "0").await?;
        }
        offers(&client, &name, Some("10")).await
    })
    .await;
}

#[tokio::test]
async fn an_offer_never_shrinks_below_what_pods_hold_and_goes_on_opting_out() {
    in_namespace(plain().await, "held", |client, name| async move {
        plain().await.add_node(&NodeShape::new(&name)).await?;
        offers(&client, &name, Some("10")).await?;
        for index in 0..2 {
            let mut pod = peer_pod(&format!("p{index}"), &json!([{"name": "a", "image": "x"}]));
            pod.spec.as_mut().unwrap().node_name = Some(name.clone());
            create(&client, &name, &pod).await?;
        }
        annotate(&client, &name, keys::NODE_VM_CAPACITY, json!("1")).await?;
        offers(&client, &name, Some("2")).await?;
        annotate(&client, &name, keys::NODE_VM_CAPACITY, json!("off")).await?;
        let pods: Api<Pod> = Api::namespaced(client.clone(), &name);
        pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
        offers(&client, &name, None).await
    })
    .await;
}

#[tokio::test]
async fn a_node_of_the_adaptors_is_left_to_it() {
    in_namespace(plain().await, "adaptor", |client, name| async move {
        plain().await.add_node(&NodeShape::new(&name).annotation(keys::ADAPTOR_OWNER, "some-pod")).await?;
        kubelet_writes(&client, &name, "7").await?;
        // A second node shows when the controller has come by.
        let witness = format!("{name}-witness");
        plain().await.add_node(&NodeShape::new(&witness)).await?;
        offers(&client, &witness, Some("10")).await?;
        offers(&client, &name, Some("7")).await?;
        // Given up by the adaptor, it is ours.
        annotate(&client, &name, keys::ADAPTOR_OWNER, Value::Null).await?;
        offers(&client, &name, Some("10")).await
    })
    .await;
}

#[tokio::test]
async fn an_annotation_that_is_no_number_is_told_in_an_event_and_changes_nothing() {
    in_namespace(plain().await, "unreadable", |client, name| async move {
        plain().await.add_node(&NodeShape::new(&name)).await?;
        offers(&client, &name, Some("10")).await?;
        annotate(&client, &name, keys::NODE_VM_CAPACITY, json!("plenty")).await?;
        let events: Api<Event> = Api::all(client.clone());
        let note = soon(|| async {
            let all = events.list(&ListParams::default()).await?;
            let about = all.items.into_iter().find(|event| {
                event.reason.as_deref() == Some("UnreadableVMCapacity")
                    && event.regarding.as_ref().and_then(|node| node.name.as_deref()) == Some(&name)
            });
            about.and_then(|event| event.note).ok_or_else(|| anyhow::anyhow!("no event yet"))
        })
        .await?;
        assert!(note.contains("\"plenty\"") && note.contains("whole number"), "{note}");
        offers(&client, &name, Some("10")).await
    })
    .await;
}
