//! Manifests, applied as `kubectl apply --server-side` would, and the ones that Podwright ships.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::discovery::{ApiCapabilities, Scope, pinned_kind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

/// What an installation applies, in order, except the Deployment: here the processes are the lab's own.
pub(crate) const INSTALLATION: [&str; 10] = [
    include_str!("../../../deploy/crds/flexdaemonsettemplates.yaml"),
    include_str!("../../../deploy/crds/poddistributors.yaml"),
    include_str!("../../../deploy/crds/extendeddaemonsets.yaml"),
    include_str!("../../../deploy/crds/extendeddaemonsetreplicasets.yaml"),
    include_str!("../../../deploy/crds/extendeddaemonsetsettings.yaml"),
    include_str!("../../../deploy/base/namespace.yaml"),
    include_str!("../../../deploy/base/serviceaccount.yaml"),
    include_str!("../../../deploy/base/rbac.yaml"),
    include_str!("../../../deploy/base/webhook.yaml"),
    include_str!("../../../deploy/base/tls-secret.yaml"),
];

/// The objects of a YAML text of one or more documents.
pub fn parse(yaml: &str) -> Result<Vec<DynamicObject>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).context("not YAML")?;
    documents
        .into_iter()
        .filter(|document| !document.is_null())
        .map(|document| serde_json::from_value(document).context("not a Kubernetes object"))
        .collect()
}

/// Applies all objects of the text, in order. Namespaced ones that name no namespace go to `namespace`.
pub async fn apply(client: &Client, namespace: &str, yaml: &str) -> Result<()> {
    let params = PatchParams::apply("podwright-lab").force();
    let mut kinds = HashMap::new();
    for object in parse(yaml)? {
        let types = object.types.clone().context("an object without apiVersion and kind")?;
        let label = format!("{} {}", types.kind, object.name_any());
        if !kinds.contains_key(&types) {
            kinds.insert(types.clone(), discover(client, &types).await?);
        }
        let (resource, capabilities) = &kinds[&types];
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(client.clone(), resource),
            Scope::Namespaced => {
                let namespace = object.namespace().unwrap_or_else(|| namespace.to_owned());
                Api::namespaced_with(client.clone(), &namespace, resource)
            }
        };
        api.patch(&object.name_any(), &params, &Patch::Apply(&object))
            .await
            .with_context(|| format!("failed to apply {label}"))?;
    }
    Ok(())
}

async fn discover(client: &Client, types: &TypeMeta) -> Result<(kube::core::ApiResource, ApiCapabilities)> {
    let gvk = GroupVersionKind::try_from(types).context("apiVersion is not group/version")?;
    pinned_kind(client, &gvk)
        .await
        .with_context(|| format!("the API server does not know {} of {}", types.kind, types.api_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_installation_is_valid_yaml_and_makes_what_the_lab_relies_on() {
        let all: Vec<(String, String)> = INSTALLATION
            .iter()
            .flat_map(|text| parse(text).unwrap())
            .map(|object| (object.types.clone().unwrap().kind, object.name_any()))
            .collect();
        for (kind, name) in [
            ("Namespace", "podwright-system"),
            ("ServiceAccount", "podwright"),
            ("MutatingWebhookConfiguration", "podwright"),
        ] {
            assert!(all.contains(&(kind.to_owned(), name.to_owned())), "{kind} {name} in {all:?}");
        }
    }

    #[test]
    fn a_document_of_comments_is_no_object() {
        assert_eq!(parse("# nothing\n---\nkind: A\napiVersion: v1\nmetadata: {name: a}\n").unwrap().len(), 1);
        assert!(parse("a: [").is_err());
    }
}
