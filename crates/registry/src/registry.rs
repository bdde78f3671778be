use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use moka::{policy::EvictionPolicy, sync::Cache};
use podwright_core::image::{Platforms, PullPolicy, Reference};

use crate::{
    Keychain, LookupError, LookupResult, Observer, Settings, SettingsError,
    auth::Tokens,
    cache::Memory,
    credentials::Class,
    endpoint::{self, Route},
    flight::Flights,
    host::Host,
    lookup::{Found, Lookup, Missing},
    session::Wire,
    transport::Transport,
};

/// The time, given from outside so that a test can let a week pass.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// How many hosts are known at a time. Names of images come from users, so there is no end to them.
const MOST_HOSTS: u64 = 1024;
/// How many lookups are under way at a time.
const MOST_LOOKUPS: usize = 2048;
/// How many images are warmed up at a time: admission comes first.
const WARMED_AT_ONCE: usize = 4;

/// Knows the platforms of images: asks their registries, and remembers. Cheap to clone.
#[derive(Clone)]
pub struct Registry(Arc<Shared>);

struct Shared {
    settings: Arc<Settings>,
    wire: Wire,
    memory: Memory,
    hosts: Cache<String, Arc<Host>>,
    flights: Flights<Wish, Outcome>,
}

/// Who wants the same: the same name, and the same credentials to show for it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Wish {
    reference: Reference,
    classes: Vec<Class>,
}

type Outcome = Result<(Arc<Platforms>, LookupResult), LookupError>;

/// An image to be looked up before anybody asks for it.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Its name.
    pub reference: Reference,
    /// How old an answer may be.
    pub policy: PullPolicy,
    /// What may be shown to its registry.
    pub keychain: Keychain,
}

/// How warming up went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Warmed {
    /// How many images are known now.
    pub known: usize,
    /// How many are not.
    pub failed: usize,
}

impl Registry {
    /// Fails only for settings that can never work.
    pub fn new(settings: Settings, observer: Arc<dyn Observer>) -> Result<Self, SettingsError> {
        Self::with_clock(settings, observer, Arc::new(Instant::now))
    }

    /// The same by another clock, which decides what is too old; waiting is always done in real time.
    pub fn with_clock(
        settings: Settings,
        observer: Arc<dyn Observer>,
        clock: Clock,
    ) -> Result<Self, SettingsError> {
        let transport = Transport::new(&settings)?;
        let settings = Arc::new(settings);
        Ok(Self(Arc::new(Shared {
            wire: Wire { transport, tokens: Tokens::new(), observer, clock },
            memory: Memory::new(Arc::clone(&settings)),
            hosts: Cache::builder().max_capacity(MOST_HOSTS).eviction_policy(EvictionPolicy::lru()).build(),
            flights: Flights::new(MOST_LOOKUPS),
            settings,
        })))
    }

    /// The platforms of an image, never none. After `deadline` the caller gets what was known before, or a timeout; the
    /// lookup goes on, so that the next caller finds the answer.
    ///
    /// Must be called within a tokio runtime.
    pub async fn platforms(
        &self,
        reference: &Reference,
        policy: PullPolicy,
        keychain: &Keychain,
        deadline: Instant,
    ) -> Result<Arc<Platforms>, LookupError> {
        let begun = Instant::now();
        let outcome = self.answer(reference, policy, keychain, deadline).await;
        let result = match &outcome {
            Ok((_, result)) => *result,
            Err(error) => LookupResult::from(error),
        };
        self.0.wire.observer.lookup(result, begun.elapsed());
        outcome.map(|(platforms, _)| platforms)
    }

    /// The platforms of an image if they are known and hold without asking.
    #[must_use]
    pub fn peek(
        &self,
        reference: &Reference,
        policy: PullPolicy,
        keychain: &Keychain,
    ) -> Option<Arc<Platforms>> {
        let routes = endpoint::routes(reference, &self.0.settings, keychain);
        self.0.memory.fresh(reference, policy, &endpoint::classes(&routes), (self.0.wire.clock)())
    }

