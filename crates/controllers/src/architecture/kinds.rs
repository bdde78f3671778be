//! Of which kinds the nodes are, kept up to date by their watch.

use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt, runtime::watcher};
use podwright_core::architecture::{Census, ClusterPlatforms};
use tokio::sync::watch;

/// Of which kinds the nodes are. Cheap to ask, however many there are.
#[derive(Clone, Debug)]
pub struct Kinds {
    counts: Arc<Mutex<Counts>>,
    current: Arc<watch::Sender<Arc<ClusterPlatforms>>>,
}

#[derive(Debug, Default)]
struct Counts {
    census: Census,
    /// While all nodes are listed anew: those that are still there.
    relisted: Option<Census>,
}

impl Default for Kinds {
    fn default() -> Self {
        Self { counts: Arc::default(), current: Arc::new(watch::Sender::default()) }
    }
}

impl Kinds {
    /// The kinds that there are.
    #[must_use]
    pub fn current(&self) -> Arc<ClusterPlatforms> {
        self.current.borrow().clone()
    }

    /// To be told when they change.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<ClusterPlatforms>> {
        self.current.subscribe()
    }

    /// Takes note of what the watch of nodes says.
    pub fn told(&self, event: &watcher::Event<Node>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let news = match event {
            watcher::Event::Init => {
                counts.relisted = Some(Census::default());
                false
            }
            watcher::Event::InitApply(node) => {
                if let Some(census) = &mut counts.relisted {
                    note(census, node);
                }
                false
            }
            watcher::Event::InitDone => {
                counts.census = counts.relisted.take().unwrap_or_default();
                true
            }
            watcher::Event::Apply(node) => note(&mut counts.census, node),
            watcher::Event::Delete(node) => counts.census.forget(&node.name_any()),
        };
        if news {
            let now = counts.census.platforms();
            self.current.send_if_modified(|current| {
                let changed = **current != now;
                if changed {
                    tracing::info!(kinds = ?now.kinds.iter().map(ToString::to_string).collect::<Vec<_>>(), "kinds of node");
                    *current = Arc::new(now);
                }
                changed
            });
        }
    }
}

fn note(census: &mut Census, node: &Node) -> bool {
    let taints = node.spec.iter().filter_map(|spec| spec.taints.as_ref()).flatten();
    let taints = taints
        .map(|taint| (taint.key.as_str(), taint.value.as_deref().unwrap_or_default(), taint.effect.as_str()));
    census.note(&node.name_any(), node.labels(), taints)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, arch: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/arch": arch, "kubernetes.io/os": "linux"}},
            "spec": {"taints": [{"key": "kubernetes.io/arch", "value": arch, "effect": "NoSchedule"}]},
        }))
        .unwrap()
    }

    fn shown(kinds: &Kinds) -> Vec<String> {
        kinds.current().kinds.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn kinds_come_and_go_with_their_nodes_also_while_the_watch_was_away() {
        let kinds = Kinds::default();
        for event in [
            watcher::Event::Init,
            watcher::Event::InitApply(node("a", "amd64")),
            watcher::Event::InitApply(node("b", "arm64")),
        ] {
            kinds.told(&event);
            assert_eq!(shown(&kinds), Vec::<String>::new(), "half a list is no news");
        }
        kinds.told(&watcher::Event::InitDone);
        assert_eq!(shown(&kinds), ["linux/amd64", "linux/arm64"]);
        assert_eq!(kinds.current().taints["arm64"].len(), 1);
        kinds.told(&watcher::Event::Apply(node("c", "s390x")));
        kinds.told(&watcher::Event::Delete(node("b", "arm64")));
        assert_eq!(shown(&kinds), ["linux/amd64", "linux/s390x"]);
        for event in
            [watcher::Event::Init, watcher::Event::InitApply(node("a", "amd64")), watcher::Event::InitDone]
        {
            kinds.told(&event);
        }
        assert_eq!(shown(&kinds), ["linux/amd64"]);
    }
}
