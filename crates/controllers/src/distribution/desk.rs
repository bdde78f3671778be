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
    api::{ListParams, Patch, PatchParams},
    core::DeserializeGuard,
    runtime::reflector::ObjectRef,
};
use podwright_api::distributor::PodDistributor;
use podwright_core::distribution::{Ask, Ledger, Place, Rule, Scene, Sequence, Ticket, Weights};
use serde_json::json;
use tokio::{
    sync::{OnceCell, mpsc, oneshot},
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
/// How long it is tried at least, for whoever has waited that long already.
const SOME_PATIENCE: Duration = Duration::from_millis(200);

/// How many workloads are remembered before all are forgotten.
const MAKERS: usize = 50_000;
/// How often rules are looked at live while some go at that very moment.
const LOOKS: usize = 5;

type Key = (String, String);

/// Gives places to pods.
#[derive(Clone)]
pub struct Desk {
    client: Client,
    census: Census,
    metrics: DistributionMetrics,
    /// How long it is tried to write places down.
    patience: Duration,
    counters: Arc<Mutex<HashMap<Key, mpsc::UnboundedSender<Order>>>>,
    /// Workloads that have asked for a pod before.
    makers: Arc<Mutex<HashMap<Key, Arc<OnceCell<()>>>>>,
}

struct Order {
    ask: Ask,
    since: Instant,
    answer: oneshot::Sender<Option<Place>>,
}

/// One rule's counter.
struct Counter {
    desk: Desk,
    key: Key,
    /// The rule as we last wrote or read it, which may be newer than what the watch has told.
    latest: Option<Arc<PodDistributor>>,
    sequence: Option<(Weights, Sequence)>,
    /// Places that could not be written down, to be written with the next.
    unwritten: Vec<Ticket>,
}

impl Desk {
    /// Gives places by these rules, to pods for which the API server waits so long.
    #[must_use]
    pub fn new(client: Client, census: Census, metrics: DistributionMetrics, timeout: Duration) -> Self {
        // A place that is not written down may cost the ratio, a pod that slips by is made anew: so nearly all of the time.
        let patience = timeout.mul_f64(0.7);
        Self { client, census, metrics, patience, counters: Arc::default(), makers: Arc::default() }
    }

    /// What counting rests on.
    #[must_use]
    pub const fn census(&self) -> &Census {
        &self.census
    }

    /// The rules of a namespace. When a workload asks for a pod for the first time, they are looked at live, once: it and its rule
    /// are often created together, and the watch may not have told of the rule yet.
    pub async fn rules(&self, namespace: &str, maker: Option<&str>) -> Option<Arc<[Arc<Rule>]>> {
        if let Some(maker) = maker {
            let first = self.first_time((namespace.to_owned(), maker.to_owned()));
            first.get_or_init(|| self.look(namespace)).await;
        }
        self.census.rules(namespace)
    }

    fn first_time(&self, maker: Key) -> Arc<OnceCell<()>> {
        let mut makers = self.makers.lock().unwrap_or_else(PoisonError::into_inner);
        if makers.len() >= MAKERS {
            makers.clear();
        }
        makers.entry(maker).or_default().clone()
    }

    /// Looks at a namespace's rules live. Whoever cannot goes by what the watch has told.
    async fn look(&self, namespace: &str) {
        let api: Api<DeserializeGuard<PodDistributor>> = Api::namespaced(self.client.clone(), namespace);
        for _ in 0..LOOKS {
            let departures = self.census.departures();
            let rules: Vec<PodDistributor> = match api.list(&ListParams::default()).await {
                Ok(list) => list.items.into_iter().filter_map(|rule| rule.0.ok()).collect(),
                Err(error) => {
                    tracing::warn!(%namespace, %error, "failed to look at the rules of a namespace");
                    return;
                }
            };
            if self.census.learn(namespace, &rules, departures) {
                return;
            }
        }
    }

    /// A place for the pod; none if the rule gives none. In a dry run nothing is written down.
    pub async fn place(&self, namespace: &str, rule: &str, ask: &Ask, dry_run: bool) -> Option<Place> {
        let key = (namespace.to_owned(), rule.to_owned());
        if dry_run {
            let mut counter = self.counter(key);
            let object = counter.newest().await.ok().flatten()?;
            return counter.choose(&object, std::slice::from_ref(ask))?.1.pop().flatten();
        }
        let (answer, answered) = oneshot::channel();
        self.queue(key, Order { ask: ask.clone(), since: Instant::now(), answer });
        answered.await.ok().flatten()
    }

    fn counter(&self, key: Key) -> Counter {
        Counter { desk: self.clone(), key, latest: None, sequence: None, unwritten: Vec::new() }
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
        let waited = orders.iter().map(|order| order.since.elapsed()).max().unwrap_or_default();
        let patience = self.desk.patience.saturating_sub(waited).max(SOME_PATIENCE);
        let places = match tokio::time::timeout(patience, self.commit(&asks)).await {
            Ok(Ok(places)) => places,
            failed => {
                let error = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => format!("not within {} ms", patience.as_millis()),
                };
                let (namespace, rule) = &self.key;
                tracing::warn!(%namespace, %rule, %error, "places were given that could not be written down");
                self.desk.metrics.unrecorded.inc_by(asks.len() as u64);
                self.give_unwritten(&asks)
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
            let Some(object) = self.newest().await? else {
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
                    self.unwritten.clear();
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

    /// Places that no other replica knows of yet: better a little off than nowhere.
    fn give_unwritten(&mut self, asks: &[Ask]) -> Vec<Option<Place>> {
        let chosen = self.known().and_then(|object| self.choose(&object, asks));
        let Some((ledger, places)) = chosen else { return Vec::new() };
        let ids: Vec<&str> = asks.iter().map(|ask| ask.ticket.as_str()).collect();
        self.unwritten.extend(ledger.of(&ids));
        places
    }

    /// The rule, live if the watch has not told of it, or no longer does.
    async fn newest(&self) -> Result<Option<Arc<PodDistributor>>, kube::Error> {
        if let Some(known) = self.known() {
            return Ok(Some(known));
        }
        let api: Api<PodDistributor> = Api::namespaced(self.desk.client.clone(), &self.key.0);
        Ok(api.get_opt(&self.key.1).await?.map(Arc::new))
    }

    /// The rule as the watch has told it or as we have written it, whichever is newer.
    fn known(&self) -> Option<Arc<PodDistributor>> {
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
        let mut ledger = Ledger::read(&rule.status.reserved);
        ledger.add(&self.unwritten);
        let held = asks.iter().filter_map(|ask| ask.held.as_deref());
        let view = census.roster.view(&rule.namespace, ledger.ids().chain(held));
        let members = census.members(&rule, &view.groups);
        let places = ledger.place(
            asks,
            &mut Scene {
                rule: &rule,
                weights: &weights,
                sequence,
                counts: &|revision| census.counts(&rule, &members, revision),
                seen: &|ticket| view.seen.get(ticket).copied(),
                now: jiff::Timestamp::now().as_millisecond(),
            },
        );
        Some((ledger, places))
    }
}

/// Kubernetes promises that versions of one kind of object can be compared as numbers.
fn version(object: &PodDistributor) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}
