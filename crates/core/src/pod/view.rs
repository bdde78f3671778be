use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};

use super::{
    placement::{Affinity, OwnerReference},
    scheduling::{PodOs, SchedulingGate, SecretName, Toleration},
};
use crate::quantity::Quantity;

/// Amounts by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// The parts of a pod that decisions look at. Everything else in the JSON is passed over.
///
/// Fields that may have to be created are optional here, so that a patch knows which parents exist.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodView {
    /// Names and annotations.
    pub metadata: Metadata,
    /// What is to run.
    pub spec: Spec,
}

impl PodView {
    /// Reads the view from a pod's JSON.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    /// The label's value, if it is set.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// The annotation's value, if it is set.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

/// Names and annotations.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Its name; empty while the API server has yet to make it up.
    pub name: String,
    /// Annotations, if there are any.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels, if there are any.
    pub labels: Option<BTreeMap<String, String>>,
    /// Who owns it.
    #[serde(deserialize_with = "null_is_empty")]
    pub owner_references: Vec<OwnerReference>,
}

/// What is to run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The node that it is bound to, once it is.
    pub node_name: Option<String>,
    /// Where it may run, by nodes.
    pub affinity: Option<Affinity>,
    /// Labels that its node must have.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that it puts up with.
    pub tolerations: Option<Vec<Toleration>>,
    /// What it waits for before it is scheduled.
    pub scheduling_gates: Option<Vec<SchedulingGate>>,
    /// The operating system that it says it is for.
    pub os: Option<PodOs>,
    /// Secrets that open its images' registries.
    #[serde(deserialize_with = "null_is_empty")]
    pub image_pull_secrets: Vec<SecretName>,
    /// The ServiceAccount by name, in its namespace.
    pub service_account_name: Option<String>,
    /// The RuntimeClass by name.
    pub runtime_class_name: Option<String>,
    /// Run one after the other, but for sidecars, before the containers.
    #[serde(deserialize_with = "null_is_empty")]
    pub init_containers: Vec<Container>,
    /// Run side by side.
    #[serde(deserialize_with = "null_is_empty")]
    pub containers: Vec<Container>,
    /// Resources of the pod as a whole.
    pub resources: Option<Resources>,
    /// Volumes, of which only those that read resource fields are of interest.
    #[serde(deserialize_with = "null_is_empty")]
    pub volumes: Vec<Volume>,
}

/// A container or init container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Unique among all containers of the pod.
    pub name: String,
    /// What it runs.
    pub image: Option<String>,
    /// When that is pulled.
    pub image_pull_policy: Option<String>,
    /// What it asks for.
    pub resources: Option<Resources>,
    /// `Always` on an init container makes it a sidecar.
    pub restart_policy: Option<RestartPolicy>,
    /// Its variables.
    #[serde(deserialize_with = "null_is_empty")]
    pub env: Vec<EnvVar>,
}

/// A container's own restart policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum RestartPolicy {
    /// Restarted whenever it ends.
    Always,
    /// Anything else, now or in future.
    #[serde(other)]
    Other,
}

/// Requests and limits.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Resources {
    /// What the scheduler sets aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceList>,
    /// What may be used at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
    /// Names of the pod's resource claims that it uses. Read only: never written from here.
    #[serde(skip_serializing, deserialize_with = "null_is_empty")]
    pub claims: Vec<Claim>,
}

impl Resources {
    /// The request for a resource; nothing if there is none.
    #[must_use]
    pub fn request(&self, resource: &str) -> Quantity {
        amount(self.requests.as_ref(), resource)
    }

    /// The limit of a resource; nothing if there is none.
    #[must_use]
    pub fn limit(&self, resource: &str) -> Quantity {
        amount(self.limits.as_ref(), resource)
    }

    /// Every resource named in requests or limits; those in both come twice.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.requests.iter().chain(&self.limits).flat_map(BTreeMap::keys).map(String::as_str)
    }
}

fn amount(list: Option<&ResourceList>, resource: &str) -> Quantity {
    list.and_then(|list| list.get(resource)).copied().unwrap_or(Quantity::ZERO)
}

/// A container's use of one of the pod's resource claims.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// The claim's name within the pod.
    pub name: String,
}

/// A variable of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvVar {
    /// The variable's name.
    pub name: String,
    /// Where its value comes from.
    pub value_from: Option<EnvSource>,
}

/// Where a variable's value comes from.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvSource {
    /// A request or limit of a container.
    pub resource_field_ref: Option<ResourceFieldRef>,
}

/// A reference to a request or limit of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceFieldRef {
    /// Which container; in a variable, by default its own.
    pub container_name: Option<String>,
    /// Such as `limits.cpu`.
    pub resource: String,
    /// The unit that the value is given in, rounded up; one by default.
    pub divisor: Option<Quantity>,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// The volume's name.
    pub name: String,
    /// Files made from the pod's own fields.
    #[serde(rename = "downwardAPI")]
    pub downward_api: Option<DownwardVolume>,
}

/// Files made from the pod's own fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DownwardVolume {
    /// One entry a file.
    #[serde(deserialize_with = "null_is_empty")]
    pub items: Vec<DownwardFile>,
}

/// A file made from one of the pod's own fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DownwardFile {
    /// Set when the file holds a request or limit.
    pub resource_field_ref: Option<IgnoredAny>,
}

/// The API server leaves out what is empty; others may write `null`.
pub(crate) fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_reads_what_it_knows_and_passes_over_the_rest() {
        let pod = PodView::read(
            r#"{"metadata":{"annotations":{"a":"b"},"fromTheFuture":1},
                "spec":{"runtimeClassName":"kata-remote","containers":[{"name":"app","image":"x",
                "resources":{"requests":{"cpu":"1"},"claims":[{"name":"gpu","request":"one"}],"new":{}}}],
                "initContainers":null,"fieldFromTheFuture":{"x":[1,2]}},"status":{}}"#,
        )
        .unwrap();
        assert_eq!(pod.annotation("a"), Some("b"));
        let resources = pod.spec.containers[0].resources.as_ref().unwrap();
        assert_eq!(resources.request("cpu"), Quantity::units(1));
        assert_eq!(resources.claims[0].name, "gpu");
        assert!(resources.limits.is_none());
    }

    #[test]
    fn a_field_of_the_wrong_kind_is_an_error_that_says_where() {
        let error = PodView::read(r#"{"spec":{"containers":"none"}}"#).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }
}
