//! Where places are given: for each rule one counter, at which admissions queue.
//!
//! Whoever waits at a counter is served together: one compare-and-swap of the rule's ledger writes down all their places. If
//! another replica was faster, its places are counted and the choice is made again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::reflector::ObjectRef,
};
use podwright_api::distributor::PodDistributor;
use podwright_core::distribution::{Ask, Ledger, Place, Scene, Sequence, Weights};
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    DistributionMetrics,
    census::{self, Census},
};

/// How many are served at once.
const BATCH: usize = 1024;
/// While others keep coming, how long the first one waits for them, so that many are written down at once.
const GATHER: Duration = Duration::from_millis(8);
/// Others keep coming if somebody was served so recently.
const BUSY: Duration = Duration::from_millis(200);
/// How long a counter stays open without anybody coming.
const IDLE: Duration = Duration::from_mins(1);
/// How long it is tried to write places down. The API server waits two seconds for Versprei's webhook.
const PATIENCE: Duration = Duration::from_millis(1200);

/// How often it is counted again because pods have changed meanwhile.
const COUNTS: usize = 20;

type Key = (String, String);

/// Gives places to pods.
#[derive(Clone)]
pub struct Desk {
    client: Client,
    census: Census,
    metrics: DistributionMetrics,
    counters: Arc<Mutex<HashMap<Key, mpsc::UnboundedSender<Order>>>>,
}

struct Order {
    ask: Ask,
    answer: oneshot::Sender<Option<Place>>,
}

/// One rule's counter.
struct Counter {
    desk: Desk,
    key: Key,
    /// The rule as we last wrote or read it, which may be newer than what the watch has told.
    latest: Option<Arc<PodDistributor>>,
    sequence: Option<(Weights, Sequence)>,
}

impl Desk {
    /// Gives places by these rules.
    #[must_use]
    pub fn new(client: Client, census: Census, metrics: DistributionMetrics) -> Self {
        Self { client, census, metrics, counters: Arc::default() }
    }

    /// What counting rests on.
    #[must_use]
    pub const fn census(&self) -> &Census {
        &self.census
    }

    /// A place for the pod; none if the rule gives none. In a dry run nothing is written down.
    pub async fn place(&self, namespace: &str, rule: &str, ask: &Ask, dry_run: bool) -> Option<Place> {
        let key = (namespace.to_owned(), rule.to_owned());
        if dry_run {
            let mut counter = self.counter(key);
            let object = counter.newest()?;
            return counter.choose(&object, std::slice::from_ref(ask))?.1.pop().flatten();
        }
        let (answer, answered) = oneshot::channel();
        self.queue(key, Order { ask: ask.clone(), answer });
        answered.await.ok().flatten()
    }

    fn counter(&self, key: Key) -> Counter {
        Counter { desk: self.clone(), key, latest: None, sequence: None }
    }

    fn queue(&self, key: Key, order: Order) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let order = match counters.get(&key) {
            Some(counter) => match counter.send(order) {
                Ok(()) => return,
                Err(returned) => returned.0,
            },
            None => order,
        };
        let (orders, queue) = mpsc::unbounded_channel();
        // The receiver is at hand, so this cannot fail.
        let _ = orders.send(order);
        counters.insert(key.clone(), orders);
        tokio::spawn(self.counter(key).serve(queue));
    }
}

impl Counter {
    async fn serve(mut self, mut queue: mpsc::UnboundedReceiver<Order>) {
        let mut served: Option<Instant> = None;
        loop {
            let Ok(Some(first)) = tokio::time::timeout(IDLE, queue.recv()).await else {
                // Nobody can queue while the list of counters is held, so whoever came meanwhile is seen here.
                let mut counters = self.desk.counters.lock().unwrap_or_else(PoisonError::into_inner);
                if queue.is_empty() {
                    counters.remove(&self.key);
                    return;
                }
                continue;
            };
            if served.is_some_and(|served| served.elapsed() < BUSY) {
                tokio::time::sleep(GATHER).await;
            }
            let mut orders = vec![first];
            while orders.len() < BATCH
                && let Ok(order) = queue.try_recv()
            {
                orders.push(order);
            }
            // Somebody who has given up, or was answered by a timeout, must not take a place.
            orders.retain(|order| !order.answer.is_closed());
            if !orders.is_empty() {
                self.fill(orders).await;
            }
            served = Some(Instant::now());
        }
    }

