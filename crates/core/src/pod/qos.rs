use std::fmt;

use super::{PodView, ResourceList, Resources};
use crate::quantity::Quantity;

/// A pod's quality-of-service class, by which the kubelet chooses what to evict. It never changes while a pod lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    /// Every container has limits for cpu and memory that equal its requests.
    Guaranteed,
    /// Something is requested or limited.
    Burstable,
    /// Nothing is.
    BestEffort,
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

const COUNTED: [&str; 2] = ["cpu", "memory"];

impl PodView {
    /// Its quality-of-service class, as Kubernetes computes it: over containers and init containers, or by the resources of
    /// the pod as a whole where it has any.
    #[must_use]
    pub fn qos_class(&self) -> QosClass {
        let whole = self.spec.resources.as_ref().filter(|all| all.names().next().is_some());
        if let Some(whole) = whole {
            return class(std::iter::once(Some(whole)));
        }
        class(self.spec.containers.iter().chain(&self.spec.init_containers).map(|one| one.resources.as_ref()))
    }
}

fn class<'p>(all: impl Iterator<Item = Option<&'p Resources>>) -> QosClass {
    let mut requests = ResourceList::new();
    let mut limits = ResourceList::new();
    let mut all_limited = true;
    for resources in all {
        for name in COUNTED {
            let limit = resources.map(|all| all.limit(name)).filter(Quantity::is_positive);
            let request = resources.map(|all| all.request(name)).filter(Quantity::is_positive);
            all_limited &= limit.is_some();
            for (sum, amount) in [(&mut requests, request), (&mut limits, limit)] {
                if let Some(amount) = amount {
                    let before = sum.get(name).copied().unwrap_or_default();
                    sum.insert(name.to_owned(), before + amount);
                }
            }
        }
    }
    match (requests.is_empty() && limits.is_empty(), all_limited && requests == limits) {
        (true, _) => QosClass::BestEffort,
        (false, true) => QosClass::Guaranteed,
        (false, false) => QosClass::Burstable,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(requests: Value, limits: Value) -> Value {
        json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn the_class_is_the_one_that_kubernetes_would_give() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let full = container(both.clone(), both.clone());
        for (spec, class) in [
            (json!({"containers": [{"name": "c"}]}), QosClass::BestEffort),
            (json!({"containers": [container(json!({"cpu": "0"}), json!({}))]}), QosClass::BestEffort),
            (
                json!({"containers": [container(json!({"nvidia.com/gpu": "1"}), json!({}))]}),
                QosClass::BestEffort,
            ),
            (json!({"containers": [full]}), QosClass::Guaranteed),
            (
                json!({"containers": [container(json!({"cpu": "1000m", "memory": "1024Mi"}), both.clone())]}),
                QosClass::Guaranteed,
            ),
            (json!({"containers": [container(both.clone(), json!({"cpu": "1"}))]}), QosClass::Burstable),
            (json!({"containers": [container(json!({"cpu": "1"}), both.clone())]}), QosClass::Burstable),
            (
                json!({"containers": [container(json!({"cpu": "500m", "memory": "1Gi"}), both.clone())]}),
                QosClass::Burstable,
            ),
            (json!({"containers": [full, {"name": "d"}]}), QosClass::Burstable),
            (json!({"containers": [full], "initContainers": [{"name": "i"}]}), QosClass::Burstable),
            (json!({"containers": [full], "initContainers": [full]}), QosClass::Guaranteed),
            (
                json!({"containers": [{"name": "c"}], "resources": {"requests": both, "limits": both}}),
                QosClass::Guaranteed,
            ),
        ] {
            let pod = PodView::read(&json!({"spec": spec}).to_string()).unwrap();
            assert_eq!(pod.qos_class(), class, "{spec}");
        }
    }
}
