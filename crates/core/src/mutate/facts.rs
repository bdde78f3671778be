use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use podwright_api::flex::FlexDaemonsetTemplateSpec;

use crate::{
    architecture::ClusterPlatforms,
    distribution::{Ask, Place, Rule},
    image::{Platforms, PullPolicy, Reference},
    pod::OwnerReference,
    sizing::NodeFacts,
};

/// Something beside the pod that a decision rests on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lookup {
    /// An object that makes pods.
    Workload {
        /// Its group and version.
        api_version: String,
        /// Its kind.
        kind: String,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A FlexDaemonsetTemplate.
    Template {
        /// Its name.
        name: String,
    },
    /// A node.
    Node {
        /// Its name.
        name: String,
    },
    /// Which kinds of node the cluster has.
    Cluster,
    /// What an image is built for.
    Image(Box<ImageLookup>),
    /// The PodDistributors of a namespace.
    Rules {
        /// The namespace.
        namespace: String,
        /// The workload that asks for the first pods it ever had: its rule may have been created just before it.
        maker: Option<String>,
    },
    /// A place for a pod by a PodDistributor. To look is to take it, unless it is a dry run.
    Place {
        /// The rule's namespace.
        namespace: String,
        /// The rule's name.
        rule: String,
        /// The pod.
        ask: Box<Ask>,
        /// Whether nothing may come of it.
        dry_run: bool,
    },
}

/// An image, and who wants to pull it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageLookup {
    /// The image.
    pub reference: Reference,
    /// How old an answer may be.
    pub policy: PullPolicy,
    /// The namespace of the pod.
    pub namespace: String,
    /// The pod's own pull secrets by name.
    pub secrets: Vec<String>,
    /// The pod's ServiceAccount, whose pull secrets count where the pod has none of its own.
    pub service_account: String,
}

impl std::fmt::Display for Lookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Workload { kind, namespace, name, .. } => write!(f, "{kind} {namespace}/{name}"),
            Self::Template { name } => write!(f, "FlexDaemonsetTemplate {name}"),
            Self::Node { name } => write!(f, "Node {name}"),
            Self::Cluster => f.write_str("the kinds of node"),
            Self::Image(image) => write!(f, "image {}", image.reference),
            Self::Rules { namespace, .. } => write!(f, "PodDistributors of {namespace}"),
            Self::Place { namespace, rule, .. } => write!(f, "place by PodDistributor {namespace}/{rule}"),
        }
    }
}

/// What a lookup found.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// Of a workload.
    Workload(Arc<WorkloadFacts>),
    /// Of a template.
    Template(Arc<FlexDaemonsetTemplateSpec>),
    /// Of a node.
    Node(Arc<NodeFacts>),
    /// Of all nodes together.
    Cluster(Arc<ClusterPlatforms>),
    /// Of an image.
    Image(ImageFact),
    /// Of a namespace.
    Rules(Arc<[Arc<Rule>]>),
    /// Of a pod.
    Place(Place),
}

/// What is known of an image.
#[derive(Clone, Debug, PartialEq)]
pub enum ImageFact {
    /// What it is built for.
    Offers(Arc<Platforms>),
    /// It could not be found out, at least not in time, and why.
    Unknown(String),
}

/// What is known of an object that makes pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadFacts {
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The object that controls it, in the same namespace.
    pub owner: Option<OwnerReference>,
}

/// What is known about the answer to a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known<T> {
    /// Nobody has looked yet.
    Unknown,
    /// There is no such thing.
    Absent,
    /// There is.
    Found(T),
}

impl<T> Known<T> {
    fn and_then<U>(self, of: impl FnOnce(T) -> Option<U>) -> Known<U> {
        match self {
            Self::Unknown => Known::Unknown,
            Self::Absent => Known::Absent,
            Self::Found(value) => of(value).map_or(Known::Absent, Known::Found),
        }
    }
}

/// All that has been looked up for one review.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    known: HashMap<Lookup, Option<Fact>>,
}

impl Facts {
    /// Remembers what a lookup found: nothing, or a fact of the lookup's own kind.
    pub fn insert(&mut self, lookup: Lookup, fact: Option<Fact>) {
        self.known.insert(lookup, fact);
    }

    /// What is known about it.
    #[must_use]
    pub fn get(&self, lookup: &Lookup) -> Known<&Fact> {
        match self.known.get(lookup) {
            None => Known::Unknown,
            Some(None) => Known::Absent,
            Some(Some(fact)) => Known::Found(fact),
        }
    }

    /// What is known about a workload.
    #[must_use]
    pub fn workload(&self, lookup: &Lookup) -> Known<&WorkloadFacts> {
        self.get(lookup).and_then(|fact| match fact {
            Fact::Workload(workload) => Some(&**workload),
            _ => None,
        })
    }

    /// What is known about a template.
    #[must_use]
    pub fn template(&self, lookup: &Lookup) -> Known<&FlexDaemonsetTemplateSpec> {
        self.get(lookup).and_then(|fact| match fact {
            Fact::Template(template) => Some(&**template),
            _ => None,
        })
    }

    /// What is known about all nodes together.
    #[must_use]
    pub fn cluster(&self) -> Known<&ClusterPlatforms> {
        self.get(&Lookup::Cluster).and_then(|fact| match fact {
            Fact::Cluster(cluster) => Some(&**cluster),
            _ => None,
        })
    }

    /// What is known about an image.
    #[must_use]
    pub fn image(&self, lookup: &Lookup) -> Known<&ImageFact> {
        self.get(lookup).and_then(|fact| match fact {
            Fact::Image(image) => Some(image),
            _ => None,
        })
    }

    /// What is known about a namespace's rules.
    #[must_use]
    pub fn rules(&self, lookup: &Lookup) -> Known<&[Arc<Rule>]> {
        self.get(lookup).and_then(|fact| match fact {
            Fact::Rules(rules) => Some(&**rules),
            _ => None,
        })
    }

    /// What is known about a pod's place.
    #[must_use]
    pub fn place(&self, lookup: &Lookup) -> Known<&Place> {
        self.get(lookup).and_then(|fact| match fact {
            Fact::Place(place) => Some(place),
            _ => None,
        })
    }

    /// What is known about a node.
    #[must_use]
    pub fn node(&self, lookup: &Lookup) -> Known<&NodeFacts> {
        self.get(lookup).and_then(|fact| match fact {
            Fact::Node(node) => Some(&**node),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_looked_for_differs_from_what_is_not_there() {
        let lookup = Lookup::Node { name: "n".to_owned() };
        let mut facts = Facts::default();
        assert_eq!(facts.node(&lookup), Known::Unknown);
        facts.insert(lookup.clone(), None);
        assert_eq!(facts.node(&lookup), Known::Absent);
        facts.insert(lookup.clone(), Some(Fact::Node(Arc::default())));
        assert_eq!(facts.node(&lookup), Known::Found(&NodeFacts::default()));
    }
}
