//! What is known of all ExtendedDaemonSets, and who is to be woken when it changes.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::api::core::v1::{Node, PodTemplate};
use kube::{Resource, ResourceExt, runtime::watcher};
use podwright_api::{
    eds::{ExtendedDaemonSet, ExtendedDaemonSetReplicaSet, ExtendedDaemonsetSetting},
    keys,
};
use podwright_core::{
    node::Placement,
    rollout::{
        Fingerprint,
        plan::{Controller, PodTemplateFacts},
    },
};
use tokio::sync::{Notify, mpsc, watch};

use super::{
    facts::{self, KnownNode, KnownPod},
    pod::DaemonPod,
    shelf::{Key, Shelf, Stamp},
    takeovers::{OldDaemonSet, Takeovers, Teller},
};

/// Settings by the ExtendedDaemonSet that they are for.
type Settings = HashMap<Key, Vec<Arc<ExtendedDaemonsetSetting>>>;
/// All nodes, by name.
type Nodes = Arc<Vec<Arc<KnownNode>>>;

/// Who should look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// One ExtendedDaemonSet.
    One(Key),
    /// All of them.
    All,
}

/// A replica set, and where its template lets pods run, if that can be read.
#[derive(Debug)]
pub(super) struct KnownReplicaSet {
    pub(super) object: ExtendedDaemonSetReplicaSet,
    pub(super) placement: Option<Arc<Placement>>,
    pub(super) fingerprint: Fingerprint,
}

/// What is known, shared by all watches and all that look at it.
pub(super) struct World {
    state: Mutex<State>,
    wake: mpsc::UnboundedSender<Wake>,
    /// How many watches have not told of all objects yet.
    missing: watch::Sender<usize>,
    /// Told when settings or nodes change.
    pub(super) settings_changed: Notify,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) sets: Shelf<ExtendedDaemonSet>,
    pub(super) replica_sets: Shelf<KnownReplicaSet>,
    pub(super) pods: Shelf<KnownPod>,
    pub(super) takeovers: Takeovers,
    pub(super) settings: Shelf<ExtendedDaemonsetSetting>,
    pub(super) pod_templates: Shelf<PodTemplate>,
    nodes: BTreeMap<String, Arc<KnownNode>>,
    node_list: Nodes,
}

/// All that is known of one ExtendedDaemonSet at one moment.
pub(super) struct View {
    pub(super) set: Arc<ExtendedDaemonSet>,
    pub(super) replica_sets: Vec<Arc<KnownReplicaSet>>,
    pub(super) pods: Vec<Arc<KnownPod>>,
    pub(super) old_daemon_set: OldDaemonSet,
    pub(super) settings: Vec<Arc<ExtendedDaemonsetSetting>>,
    pub(super) pod_template: Option<PodTemplateFacts>,
    pub(super) nodes: Nodes,
}

