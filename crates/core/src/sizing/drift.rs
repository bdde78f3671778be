use podwright_api::flex::{FlexDaemonsetTemplateSpec, ManagedResource};

use super::{InvalidTemplate, NodeFacts, exempt, share, wanted};
use crate::pod::{Container, PodView, ResourceList, Resources, RestartPolicy};

/// How a running pod comes to what its template gives it now.
#[derive(Clone, Debug, PartialEq)]
pub enum Drift {
    /// It has that already.
    None,
    /// By a resize in place: its class of service stays, and only cpu and memory change.
    Resize {
        /// The containers that change.
        containers: Vec<ContainerResize>,
    },
    /// Only by a new pod.
    Recreate {
        /// Why, for the status and the event.
        reason: String,
    },
}

/// What a running container is to be given.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerResize {
    /// The container.
    pub name: String,
    /// Whether it is among the init containers: a sidecar.
    pub init: bool,
    /// Its cpu and memory, requests and limits, and nothing else.
    pub resources: Resources,
}

/// What a resize in place can change.
const RESIZABLE: [ManagedResource; 2] = [ManagedResource::Cpu, ManagedResource::Memory];

/// What has to be done about a running pod, if its template were applied to its node now.
///
/// Init containers that end have done so, or can't be changed: they are not looked at.
pub fn drift(
    pod: &PodView,
    spec: &FlexDaemonsetTemplateSpec,
    node: &NodeFacts,
) -> Result<Drift, InvalidTemplate> {
    let share = share(spec, node)?;
    if exempt::is_peer_pod(pod) {
        return Ok(Drift::None);
    }
    let wanted = wanted(pod, spec, &share);
    let mut after = pod.clone();
    let mut changed = Vec::new();
    let sections = [
        (false, &mut after.spec.containers, wanted.containers),
        (true, &mut after.spec.init_containers, wanted.init_containers),
    ];
    for (init, containers, wanted) in sections {
        for (container, wanted) in containers.iter_mut().zip(wanted) {
            let ends = init && container.restart_policy != Some(RestartPolicy::Always);
            let Some(wanted) = wanted.filter(|_| !ends) else {
                continue;
            };
            let differing = differing(container, &wanted);
            if differing.is_empty() {
                continue;
            }
            if let Some(reason) = obstacle(container, &wanted, &differing) {
                return Ok(Drift::Recreate { reason });
            }
            changed.push(ContainerResize {
                name: container.name.clone(),
                init,
                resources: resizable(&wanted),
            });
            container.resources = Some(wanted);
        }
    }
    let (before, after) = (pod.qos_class(), after.qos_class());
    Ok(match changed.is_empty() {
        true => Drift::None,
        false if before == after => Drift::Resize { containers: changed },
        false => Drift::Recreate {
            reason: format!("a resize would change its quality-of-service class from {before} to {after}"),
        },
    })
}

fn resources_of(container: &Container) -> Resources {
    container.resources.clone().unwrap_or_default()
}

fn differing(container: &Container, wanted: &Resources) -> Vec<ManagedResource> {
    let current = resources_of(container);
    let differs = |resource: &ManagedResource| {
        let name = resource.name();
        current.request(name) != wanted.request(name) || current.limit(name) != wanted.limit(name)
    };
    ManagedResource::ALL.into_iter().filter(differs).collect()
}

/// Why the API server would refuse the resize.
fn obstacle(container: &Container, wanted: &Resources, differing: &[ManagedResource]) -> Option<String> {
    let current = resources_of(container);
    let name = &container.name;
    differing.iter().find_map(|resource| {
        let kind = resource.name();
        if !RESIZABLE.contains(resource) {
            return Some(format!(
                "container {name} should have {kind} {} and has {}, and only cpu and memory can be resized in place",
                wanted.request(kind),
                current.request(kind),
            ));
        }
        let removed = |now: bool, then: bool| now && !then;
        let is = |resources: &Resources| (resources.request(kind).is_positive(), resources.limit(kind).is_positive());
        let (now, then) = (is(&current), is(wanted));
        (removed(now.0, then.0) || removed(now.1, then.1))
            .then(|| format!("container {name} should have no {kind} of its own, and a resize in place can't take it away"))
    })
}

fn resizable(wanted: &Resources) -> Resources {
    let part = |list: &Option<ResourceList>| {
        let part: ResourceList = RESIZABLE
            .iter()
            .filter_map(|resource| Some((resource.name().to_owned(), *list.as_ref()?.get(resource.name())?)))
            .collect();
        (!part.is_empty()).then_some(part)
    };
    Resources { requests: part(&wanted.requests), limits: part(&wanted.limits), claims: Vec::new() }
}
