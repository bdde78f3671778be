//! Takes all gates off, for when Podwright goes.

use json_patch::{
    PatchOperation, RemoveOperation, TestOperation,
    jsonptr::{PointerBuf, Token},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use podwright_api::keys;
use serde_json::Value;

/// What came of a pod that was held back.
#[derive(Debug)]
pub struct Drained {
    /// Its namespace and name.
    pub pod: String,
    /// Whether it came free.
    pub outcome: Result<(), kube::Error>,
}

/// Takes our gate off every pod that has it, in one namespace or in all. With `dry_run` the API server only says whether it
/// would.
///
/// Pods are found by their gate, not by our label, which anybody may have taken off.
pub async fn drain(
    client: Client,
    namespace: Option<&str>,
    dry_run: bool,
) -> Result<Vec<Drained>, kube::Error> {
    let api = |namespace: Option<&str>| -> Api<Pod> {
        match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        }
    };
    let pending = ListParams::default().fields("spec.nodeName=,status.phase=Pending");
    let mut drained = Vec::new();
    for pod in api(namespace).list(&pending).await? {
        let operations = ungate(&serde_json::to_value(&pod).unwrap_or_default());
        if operations.is_empty() {
            continue;
        }
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let params = PatchParams { dry_run, ..PatchParams::default() };
        let patch = Patch::<()>::Json(json_patch::Patch(operations));
        let outcome = api(Some(&namespace)).patch_metadata(&name, &params, &patch).await.map(|_| ());
        drained.push(Drained { pod: format!("{namespace}/{name}"), outcome });
    }
    Ok(drained)
}

/// What takes our gate off this pod, and the label by which we watch it; nothing if it has no gate of ours.
pub(super) fn ungate(pod: &Value) -> Vec<PatchOperation> {
    let gates = pod["spec"]["schedulingGates"].as_array();
    let position = gates.and_then(|gates| gates.iter().position(|gate| gate["name"] == keys::ARCHITECTURE));
    let Some(position) = position else { return Vec::new() };
    let gate =
        PointerBuf::from_tokens([Token::new("spec"), Token::new("schedulingGates"), Token::from(position)]);
    let mut name = gate.clone();
    name.push_back(Token::new("name"));
    let mut operations = vec![
        PatchOperation::Test(TestOperation { path: name, value: keys::ARCHITECTURE.into() }),
        PatchOperation::Remove(RemoveOperation { path: gate }),
    ];
    if pod["metadata"]["labels"].get(keys::ARCHITECTURE_STATE).is_some() {
        let path = PointerBuf::from_tokens(["metadata", "labels", keys::ARCHITECTURE_STATE]);
        operations.push(PatchOperation::Remove(RemoveOperation { path }));
    }
    operations
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_our_own_gate_is_taken_off() {
        let mut pod = json!({
            "metadata": {"labels": {keys::ARCHITECTURE_STATE: keys::GATED, "app": "x"}},
            "spec": {"schedulingGates": [{"name": "a"}, {"name": keys::ARCHITECTURE}, {"name": "b"}]},
        });
        let operations = ungate(&pod);
        json_patch::patch(&mut pod, &operations).unwrap();
        assert_eq!(
            pod,
            json!({"metadata": {"labels": {"app": "x"}}, "spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}]}})
        );
        assert_eq!(ungate(&pod), []);
    }
}
