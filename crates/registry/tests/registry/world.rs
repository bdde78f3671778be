use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use podwright_core::image::{Platforms, PullPolicy};
use podwright_lab::registry::{Proxy, User};
use podwright_registry::{
    Clock, DockerConfig, HostSettings, Keychain, LookupError, LookupResult, Observer, Registry, RequestKind,
    RequestResult, Settings,
};

/// Long enough for everything that ends by itself.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Settings under which these hosts are asked without TLS.
pub(crate) fn settings<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Settings {
    let insecure = || HostSettings { insecure: true, ..HostSettings::default() };
    Settings {
        hosts: hosts.into_iter().map(|host| (host.to_owned(), insecure())).collect(),
        ..Settings::default()
    }
}

pub(crate) fn registry(settings: Settings) -> Registry {
    Registry::new(settings, Arc::new(())).unwrap()
}

/// A keychain with one secret.
pub(crate) fn keychain(dockerconfigjson: &str) -> Keychain {
    Keychain::new([Arc::new(DockerConfig::from_dockerconfigjson(dockerconfigjson.as_bytes()).unwrap())])
}

pub(crate) fn keychain_of(user: User, host: &str) -> Keychain {
    keychain(&user.docker_config(host))
}

/// Asks with much time, for an image that may be on the node already.
pub(crate) async fn ask(
    registry: &Registry,
    image: &str,
    keychain: &Keychain,
) -> Result<Arc<Platforms>, LookupError> {
    ask_with(registry, image, PullPolicy::IfNotPresent, keychain).await
}

pub(crate) async fn ask_with(
    registry: &Registry,
    image: &str,
    policy: PullPolicy,
    keychain: &Keychain,
) -> Result<Arc<Platforms>, LookupError> {
    registry.platforms(&image.parse().unwrap(), policy, keychain, Instant::now() + LONG).await
}

/// What a lookup came to, in one word or list, for tables.
pub(crate) fn told(outcome: &Result<Arc<Platforms>, LookupError>) -> String {
    match outcome {
        Ok(platforms) => platforms.to_string(),
        Err(error) => error.class().to_owned(),
    }
}

/// Counts what happens.
#[derive(Default)]
pub(crate) struct Counts {
    lookups: Mutex<BTreeMap<LookupResult, usize>>,
    requests: Mutex<BTreeMap<(RequestKind, RequestResult), usize>>,
}

impl Counts {
    pub(crate) fn lookups(&self, result: LookupResult) -> usize {
        self.lookups.lock().unwrap().get(&result).copied().unwrap_or_default()
    }

    pub(crate) fn requests(&self, kind: RequestKind, result: RequestResult) -> usize {
        self.requests.lock().unwrap().get(&(kind, result)).copied().unwrap_or_default()
    }
}

impl Observer for Counts {
    fn lookup(&self, result: LookupResult, _took: Duration) {
        *self.lookups.lock().unwrap().entry(result).or_default() += 1;
    }

    fn request(&self, kind: RequestKind, result: RequestResult, _took: Duration) {
        *self.requests.lock().unwrap().entry((kind, result)).or_default() += 1;
    }
}

/// A clock that stands still until it is moved.
#[derive(Clone)]
pub(crate) struct Hands(Arc<Mutex<Instant>>);

impl Hands {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    pub(crate) fn pass(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }

    pub(crate) fn clock(&self) -> Clock {
        let hands = Arc::clone(&self.0);
        Arc::new(move || *hands.lock().unwrap())
    }
}

/// How often manifests were asked for by HEAD and by GET.
pub(crate) fn manifests(proxy: &Proxy) -> (usize, usize) {
    let seen = proxy.seen();
    let count = |method: &str| {
        seen.iter().filter(|seen| seen.method == method && seen.path.contains("/manifests/")).count()
    };
    (count("HEAD"), count("GET"))
}
