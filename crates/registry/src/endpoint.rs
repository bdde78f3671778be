use podwright_core::image::Reference;

use crate::{
    Keychain, Settings,
    credentials::{Class, Credential},
};

/// The host behind the name of Docker Hub.
const HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// Somebody who may have an image: the registry of its name, or a mirror of that.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// As people and credentials call it.
    pub(crate) name: String,
    /// As the network calls it.
    pub(crate) authority: String,
    pub(crate) insecure: bool,
    /// The image's repository there.
    pub(crate) repository: String,
}

/// An endpoint and what to show it: one after the other, or nothing at all.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) endpoint: Endpoint,
    pub(crate) credentials: Vec<Credential>,
}

/// All ways to an image, in the order in which they are tried: mirrors first, the registry itself last. Each gets the
/// credentials that are for it: a mirror never sees those of the registry.
pub(crate) fn routes(reference: &Reference, settings: &Settings, keychain: &Keychain) -> Vec<Route> {
    let own = settings.hosts.get(reference.registry());
    let mirrors = own.map(|host| host.mirrors.as_slice()).unwrap_or_default();
    let endpoint = |name: &str, repository: String| Endpoint {
        name: name.to_owned(),
        authority: if name == HUB.0 { HUB.1.to_owned() } else { name.to_owned() },
        insecure: settings.hosts.get(name).is_some_and(|host| host.insecure),
        repository,
    };
    let repository = reference.repository();
    mirrors
        .iter()
        .map(|mirror| {
            let path = mirror
                .prefix
                .as_ref()
                .map_or_else(|| repository.to_owned(), |at| format!("{at}/{repository}"));
            endpoint(&mirror.host, path)
        })
        .chain([endpoint(reference.registry(), repository.to_owned())])
        .map(|endpoint| Route {
            credentials: keychain.matching(&endpoint.name, &endpoint.repository),
            endpoint,
        })
        .collect()
}

/// Whose answers the caller may have: those that its credentials get, and those that everybody gets.
pub(crate) fn classes(routes: &[Route]) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for class in
        routes.iter().flat_map(|route| &route.credentials).map(Credential::class).chain([Class::Anonymous])
    {
        if !classes.contains(&class) {
            classes.push(class);
        }
    }
    classes
}

impl Endpoint {
    pub(crate) fn scheme(&self) -> &'static str {
        if self.insecure { "http" } else { "https" }
    }

    /// What a token has to be good for.
    pub(crate) fn scope(&self) -> String {
        format!("repository:{}:pull", self.repository)
    }
}
