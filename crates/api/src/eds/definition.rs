use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, ValidationRule,
};
use kube::CustomResourceExt;

use super::{ExtendedDaemonSet, ExtendedDaemonSetReplicaSet, ExtendedDaemonsetSetting};

/// What an API server has to know of the three kinds.
#[must_use]
pub fn definitions() -> [CustomResourceDefinition; 3] {
    let mut daemon_set = ExtendedDaemonSet::crd();
    let schemas = daemon_set
        .spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut());
    for schema in schemas {
        without_null(schema);
        // Only at creation: a name never changes, and the status of what was stored before must stay writable.
        schema.x_kubernetes_validations = Some(vec![ValidationRule {
            rule: "oldSelf.hasValue() || self.metadata.name.size() <= 63".to_owned(),
            optional_old_self: Some(true),
            message: Some(
                "the name must not be longer than 63 characters: it becomes a label of the pods".to_owned(),
            ),
            ..ValidationRule::default()
        }]);
    }
    [daemon_set, ExtendedDaemonSetReplicaSet::crd(), ExtendedDaemonsetSetting::crd()]
}

/// The derivation lets int-or-string fields be null. A null that is not allowed is dropped before it is stored, and no rule meets it.
fn without_null(schema: &mut JSONSchemaProps) {
    for field in schema.properties.iter_mut().flat_map(|fields| fields.values_mut()) {
        field.nullable = None;
        without_null(field);
    }
}
