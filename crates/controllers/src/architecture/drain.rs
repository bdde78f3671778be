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
        let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
        let position = gates.and_then(|gates| gates.iter().position(|gate| gate.name == keys::ARCHITECTURE));
        let Some(position) = position else { continue };
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let gate = PointerBuf::from_tokens([
            Token::new("spec"),
            Token::new("schedulingGates"),
            Token::from(position),
        ]);
        let mut gate_name = gate.clone();
        gate_name.push_back(Token::new("name"));
        let mut operations = vec![
            PatchOperation::Test(TestOperation { path: gate_name, value: keys::ARCHITECTURE.into() }),
            PatchOperation::Remove(RemoveOperation { path: gate }),
        ];
        if pod.labels().contains_key(keys::ARCHITECTURE_STATE) {
            let path = PointerBuf::from_tokens(["metadata", "labels", keys::ARCHITECTURE_STATE]);
            operations.push(PatchOperation::Remove(RemoveOperation { path }));
        }
        let params = PatchParams { dry_run, ..PatchParams::default() };
        let patch = Patch::<()>::Json(json_patch::Patch(operations));
        let outcome = api(Some(&namespace)).patch_metadata(&name, &params, &patch).await.map(|_| ());
        drained.push(Drained { pod: format!("{namespace}/{name}"), outcome });
    }
    Ok(drained)
}