    /// Gives places to all, and answers.
    async fn fill(&mut self, orders: Vec<Order>) {
        let asks: Vec<Ask> = orders.iter().map(|order| order.ask.clone()).collect();
        let places = match tokio::time::timeout(PATIENCE, self.commit(&asks)).await {
            Ok(Ok(places)) => places,
            failed => {
                let error = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => format!("not within {} ms", PATIENCE.as_millis()),
                };
                let (namespace, rule) = &self.key;
                tracing::warn!(%namespace, %rule, %error, "places were given that could not be written down");
                self.desk.metrics.unrecorded.inc_by(asks.len() as u64);
                self.unrecorded(&asks)
            }
        };
        let mut places = places.into_iter();
        for order in orders {
            // Whoever asked may have gone since.
            let _ = order.answer.send(places.next().flatten());
        }
    }

    /// Writes the places down; they count once that has succeeded.
    async fn commit(&mut self, asks: &[Ask]) -> Result<Vec<Option<Place>>, kube::Error> {
        let api: Api<PodDistributor> = Api::namespaced(self.desk.client.clone(), &self.key.0);
        let name = self.key.1.clone();
        loop {
            let Some(object) = self.newest() else {
                return Ok(Vec::new());
            };
            let Some((ledger, places)) = self.choose(&object, asks) else {
                return Ok(Vec::new());
            };
            let before = object.status.as_ref().map(|status| status.reserved.as_slice()).unwrap_or_default();
            let after = ledger.write();
            if after == before {
                return Ok(places);
            }
            // With the version that the choice rests on: another replica's write in between makes it fail.
            let patch = json!({"metadata": {"resourceVersion": object.resource_version()}, "status": {"reserved": after}});
            match api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(written) => {
                    self.desk.metrics.ledger_writes.inc();
                    self.latest = Some(Arc::new(written));
                    return Ok(places);
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    self.desk.metrics.ledger_conflicts.inc();
                    self.latest = api.get_opt(&name).await?.map(Arc::new);
                    if self.latest.is_none() {
                        return Ok(Vec::new());
                    }
                }
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Places that no other replica knows of: better a little off than nowhere.
    fn unrecorded(&mut self, asks: &[Ask]) -> Vec<Option<Place>> {
        let chosen = self.newest().and_then(|object| self.choose(&object, asks));
        chosen.map(|(_, places)| places).unwrap_or_default()
    }

    /// The rule as the watch has told it or as we know it, whichever is newer.
    fn newest(&self) -> Option<Arc<PodDistributor>> {
        let key = ObjectRef::new(&self.key.1).within(&self.key.0);
        let watched = self.desk.census.caches.rules.get(&key)?;
        let ours = self
            .latest
            .clone()
            .filter(|ours| ours.uid() == watched.uid() && version(ours) > version(&watched));
        Some(ours.unwrap_or(watched))
    }

    fn choose(&mut self, object: &PodDistributor, asks: &[Ask]) -> Option<(Ledger, Vec<Option<Place>>)> {
        let rule = census::rule(object);
        let weights = rule.weights().ok()?;
        if self.sequence.as_ref().is_none_or(|(known, _)| *known != weights) {
            self.sequence = Some((weights.clone(), Sequence::new(&weights)));
        }
        let (_, sequence) = self.sequence.as_mut()?;
        let census = &self.desk.census;
        let mut scene = Scene {
            rule: &rule,
            weights: &weights,
            sequence,
            counts: &|revision| census.counts(&rule, revision),
            seen: &|ticket| census.roster.has_seen(ticket),
            now: jiff::Timestamp::now().as_millisecond(),
        };
        // A pod that appears while we count would count twice or not at all.
        let mut attempts = 0..COUNTS;
        loop {
            let version = census.roster.version();
            let mut ledger = Ledger::read(&rule.status.reserved);
            let places = ledger.place(asks, &mut scene);
            if attempts.next().is_none() || census.roster.version() == version {
                return Some((ledger, places));
            }
        }
    }
}

/// Kubernetes promises that versions of one kind of object can be compared as numbers.
fn version(object: &PodDistributor) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}
