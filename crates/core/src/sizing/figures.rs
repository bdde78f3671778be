use podwright_api::flex::{FlexDaemonsetTemplateSpec, ManagedResource, Override};

use super::{Rule, grain};
use crate::quantity::{BadQuantity, Grain, Quantity};

/// A template that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTemplate {
    /// A bound is not a quantity.
    #[error("{field}: {source}")]
    NotAQuantity {
        /// Where, such as `spec.minCPU`.
        field: String,
        /// What is wrong with it.
        source: BadQuantity,
    },
    /// A percentage is out of range.
    #[error("{field}: {percentage} is not a percentage from 1 to 100")]
    NotAPercentage {
        /// Where.
        field: String,
        /// What it is.
        percentage: i32,
    },
    /// A minimum is above its maximum.
    #[error("{min_field}: {min} is more than {max_field}, which is {max}; lower the one or raise the other")]
    MinimumAboveMaximum {
        /// Where the minimum is.
        min_field: String,
        /// What it is.
        min: String,
        /// Where the maximum is.
        max_field: String,
        /// What it is.
        max: String,
    },
    /// A selector's conditions do not have the values they need.
    #[error("{field}: In and NotIn need values, Exists and DoesNotExist take none")]
    Selector {
        /// Where.
        field: String,
    },
}

/// Whether a template can be used, on whatever node.
pub fn check(spec: &FlexDaemonsetTemplateSpec) -> Result<(), InvalidTemplate> {
    for (index, entry) in spec.overrides.iter().enumerate() {
        if !entry.node_selector.makes_sense() {
            return Err(InvalidTemplate::Selector { field: format!("spec.overrides[{index}].nodeSelector") });
        }
    }
    for overridden in std::iter::once(None).chain((0..spec.overrides.len()).map(Some)) {
        for resource in ManagedResource::ALL {
            Figures::of(spec, overridden, resource)?;
        }
    }
    Ok(())
}

/// What a template says about one resource on some nodes.
pub(super) struct Figures {
    percentage: u32,
    min: Option<Quantity>,
    max: Option<Quantity>,
}

/// A value, and in which field it stands.
struct At<T> {
    field: String,
    value: T,
}

impl Figures {
    pub(super) fn of(
        spec: &FlexDaemonsetTemplateSpec,
        overridden: Option<usize>,
        resource: ManagedResource,
    ) -> Result<Self, InvalidTemplate> {
        let (percentage_name, min_name, max_name) = names(resource);
        let (percentage, min, max) = base(spec, resource);
        let entry = overridden.and_then(|index| Some((index, spec.overrides.get(index)?)));
        let (other_percentage, other_min, other_max) =
            entry.map(|(_, entry)| overriding(entry, resource)).unwrap_or_default();
        let prefix = entry.map(|(index, _)| format!("spec.overrides[{index}]")).unwrap_or_default();
        let at_entry = |name: &str| format!("{prefix}.{name}");

        let percentage = match other_percentage {
            Some(value) => At { field: at_entry(percentage_name), value },
            None => At { field: format!("spec.{percentage_name}"), value: percentage },
        };
        let bound = |name: &str, other: Option<&str>, base: Option<&str>| {
            let other = other.map(|value| At { field: at_entry(name), value });
            let text = other.or_else(|| base.map(|value| At { field: format!("spec.{name}"), value }));
            text.map(|text| read(text, grain(resource))).transpose()
        };
        let (min, max) = (bound(min_name, other_min, min)?, bound(max_name, other_max, max)?);
        if let (Some(min), Some(max)) = (&min, &max)
            && min.value > max.value
        {
            return Err(InvalidTemplate::MinimumAboveMaximum {
                min_field: min.field.clone(),
                min: min.value.to_string(),
                max_field: max.field.clone(),
                max: max.value.to_string(),
            });
        }
        let checked = u32::try_from(percentage.value).ok().filter(|percent| (1..=100).contains(percent));
        let percentage = checked.ok_or(InvalidTemplate::NotAPercentage {
            field: percentage.field,
            percentage: percentage.value,
        })?;
        Ok(Self { percentage, min: min.map(|min| min.value), max: max.map(|max| max.value) })
    }

    /// The amount, and what made it that. A resource that the node does not have is given by its minimum alone.
    pub(super) fn apply(&self, allocatable: Option<Quantity>, grain: Grain, cap: bool) -> (Quantity, Rule) {
        let part = allocatable.unwrap_or_default().percent_floor(self.percentage, grain);
        let mut result = (part, Rule::Percentage(self.percentage));
        if let Some(min) = self.min.filter(|min| *min > result.0) {
            result = (min, Rule::Minimum);
        }
        if let Some(max) = self.max.filter(|max| *max < result.0) {
            result = (max, Rule::Maximum);
        }
        let most = allocatable.unwrap_or_default().percent_floor(100, grain);
        if cap && most < result.0 {
            result = (most, Rule::Allocatable);
        }
        result
    }
}

/// Bounds are rounded up to whole grains, because the API server would do so with the pod.
fn read(text: At<&str>, grain: Grain) -> Result<At<Quantity>, InvalidTemplate> {
    match text.value.parse::<Quantity>() {
        Ok(value) => Ok(At { field: text.field, value: value.rounded_up(grain) }),
        Err(source) => Err(InvalidTemplate::NotAQuantity { field: text.field, source }),
    }
}

const fn names(resource: ManagedResource) -> (&'static str, &'static str, &'static str) {
    match resource {
        ManagedResource::Cpu => ("cpuPercentage", "minCPU", "maxCPU"),
        ManagedResource::Memory => ("memoryPercentage", "minMemory", "maxMemory"),
        ManagedResource::EphemeralStorage => ("storagePercentage", "minStorage", "maxStorage"),
    }
}

/// An empty text counts as unset.
fn text(bound: Option<&String>) -> Option<&str> {
    bound.map(String::as_str).filter(|text| !text.is_empty())
}

fn base(spec: &FlexDaemonsetTemplateSpec, resource: ManagedResource) -> (i32, Option<&str>, Option<&str>) {
    let (percentage, min, max) = match resource {
        ManagedResource::Cpu => (spec.cpu_percentage, &spec.min_cpu, &spec.max_cpu),
        ManagedResource::Memory => (spec.memory_percentage, &spec.min_memory, &spec.max_memory),
        ManagedResource::EphemeralStorage => (spec.storage_percentage, &spec.min_storage, &spec.max_storage),
    };
    (percentage, text(min.as_ref()), text(max.as_ref()))
}

fn overriding(entry: &Override, resource: ManagedResource) -> (Option<i32>, Option<&str>, Option<&str>) {
    let (percentage, min, max) = match resource {
        ManagedResource::Cpu => (entry.cpu_percentage, &entry.min_cpu, &entry.max_cpu),
        ManagedResource::Memory => (entry.memory_percentage, &entry.min_memory, &entry.max_memory),
        ManagedResource::EphemeralStorage => {
            (entry.storage_percentage, &entry.min_storage, &entry.max_storage)
        }
    };
    (percentage, text(min.as_ref()), text(max.as_ref()))
}
