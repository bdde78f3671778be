use podwright_api::{config::OnError, keys};

use crate::{
    mutate::{Facts, Known, Lookup, WorkloadFacts},
    pod::{DaemonOwner, OwnerReference, PodView},
};

/// Who asks for the pod to be sized, and how.
pub(super) struct OptIn {
    pub(super) template: String,
    /// Kind, namespace and name of the workload.
    pub(super) workload: String,
    /// What the workload wants when its pod can't be sized.
    pub(super) on_error: Option<OnError>,
    /// What is odd about it.
    pub(super) remarks: Vec<String>,
}

impl OptIn {
    /// Reads it from the workload, or else from the pod. Fails with what has to be looked up for that.
    ///
    /// A workload that is gone says nothing; the pod's own annotation counts.
    pub(super) fn of(
        owner: DaemonOwner<'_>,
        namespace: &str,
        pod: &PodView,
        facts: &Facts,
    ) -> Result<Option<Self>, Lookup> {
        let (subject, workloads) = workloads(owner, namespace, facts)?;
        let annotation = |key: &str| workloads.iter().find_map(|workload| workload.annotations.get(key));
        let theirs = annotation(keys::RESOURCE_TEMPLATE).map(|name| name.trim());
        let own = pod.annotation(keys::RESOURCE_TEMPLATE).map(str::trim);
        let Some(template) = theirs.or(own).filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let workload = format!("{} {namespace}/{}", subject.kind, subject.name);
        let mut remarks = Vec::new();
        if let Some(own) = own.filter(|own| *own != template) {
            remarks.push(format!(
                "sizing: template {template:?} of the {} itself counts, not {own:?} of its pod template",
                subject.kind
            ));
        }
        let on_error = annotation(keys::SIZING_ON_ERROR).and_then(|text| {
            let read = text.parse().inspect_err(|error| {
                remarks.push(format!("sizing: annotation {} of {workload}: {error}", keys::SIZING_ON_ERROR));
            });
            read.ok()
        });
        Ok(Some(Self { template: template.to_owned(), workload, on_error, remarks }))
    }
}

/// The workloads whose annotations count, and the foremost of them: a DaemonSet, or an ExtendedDaemonSet before its replica
/// set.
fn workloads<'f>(
    owner: DaemonOwner<'_>,
    namespace: &str,
    facts: &'f Facts,
) -> Result<(OwnerReference, Vec<&'f WorkloadFacts>), Lookup> {
    let direct = owner.reference();
    let Some(found) = look(direct, namespace, facts)? else {
        return Ok((direct.clone(), Vec::new()));
    };
    match (owner, &found.owner) {
        (DaemonOwner::ExtendedReplicaSet(_), Some(parent)) => {
            let parents = look(parent, namespace, facts)?;
            Ok((parent.clone(), parents.into_iter().chain([found]).collect()))
        }
        _ => Ok((direct.clone(), vec![found])),
    }
}

fn look<'f>(
    reference: &OwnerReference,
    namespace: &str,
    facts: &'f Facts,
) -> Result<Option<&'f WorkloadFacts>, Lookup> {
    let lookup = Lookup::Workload {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        namespace: namespace.to_owned(),
        name: reference.name.clone(),
    };
    match facts.workload(&lookup) {
        Known::Found(workload) => Ok(Some(workload)),
        Known::Absent => Ok(None),
        Known::Unknown => Err(lookup),
    }
}
