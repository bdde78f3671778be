//! Everything that a watch told, for states that pass too quickly to be met by asking now and then.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Instant,
};

use futures::StreamExt;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, watcher},
};
use tokio::{sync::watch, task::JoinHandle};

use crate::labs::soon;

/// Objects as they were, and when each state was told. Begun before a change, it misses nothing of what follows.
pub(crate) struct Record<K> {
    task: JoinHandle<()>,
    told: Arc<Mutex<Vec<(Instant, K)>>>,
}

impl<K> Drop for Record<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<K> Record<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Watches from now on.
    pub(crate) async fn begin(api: Api<K>) -> anyhow::Result<Self> {
        let told = Arc::new(Mutex::new(Vec::new()));
        let (send, mut begun) = watch::channel(false);
        let shared = told.clone();
        let task = tokio::spawn(async move {
            let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
            while let Some(event) = events.next().await {
                match event {
                    Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                        shared.lock().unwrap().push((Instant::now(), object));
                    }
                    Ok(watcher::Event::InitDone) => drop(send.send(true)),
                    // The watch is taken up again by itself.
                    Ok(watcher::Event::Init | watcher::Event::Delete(_)) | Err(_) => {}
                }
            }
        });
        begun.wait_for(|begun| *begun).await?;
        Ok(Self { task, told })
    }

    /// Waits until a state was told in which `look` finds something, and gives the first find, with its moment.
    pub(crate) async fn first<T>(
        &self,
        what: &str,
        look: impl Fn(&K) -> Option<T>,
    ) -> anyhow::Result<(Instant, T)> {
        let mut judged = 0;
        soon(|| {
            let told = self.told.lock().unwrap();
            let found = told[judged..].iter().find_map(|(at, object)| Some((*at, look(object)?)));
            judged = told.len();
            let last = told.last().map(|(_, object)| format!("{object:?}"));
            async move { found.ok_or_else(|| anyhow::anyhow!("never {what}; at last {last:?}")) }
        })
        .await
    }
}
