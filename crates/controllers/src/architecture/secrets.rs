//! Pull secrets, read by their names when an image needs them: they are never listed and never watched.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{Api, Client};
use podwright_core::mutate::ImageLookup;

/// How long what was read is used again: a burst of pods reads its Secret once, and a corrected one counts soon.
const FRESH: Duration = Duration::from_secs(10);
/// How much of that is kept.
const KEPT: usize = 1000;

/// Reads pull secrets of pods and of their ServiceAccounts.
pub struct PullSecrets<T> {
    client: Client,
    read: fn(&Secret) -> Result<T, String>,
    secrets: Recent<(String, String), Option<Arc<T>>>,
    accounts: Recent<(String, String), Vec<String>>,
}

/// What was found for an image.
#[derive(Debug)]
pub struct Found<T> {
    /// What could be read.
    pub secrets: Vec<Arc<T>>,
    /// What could not, and why; never what is in it.
    pub complaints: Vec<String>,
}

impl<T> PullSecrets<T> {
    /// None read yet. `read` makes of a Secret what is wanted of it.
    pub fn new(client: Client, read: fn(&Secret) -> Result<T, String>) -> Self {
        Self { client, read, secrets: Recent::default(), accounts: Recent::default() }
    }

    /// The pull secrets that count for an image: the pod's own, else its ServiceAccount's, as the API server has it.
    pub async fn of(&self, lookup: &ImageLookup) -> Found<T> {
        let mut found = Found { secrets: Vec::new(), complaints: Vec::new() };
        let names = if lookup.secrets.is_empty() {
            self.account(&lookup.namespace, &lookup.service_account).await.unwrap_or_else(|complaint| {
                found.complaints.push(complaint);
                Vec::new()
            })
        } else {
            lookup.secrets.clone()
        };
        for name in names {
            match self.secret(&lookup.namespace, &name).await {
                Ok(secret) => found.secrets.extend(secret),
                Err(complaint) => found.complaints.push(complaint),
            }
        }
        found
    }

    /// A Secret by name; none if there is none, which the kubelet passes over too.
    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Arc<T>>, String> {
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(known) = self.secrets.get(&key) {
            return Ok(known);
        }
        let found = Api::<Secret>::namespaced(self.client.clone(), namespace).get_opt(name).await;
        let found = found.map_err(|error| format!("Secret {namespace}/{name} cannot be read: {error}"))?;
        let read = found.as_ref().map(self.read).transpose();
        let read = read.map_err(|error| format!("Secret {namespace}/{name} is no pull secret: {error}"))?;
        let read = read.map(Arc::new);
        self.secrets.put(key, read.clone());
        Ok(read)
    }

    async fn account(&self, namespace: &str, name: &str) -> Result<Vec<String>, String> {
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(known) = self.accounts.get(&key) {
            return Ok(known);
        }
        let found = Api::<ServiceAccount>::namespaced(self.client.clone(), namespace).get_opt(name).await;
        let found =
            found.map_err(|error| format!("ServiceAccount {namespace}/{name} cannot be read: {error}"))?;
        let secrets = found.and_then(|account| account.image_pull_secrets).unwrap_or_default();
        let names: Vec<String> = secrets.into_iter().map(|secret| secret.name).collect();
        self.accounts.put(key, names.clone());
        Ok(names)
    }
}

/// What was found a moment ago.
struct Recent<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> Recent<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(key).filter(|(since, _)| since.elapsed() < FRESH).map(|(_, value)| value.clone())
    }

    fn put(&self, key: K, value: V) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEPT {
            all.retain(|_, (since, _)| since.elapsed() < FRESH);
        }
        if all.len() < KEPT {
            all.insert(key, (Instant::now(), value));
        }
    }
}
