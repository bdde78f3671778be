//! A small world to place pods in: nodes, images, configuration.

mod decisions;
mod gating;
mod merging;
mod peer_pods;
mod properties;
mod skipping;

use std::{collections::BTreeMap, sync::Arc};

use podwright_api::config::Config;
use serde_json::{Value, json};

use super::*;
use crate::{
    architecture::Census,
    image::Platforms,
    mutate::{Fact, ImageFact},
};

/// Nodes, images and configuration.
#[derive(Clone, Debug, Default)]
struct World {
    config: String,
    census: Census,
    images: BTreeMap<String, Option<Platforms>>,
}

/// amd64 and arm64 nodes, the latter tainted as GKE taints them, and images named by what they offer.
fn world() -> World {
    let mut world =
        World::default().node("amd64", &[]).node("arm64", &[("kubernetes.io/arch", "arm64", "NoSchedule")]);
    for (image, platforms) in [
        ("amd", &["linux/amd64"][..]),
        ("arm", &["linux/arm64"]),
        ("both", &["linux/amd64", "linux/arm64"]),
        ("all", &["linux/amd64", "linux/arm64", "linux/s390x", "windows/amd64"]),
        ("mainframe", &["linux/s390x"]),
    ] {
        world = world.image(image, platforms);
    }
    world
}

impl World {
    fn config(mut self, yaml: &str) -> Self {
        self.config = yaml.to_owned();
        self
    }

    fn node(mut self, architecture: &str, taints: &[(&str, &str, &str)]) -> Self {
        let labels = [(keys::ARCH_LABEL.to_owned(), architecture.to_owned())].into();
        self.census.note(architecture, &labels, taints.iter().copied());
        self
    }

    fn windows_node(mut self) -> Self {
        let labels = [(keys::ARCH_LABEL, "amd64"), (keys::OS_LABEL, "windows")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.census.note("windows", &labels.into(), []);
        self
    }

    fn image(mut self, name: &str, platforms: &[&str]) -> Self {
        let platforms = platforms.iter().map(|one| one.parse().unwrap()).collect();
        self.images.insert(name.to_owned(), Some(platforms));
        self
    }

    fn mutator(&self) -> Architecture {
        let config = Config::read(&self.config).unwrap();
        config.check().unwrap();
        Architecture::new(&config)
    }

    /// What this world knows. An image that is not in it is one whose registry does not answer.
    fn answer(&self, lookup: &Lookup) -> Fact {
        match lookup {
            Lookup::Cluster => Fact::Cluster(Arc::new(self.census.platforms())),
            Lookup::Image(image) => {
                let name = image.reference.repository().trim_start_matches("library/");
                Fact::Image(match self.images.get(name) {
                    Some(Some(platforms)) => ImageFact::Offers(Arc::new(platforms.clone())),
                    _ => ImageFact::Unknown("registry.test: 503 Service Unavailable".to_owned()),
                })
            }
            other => panic!("nobody asks for {other}"),
        }
    }

    fn decided(&self, decide: impl Fn(&Facts) -> Review) -> (Outcome, Vec<Lookup>) {
        let (mut facts, mut asked) = (Facts::default(), Vec::new());
        for _ in 0..3 {
            match decide(&facts) {
                Review::Done(outcome) => return (outcome, asked),
                Review::Needs(needs) => {
                    for lookup in needs {
                        facts.insert(lookup.clone(), Some(self.answer(&lookup)));
                        asked.push(lookup);
                    }
                }
            }
        }
        panic!("it asks for facts without end: {asked:?}");
    }

    fn review(&self, pod: &Value) -> (Outcome, Vec<Lookup>) {
        let (view, mutator) = (view(pod), self.mutator());
        let request = Request { ask: Ask::Create, namespace: "default", uid: "1", dry_run: false };
        self.decided(|facts| mutator.review(&request, &view, facts))
    }

    fn finish(&self, pod: &Value, expired: bool) -> Outcome {
        let (view, mutator) = (view(pod), self.mutator());
        self.decided(|facts| mutator.finish("default", &view, facts, expired)).0
    }

    /// The pod as it is stored, with what its author is told.
    fn admitted(&self, pod: &Value) -> (Value, Vec<String>) {
        let (outcome, _) = self.review(pod);
        assert_eq!(outcome.denial, None);
        (patched(pod, &outcome), outcome.warnings)
    }

    /// The same, where nobody has to be told anything.
    fn placed(&self, pod: &Value) -> Value {
        let (pod, warnings) = self.admitted(pod);
        assert_eq!(warnings, Vec::<String>::new());
        pod
    }
}

fn view(pod: &Value) -> PodView {
    PodView::read(&pod.to_string()).unwrap()
}

fn patched(pod: &Value, outcome: &Outcome) -> Value {
    let mut pod = pod.clone();
    json_patch::patch(&mut pod, &outcome.patch).unwrap();
    pod
}

/// A pod with a container for each image, pulled if not present.
fn pod(images: &[&str]) -> Value {
    let containers: Vec<Value> = images
        .iter()
        .enumerate()
        .map(|(index, image)| json!({"name": format!("c{index}"), "image": format!("{image}:1")}))
        .collect();
    json!({"metadata": {"name": "p"}, "spec": {"containers": containers}})
}

fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let field = field.replace("~1", "/");
    let mut at = &mut pod;
    for token in parent.split('/').skip(1) {
        at = &mut at[token.replace("~1", "/")];
    }
    at[field] = value;
    pod
}

const TERMS: &str =
    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
const PREFERRED: &str = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";

fn terms(pod: &Value) -> &Value {
    pod.pointer(TERMS).unwrap_or(&Value::Null)
}

fn arch_in(values: &[&str]) -> Value {
    json!({"key": "kubernetes.io/arch", "operator": "In", "values": values})
}

fn arm_toleration() -> Value {
    json!({"key": "kubernetes.io/arch", "operator": "Equal", "value": "arm64", "effect": "NoSchedule"})
}
