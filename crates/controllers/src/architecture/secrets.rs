//! Pull secrets, read by their names when an image needs them: they are never listed and never watched.

use std::{
    collections::HashMap,
    future::Future,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{Api, Client};
use podwright_core::mutate::ImageLookup;
use tokio::sync::OnceCell;

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
        let read = || async {
            let found = Api::<Secret>::namespaced(self.client.clone(), namespace).get_opt(name).await;
            let found =
                found.map_err(|error| format!("Secret {namespace}/{name} cannot be read: {error}"))?;
            let read = found.as_ref().map(self.read).transpose();
            let read =
                read.map_err(|error| format!("Secret {namespace}/{name} is no pull secret: {error}"))?;
            Ok(read.map(Arc::new))
        };
        self.secrets.get((namespace.to_owned(), name.to_owned()), read).await
    }

    async fn account(&self, namespace: &str, name: &str) -> Result<Vec<String>, String> {
        let read = || async {
            let found = Api::<ServiceAccount>::namespaced(self.client.clone(), namespace).get_opt(name).await;
            let found = found
                .map_err(|error| format!("ServiceAccount {namespace}/{name} cannot be read: {error}"))?;
            let secrets = found.and_then(|account| account.image_pull_secrets).unwrap_or_default();
            Ok(secrets.into_iter().map(|secret| secret.name).collect())
        };
        self.accounts.get((namespace.to_owned(), name.to_owned()), read).await
    }
}

/// What was found a moment ago. Those who ask for the same at once wait for one answer.
struct Recent<K, V>(Mutex<HashMap<K, Asked<V>>>);

/// When it was asked for, and the answer, once it is there.
type Asked<V> = (Instant, Arc<OnceCell<V>>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> Recent<K, V> {
    async fn get<F: Future<Output = Result<V, String>>>(
        &self,
        key: K,
        find: impl FnOnce() -> F,
    ) -> Result<V, String> {
        let cell = self.cell(key);
        cell.get_or_try_init(find).await.cloned()
    }

    fn cell(&self, key: K) -> Arc<OnceCell<V>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cell)) = all.get(&key).filter(|(since, _)| since.elapsed() < FRESH) {
            return cell.clone();
        }
        if all.len() >= KEPT {
            all.retain(|_, (since, _)| since.elapsed() < FRESH);
        }
        let cell = Arc::new(OnceCell::new());
        if all.len() < KEPT {
            all.insert(key, (Instant::now(), cell.clone()));
        }
        cell
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn who_asks_at_once_waits_for_one_answer_and_a_failure_is_not_kept() {
        let (recent, asked) = (Recent::<&str, usize>::default(), AtomicUsize::new(0));
        let find = || async {
            tokio::task::yield_now().await;
            Ok(asked.fetch_add(1, Ordering::Relaxed))
        };
        let found = tokio::join!(recent.get("a", find), recent.get("a", find), recent.get("b", find));
        assert!(found.0.is_ok() && found.0 == found.1 && found.0 != found.2, "{found:?}");
        let failing = || async { Err("away".to_owned()) };
        assert_eq!(recent.get("c", failing).await, Err("away".to_owned()));
        assert_eq!(recent.get("c", find).await, Ok(2));
    }
}
