use podwright_api::flex::{ApplyTo, FlexDaemonsetTemplateSpec, Limits};

use super::{ResourceShare, Share, exempt, grain};
use crate::{
    pod::{Container, PodView, Resources, RestartPolicy},
    quantity::Quantity,
};

/// What a pod's containers should ask for. Each list is as long as the pod's own; nothing stands for a container that is not
/// sized, else everything that it should then have, what is not ours included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// By index in `spec.containers`.
    pub containers: Vec<Option<Resources>>,
    /// By index in `spec.initContainers`.
    pub init_containers: Vec<Option<Resources>>,
}

/// A container that is sized.
struct Place<'p> {
    index: usize,
    init: bool,
    container: &'p Container,
}

impl Place<'_> {
    /// Whether it is gone before the pod's containers start.
    fn ends_early(&self) -> bool {
        self.init && self.container.restart_policy != Some(RestartPolicy::Always)
    }

    /// What it asks for already, which is its weight when a figure is divided.
    fn weight(&self, share: &ResourceShare) -> i128 {
        let name = share.resource.name();
        let asked = self.container.resources.as_ref().map(|all| {
            let request = all.request(name);
            if request.is_positive() { request } else { all.limit(name) }
        });
        asked.unwrap_or_default().floor_grains(grain(share.resource)).max(0)
    }
}

/// What the pod's containers should ask for, by the template's share of its node.
#[must_use]
pub fn wanted(pod: &PodView, spec: &FlexDaemonsetTemplateSpec, share: &Share) -> Wanted {
    let kept = exempt::kept(pod);
    let chosen =
        |container: &Container| spec.containers.chooses(&container.name) && !kept.contains(&container.name);
    let list = |init: bool, containers: &'_ [Container]| -> Vec<usize> {
        let sized =
            containers.iter().enumerate().filter(|(_, one)| (!init || spec.init_containers) && chosen(one));
        sized.map(|(index, _)| index).collect()
    };
    let (init, main) = (&pod.spec.init_containers, &pod.spec.containers);
    // In the order in which they start.
    let places: Vec<Place<'_>> = list(true, init)
        .into_iter()
        .map(|index| Place { index, init: true, container: &init[index] })
        .chain(list(false, main).into_iter().map(|index| Place {
            index,
            init: false,
            container: &main[index],
        }))
        .collect();

    let mut results: Vec<Resources> =
        places.iter().map(|place| place.container.resources.clone().unwrap_or_default()).collect();
    for one in &share.resources {
        let amounts = match spec.apply_to {
            ApplyTo::EachContainer => vec![one.amount; places.len()],
            ApplyTo::PodTotal => divided(&places, one),
        };
        for (resources, amount) in results.iter_mut().zip(amounts) {
            put(resources, one.resource.name(), amount, spec.limits);
        }
    }
    let mut wanted = Wanted { containers: vec![None; main.len()], init_containers: vec![None; init.len()] };
    for (place, resources) in places.iter().zip(results) {
        let list = if place.init { &mut wanted.init_containers } else { &mut wanted.containers };
        list[place.index] = Some(resources);
    }
    wanted
}

/// Divides a figure among the containers that run side by side, by what they ask for, the remainder to the largest.
///
/// An init container that ends gets what the sidecars before it leave, so that at no time more than the figure is asked for.
fn divided(places: &[Place<'_>], share: &ResourceShare) -> Vec<Quantity> {
    let grain = grain(share.resource);
    let total = share.amount.floor_grains(grain);
    let weights: Vec<i128> =
        places.iter().map(|place| if place.ends_early() { 0 } else { place.weight(share) }).collect();
    let unweighted = weights.iter().all(|weight| *weight == 0);
    let weights: Vec<i128> = places
        .iter()
        .zip(weights)
        .map(|(place, weight)| if unweighted { i128::from(!place.ends_early()) } else { weight })
        .collect();
    let mut parts = split(total, &weights);
    let mut sidecars = 0;
    for (place, part) in places.iter().zip(&mut parts) {
        if place.ends_early() {
            *part = (total - sidecars).max(0);
        } else if place.init {
            sidecars += *part;
        }
    }
    parts.into_iter().map(|part| Quantity::of_grains(part, grain)).collect()
}

/// `total` in the ratio of the weights, exactly: the parts add up to it.
fn split(total: i128, weights: &[i128]) -> Vec<i128> {
    // The product of the two must fit. No real node comes near; there, weights lose their lowest bits alike.
    let bits = |value: i128| 128 - value.leading_zeros();
    let sum = weights.iter().fold(0, |sum: i128, weight| sum.saturating_add(*weight));
    let by = (bits(total) + bits(sum)).saturating_sub(126);
    let weights: Vec<i128> = weights.iter().map(|weight| weight >> by).collect();
    let sum: i128 = weights.iter().sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let mut parts: Vec<i128> = weights.iter().map(|weight| total * weight / sum).collect();
    let rest = total - parts.iter().sum::<i128>();
    let largest = weights.iter().max().and_then(|most| weights.iter().position(|weight| weight == most));
    if let Some(part) = largest.and_then(|index| parts.get_mut(index)) {
        *part += rest;
    }
    parts
}

/// Sets one resource. Nothing of it, which only a division gives, takes it away: a limit alone would become a request again.
fn put(resources: &mut Resources, name: &str, amount: Quantity, limits: Limits) {
    if !amount.is_positive() {
        for list in [&mut resources.requests, &mut resources.limits].into_iter().flatten() {
            list.remove(name);
        }
        return;
    }
    resources.requests.get_or_insert_default().insert(name.to_owned(), amount);
    match limits {
        Limits::Equal => {
            resources.limits.get_or_insert_default().insert(name.to_owned(), amount);
        }
        Limits::RequestsOnly => {
            if let Some(limit) = resources.limits.as_mut().and_then(|list| list.get_mut(name)) {
                *limit = (*limit).max(amount);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Grain;

    #[test]
    fn parts_add_up_and_the_remainder_goes_to_the_largest() {
        for (total, weights, parts) in [
            (1000, vec![1, 2], vec![333, 667]),
            (100, vec![1, 1, 1], vec![34, 33, 33]),
            (10, vec![0, 5], vec![0, 10]),
            (2, vec![1, 1, 1], vec![2, 0, 0]),
            (5, vec![], vec![]),
            (5, vec![0, 0], vec![0, 0]),
        ] {
            assert_eq!(split(total, &weights), parts, "{total} by {weights:?}");
        }
    }

    #[test]
    fn the_largest_amounts_of_all_are_divided_without_overflow() {
        let most = Quantity::of_grains(i128::from(i64::MAX), Grain::Byte).floor_grains(Grain::Milli);
        let parts = split(most, &[most, most, 1]);
        assert_eq!(parts.iter().sum::<i128>(), most);
        assert!(parts.iter().all(|part| *part >= 0), "{parts:?}");
    }
}
