//! What must hold at every moment of a rollout, watched beside each test.
//!
//! The API server tells of a namespace's pods in the order in which they changed, so each state that is seen here has really
//! been.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use tokio::task::JoinHandle;

/// How long a node may hold two pods: what the API needs to tell of the first one's end.
const TWO_PODS: Duration = Duration::from_secs(1);

/// What the watcher is told by the test.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// How many nodes should have a pod.
    pub(crate) slots: AtomicUsize,
    /// How many of them may be without an available one when a pod that serves is taken away.
    pub(crate) budget: AtomicUsize,
    /// How long a node that had a serving pod may be without one, in milliseconds; 0 is no bound.
    pub(crate) bare_millis: AtomicU64,
    /// The test itself takes pods away or puts two on a node.
    pub(crate) lenient: AtomicBool,
}

/// Watches until it is asked what it saw.
pub(crate) struct Invariants {
    task: JoinHandle<()>,
    seen: Arc<Mutex<Seen>>,
    bounds: Arc<Bounds>,
}

#[derive(Debug, Default)]
struct Seen {
    pods: BTreeMap<String, Known>,
    crowded: BTreeMap<String, Instant>,
    wrong: Vec<String>,
    most_away: usize,
    /// Nodes that had a serving pod and have none, and since when.
    bare: BTreeMap<String, Instant>,
    served: BTreeSet<String>,
    longest_bare: Duration,
    taken: usize,
}

#[derive(Clone, Debug)]
struct Known {
    node: String,
    serving: bool,
    over: bool,
    deleting: bool,
}

impl Invariants {
    pub(crate) fn watch(client: Client, namespace: &str, bounds: Arc<Bounds>) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let pods: Api<Pod> = Api::namespaced(client, namespace);
        let (shared, watched) = (seen.clone(), bounds.clone());
        let task = tokio::spawn(async move {
            let mut events = watcher(pods, watcher::Config::default()).default_backoff().boxed();
            while let Some(event) = events.next().await {
                match event {
                    Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                        shared.lock().unwrap().apply(&pod, &watched);
                    }
                    Ok(watcher::Event::Delete(pod)) => {
                        let mut seen = shared.lock().unwrap();
                        seen.pods.remove(&pod.uid().unwrap_or_default());
                        seen.look_for_crowds(&watched);
                        seen.look_for_bare_nodes(&watched);
                    }
                    Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => {}
                }
            }
        });
        Self { task, seen, bounds }
    }

    /// What did not hold, and in a line what was seen.
    pub(crate) fn verdict(self) -> Result<String, String> {
        self.task.abort();
        let mut seen = self.seen.lock().unwrap();
        // What has lasted to the end shows in no event.
        seen.look_for_crowds(&self.bounds);
        seen.look_for_lasting_bareness(&self.bounds);
        if seen.wrong.is_empty() {
            return Ok(format!(
                "{} serving pods taken away, at most {} nodes bare at it, none longer than {:.1} s",
                seen.taken,
                seen.most_away,
                seen.longest_bare.as_secs_f64()
            ));
        }
        Err(seen.wrong.join("\n"))
    }
}

impl Seen {
    fn apply(&mut self, pod: &Pod, bounds: &Bounds) {
        let uid = pod.uid().unwrap_or_default();
        let now = Known::of(pod);
        let before = self.pods.insert(uid, now.clone());
        if before.as_ref().is_some_and(|before| before.serving)
            && now.deleting
            && !bounds.lenient.load(Ordering::Acquire)
        {
            self.taken += 1;
            let serving: BTreeSet<&String> =
                self.pods.values().filter(|pod| pod.serving).map(|pod| &pod.node).collect();
            let away = bounds.slots.load(Ordering::Acquire).saturating_sub(serving.len());
            self.most_away = self.most_away.max(away);
            let budget = bounds.budget.load(Ordering::Acquire);
            if away > budget {
                let text = format!(
                    "{} on {} was taken away: {away} nodes bare, {budget} allowed",
                    pod.name_any(),
                    now.node
                );
                self.wrong.push(text);
            }
        }
        self.look_for_crowds(bounds);
        self.look_for_bare_nodes(bounds);
    }

    fn look_for_bare_nodes(&mut self, bounds: &Bounds) {
        let serving: BTreeSet<String> =
            self.pods.values().filter(|pod| pod.serving).map(|pod| pod.node.clone()).collect();
        let limit = Duration::from_millis(bounds.bare_millis.load(Ordering::Acquire));
        for node in &serving {
            let Some(since) = self.bare.remove(node) else { continue };
            let bare = since.elapsed();
            self.longest_bare = self.longest_bare.max(bare);
            if !limit.is_zero() && bare > limit {
                self.wrong.push(format!("{node} was bare for {:.1} s", bare.as_secs_f64()));
            }
        }
        for node in self.served.difference(&serving) {
            self.bare.entry(node.clone()).or_insert_with(Instant::now);
        }
        self.served.extend(serving);
    }

    fn look_for_lasting_bareness(&mut self, bounds: &Bounds) {
        let limit = Duration::from_millis(bounds.bare_millis.load(Ordering::Acquire));
        for (node, since) in self.bare.iter().filter(|(_, since)| !limit.is_zero() && since.elapsed() > limit)
        {
            self.wrong.push(format!("{node} has been bare for {:.1} s", since.elapsed().as_secs_f64()));
        }
    }

    fn look_for_crowds(&mut self, bounds: &Bounds) {
        let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
        for pod in self.pods.values().filter(|pod| !pod.node.is_empty() && !pod.over) {
            *counts.entry(&pod.node).or_default() += 1;
        }
        let crowded: BTreeSet<String> =
            counts.into_iter().filter(|(_, count)| *count > 1).map(|(node, _)| node.clone()).collect();
        if bounds.lenient.load(Ordering::Acquire) {
            self.crowded.clear();
            return;
        }
        for (node, since) in &self.crowded {
            let held = since.elapsed();
            if held > TWO_PODS {
                self.wrong.push(format!("{node} held two pods for {:.1} s", held.as_secs_f64()));
            }
        }
        self.crowded.retain(|node, since| crowded.contains(node) && since.elapsed() <= TWO_PODS);
        for node in crowded {
            self.crowded.entry(node).or_insert_with(Instant::now);
        }
    }
}

impl Known {
    fn of(pod: &Pod) -> Self {
        let deleting = pod.metadata.deletion_timestamp.is_some();
        let status = pod.status.clone().unwrap_or_default();
        let ready = status
            .conditions
            .iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let over = matches!(status.phase.as_deref(), Some("Failed" | "Succeeded"));
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        Self { node, serving: ready && !deleting && !over, over, deleting }
    }
}