impl World {
    /// Nothing is known yet; and where it is told who should look again.
    pub(super) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Wake>) {
        let (wake, woken) = mpsc::unbounded_channel();
        let (missing, _) = watch::channel(0);
        let world = Self { state: Mutex::default(), wake, missing, settings_changed: Notify::new() };
        (Arc::new(world), woken)
    }

    /// One more watch to wait for; gives what is to be called when it has told of all objects that there were.
    pub(super) fn expect(self: &Arc<Self>) -> Box<dyn FnOnce() + Send> {
        self.missing.send_modify(|missing| *missing += 1);
        let world = self.clone();
        Box::new(move || world.missing.send_modify(|missing| *missing -= 1))
    }

    /// Waits until all that was expected has arrived: before that nothing may be decided.
    pub(super) async fn complete(&self) {
        // The sender is ours.
        let _ = self.missing.subscribe().wait_for(|missing| *missing == 0).await;
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self, wake: Wake) {
        // Whoever listens ends with us.
        let _ = self.wake.send(wake);
    }

    pub(super) fn wake_each(&self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            self.wake(Wake::One(key));
        }
    }

    /// Whether there is such an ExtendedDaemonSet.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.state().sets.get(key).is_some()
    }

    /// All ExtendedDaemonSets.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.state().sets.iter().map(|set| Key::of(&**set)).collect()
    }

    pub(super) fn sets(&self) -> Vec<Arc<ExtendedDaemonSet>> {
        self.state().sets.iter().cloned().collect()
    }

    pub(super) fn replica_sets(&self) -> Vec<Arc<KnownReplicaSet>> {
        self.state().replica_sets.iter().cloned().collect()
    }

    /// All settings, by the ExtendedDaemonSet that they are for, and all nodes.
    pub(super) fn settings(&self) -> (Settings, Nodes) {
        let state = self.state();
        let mut groups = Settings::new();
        for setting in state.settings.iter() {
            groups.entry(referenced(setting)).or_default().push(setting.clone());
        }
        (groups, state.node_list.clone())
    }

    /// All that is known of one ExtendedDaemonSet; none if there is none.
    pub(super) fn view(&self, key: &Key) -> Option<View> {
        let state = self.state();
        let set = state.sets.get(key)?.clone();
        let mut pods: Vec<Arc<KnownPod>> = state.pods.of(key).cloned().collect();
        let mut old: Vec<Arc<KnownPod>> = state.takeovers.pods_for(key).cloned().collect();
        if !old.is_empty() {
            // One that carries our label already is not told twice.
            let marked: HashSet<&str> = pods.iter().map(|pod| pod.facts.uid.as_str()).collect();
            old.retain(|pod| !marked.contains(pod.facts.uid.as_str()));
            pods.append(&mut old);
        }
        let pod_template = state.pod_templates.get(key).map(|template| PodTemplateFacts {
            ours: controller(&**template, &set) != Controller::Another,
            template_hash: template.annotations().get(keys::EDS_TEMPLATE_HASH).cloned().unwrap_or_default(),
        });
        Some(View {
            replica_sets: state.replica_sets.of(key).cloned().collect(),
            pods,
            old_daemon_set: state.takeovers.daemon_set(key),
            settings: state.settings.of(key).cloned().collect(),
            pod_template,
            nodes: state.node_list.clone(),
            set,
        })
    }

    /// What a write was answered with.
    pub(super) fn answered_set(&self, set: ExtendedDaemonSet) {
        let key = Key::of(&set);
        self.state().sets.answered(Stamp::of(&set), key, Arc::new(set));
    }

    /// What a write was answered with.
    pub(super) fn answered_replica_set(&self, object: ExtendedDaemonSetReplicaSet) {
        let (stamp, owner) = (Stamp::of(&object), owner_of(&object));
        self.state().replica_sets.answered(stamp, owner, Arc::new(KnownReplicaSet::new(object)));
    }

    /// What a write was answered with.
    pub(super) fn answered_pod(&self, pod: &DaemonPod, owner: &Key) {
        self.state().pods.answered(Stamp::of(pod), owner.clone(), Arc::new(facts::pod(pod)));
    }

    /// What a write was answered with.
    pub(super) fn answered_setting(&self, setting: ExtendedDaemonsetSetting) {
        let (stamp, owner) = (Stamp::of(&setting), referenced(&setting));
        self.state().settings.answered(stamp, owner, Arc::new(setting));
    }

    /// What a write was answered with.
    pub(super) fn answered_pod_template(&self, template: PodTemplate) {
        let key = Key::of(&template);
        self.state().pod_templates.answered(Stamp::of(&template), key, Arc::new(template));
    }

    /// An ExtendedDaemonSet's metadata.
    pub(super) fn set_metadata(&self, key: &Key) -> Option<kube::api::ObjectMeta> {
        self.state().sets.get(key).map(|set| set.metadata.clone())
    }

    /// A replica set's metadata.
    pub(super) fn replica_set_metadata(&self, key: &Key) -> Option<kube::api::ObjectMeta> {
        self.state().replica_sets.get(key).map(|known| known.object.metadata.clone())
    }

    /// A takeover from a DaemonSet begins, in the place of any other.
    pub(super) fn begin_takeover(&self, key: &Key) -> Teller {
        let teller = self.state().takeovers.begin(key);
        self.wake(Wake::One(key.clone()));
        teller
    }

    /// A takeover is over, unless another has begun.
    pub(super) fn end_takeover(&self, key: &Key, teller: Teller) {
        let ended = self.state().takeovers.end(key, teller);
        self.wake_each(ended.then(|| key.clone()));
    }

    /// What is known of the DaemonSet that is taken over from, if who tells it is listened to.
    pub(super) fn old_daemon_set(&self, key: &Key, teller: Teller, now: OldDaemonSet) {
        let noted = self.state().takeovers.note(key, teller, now);
        self.wake_each(noted.then(|| key.clone()));
    }

    /// Pods of the DaemonSet that is taken over from, changed if who tells of them is listened to.
    pub(super) fn change_old_pods<K: IntoIterator<Item = Key>>(
        &self,
        key: &Key,
        teller: Teller,
        change: impl FnOnce(&mut Shelf<KnownPod>) -> K,
    ) {
        let woken = self.state().takeovers.pods_by(key, teller).map(change);
        self.wake_each(woken.into_iter().flatten());
    }

    /// What a watch of nodes tells. Only what the planner looks at wakes anybody: a heartbeat does not.
    pub(super) fn look_at_nodes(self: &Arc<Self>) -> impl FnMut(&watcher::Event<Node>) + Send + 'static {
        let world = self.clone();
        let mut arrived = Some(self.expect());
        let mut listed: Option<BTreeMap<String, Arc<KnownNode>>> = None;
        move |event| match event {
            watcher::Event::Init => listed = Some(BTreeMap::new()),
            watcher::Event::InitApply(node) => {
                if let Some(listed) = &mut listed {
                    listed.insert(node.name_any(), Arc::new(facts::node(node)));
                }
            }
            watcher::Event::InitDone => {
                if let Some(listed) = listed.take() {
                    world.change_nodes(|nodes| std::mem::replace(nodes, listed.clone()) != listed);
                }
                if let Some(arrived) = arrived.take() {
                    arrived();
                }
            }
            watcher::Event::Apply(node) => {
                let (name, now) = (node.name_any(), Arc::new(facts::node(node)));
                world.change_nodes(|nodes| nodes.insert(name, now.clone()).as_ref() != Some(&now));
            }
            watcher::Event::Delete(node) => {
                world.change_nodes(|nodes| nodes.remove(&node.name_any()).is_some());
            }
        }
    }

    fn change_nodes(&self, change: impl FnOnce(&mut BTreeMap<String, Arc<KnownNode>>) -> bool) {
        let mut state = self.state();
        if !change(&mut state.nodes) {
            return;
        }
        state.node_list = Arc::new(state.nodes.values().cloned().collect());
        drop(state);
        self.settings_changed.notify_one();
        self.wake(Wake::All);
    }
}