    /// Looks up images before anybody asks for them, a few at a time.
    pub async fn warm(&self, wanted: impl IntoIterator<Item = Wanted>) -> Warmed {
        let patience = self.0.settings.patience;
        stream::iter(wanted)
            .map(|Wanted { reference, policy, keychain }| async move {
                self.platforms(&reference, policy, &keychain, Instant::now() + patience).await.is_ok()
            })
            .buffer_unordered(WARMED_AT_ONCE)
            .fold(Warmed::default(), |Warmed { known, failed }, ok| async move {
                Warmed { known: known + usize::from(ok), failed: failed + usize::from(!ok) }
            })
            .await
    }

    /// What all that is remembered takes, in bytes.
    #[must_use]
    pub fn cached_bytes(&self) -> u64 {
        self.0.memory.bytes()
    }

    async fn answer(
        &self,
        reference: &Reference,
        policy: PullPolicy,
        keychain: &Keychain,
        deadline: Instant,
    ) -> Outcome {
        let Shared { settings, wire, memory, flights, .. } = &*self.0;
        let routes = endpoint::routes(reference, settings, keychain);
        let classes = endpoint::classes(&routes);
        let now = (wire.clock)();
        if let Some(platforms) = memory.fresh(reference, policy, &classes, now) {
            return Ok((platforms, LookupResult::Hit));
        }
        if let Some(error) = memory.error(reference, &classes, now) {
            return Err(error);
        }
        let wish = Wish { reference: reference.clone(), classes };
        let flight = flights.join(&wish, || {
            let (shared, wish) = (Arc::clone(&self.0), wish.clone());
            async move { shared.fly(&wish, &routes).await }
        });
        let landed = match flight {
            Some(flight) => tokio::time::timeout_at(deadline.into(), flight).await,
            None => Ok(Some(Err(unavailable(reference, "too many lookups are under way")))),
        };
        let error = match landed {
            Ok(Some(Err(error))) if error.is_transient() => error,
            Ok(Some(outcome)) => return outcome,
            Ok(None) => unavailable(reference, "the lookup broke off"),
            Err(_) => timeout(reference),
        };
        let stale = memory.stale(reference, &wish.classes);
        stale.map(|platforms| (platforms, LookupResult::Stale)).ok_or(error)
    }
}

impl Shared {
    /// The lookup itself, which all share who want the same. What it finds is remembered before it lands.
    async fn fly(&self, wish: &Wish, routes: &[Route]) -> Outcome {
        let reference = &wish.reference;
        let deadline = tokio::time::Instant::now() + self.settings.patience.max(Duration::from_millis(1));
        let lookup = Lookup { reference, routes, wire: &self.wire, memory: &self.memory, deadline };
        let found = tokio::time::timeout_at(deadline, lookup.run(|authority| self.host(authority))).await;
        let now = (self.wire.clock)();
        match found {
            Ok(Ok(Found { platforms, class, revalidated })) => {
                self.memory.keep_answer(reference, class, &platforms, now);
                Ok((platforms, if revalidated { LookupResult::Revalidated } else { LookupResult::Fetched }))
            }
            Ok(Err(Missing { error, refused })) => {
                if !error.is_transient() {
                    self.memory.keep_error(reference, &wish.classes, &refused, &error, now);
                }
                Err(error)
            }
            Err(_) => Err(timeout(reference)),
        }
    }

    fn host(&self, authority: &str) -> Arc<Host> {
        self.hosts
            .get_with_by_ref(authority, || Arc::new(Host::new(&self.settings, Arc::clone(&self.wire.clock))))
    }
}

fn unavailable(reference: &Reference, reason: &str) -> LookupError {
    let (image, registry) = (reference.to_string(), reference.registry().to_owned());
    LookupError::Unavailable { image, registry, reason: reason.to_owned() }
}

fn timeout(reference: &Reference) -> LookupError {
    LookupError::Timeout { image: reference.to_string(), registry: reference.registry().to_owned() }
}