impl KnownReplicaSet {
    pub(super) fn new(mut object: ExtendedDaemonSetReplicaSet) -> Self {
        object.metadata.managed_fields = None;
        let placement = object.spec.template.spec().and_then(|spec| Placement::read(spec).ok());
        let fingerprint = Fingerprint::of(&object.spec.template.0);
        Self { object, placement: placement.map(Arc::new), fingerprint }
    }
}

/// The ExtendedDaemonSet that controls a replica set, else the one that its label names.
pub(super) fn owner_of(object: &ExtendedDaemonSetReplicaSet) -> Key {
    let namespace = object.namespace().unwrap_or_default();
    let controller = object.owner_references().iter().find(|owner| owner.kind == "ExtendedDaemonSet");
    let labelled = object.labels().get(keys::EDS_NAME).map_or("", String::as_str);
    Key::new(&namespace, controller.map_or(labelled, |owner| &owner.name))
}

pub(super) fn referenced(setting: &ExtendedDaemonsetSetting) -> Key {
    let name = setting.spec.reference.as_ref().map_or("", |reference| &reference.name);
    Key::new(&setting.namespace().unwrap_or_default(), name)
}

/// Who controls an object of an ExtendedDaemonSet's.
pub(super) fn controller<K: Resource>(object: &K, set: &ExtendedDaemonSet) -> Controller {
    match object.owner_references().iter().find(|owner| owner.controller == Some(true)) {
        None => Controller::Nobody,
        Some(owner) if Some(&owner.uid) == set.metadata.uid.as_ref() => Controller::Us,
        Some(_) => Controller::Another,
    }
}
