//! Where watches put what they see.

use std::{collections::HashSet, sync::Arc};

use k8s_openapi::api::core::v1::PodTemplate;
use kube::ResourceExt;
use podwright_api::{
    eds::{ExtendedDaemonSet, ExtendedDaemonSetReplicaSet, ExtendedDaemonsetSetting},
    keys,
};

use super::{
    facts,
    feed::Sink,
    pod::DaemonPod,
    shelf::{Key, Stamp},
    takeovers::Teller,
    world::{KnownReplicaSet, State, World, owner_of, referenced},
};

/// Where a watch of one kind puts what it sees.
pub(super) struct WorldSink {
    pub(super) world: Arc<World>,
    /// The namespace that is watched; none: all.
    pub(super) namespace: Option<String>,
}

impl WorldSink {
    fn within(&self, key: &Key) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| *key.namespace == *namespace)
    }

    fn change(&self, change: impl FnOnce(&mut State) -> Vec<Key>) {
        let woken = change(&mut self.world.state());
        self.world.wake_each(woken);
    }
}

impl Sink<ExtendedDaemonSet> for WorldSink {
    fn apply(&self, object: &ExtendedDaemonSet) {
        let (key, mut set) = (Key::of(object), object.clone());
        set.metadata.managed_fields = None;
        self.change(|state| state.sets.tell(Stamp::of(object), key, Arc::new(set)));
    }

    fn delete(&self, object: &Stamp) {
        self.change(|state| state.sets.remove(object).into_iter().collect());
    }

    fn only(&self, seen: &HashSet<Key>) {
        self.change(|state| state.sets.only(seen, |key, _| self.within(key)));
    }
}

impl Sink<ExtendedDaemonSetReplicaSet> for WorldSink {
    fn apply(&self, object: &ExtendedDaemonSetReplicaSet) {
        let known = Arc::new(KnownReplicaSet::new(object.clone()));
        self.change(|state| state.replica_sets.tell(Stamp::of(object), owner_of(object), known));
    }

    fn delete(&self, object: &Stamp) {
        self.change(|state| state.replica_sets.remove(object).into_iter().collect());
    }

    fn only(&self, seen: &HashSet<Key>) {
        self.change(|state| state.replica_sets.only(seen, |key, _| self.within(key)));
    }
}

impl Sink<DaemonPod> for WorldSink {
    fn apply(&self, pod: &DaemonPod) {
        let name = pod.labels().get(keys::EDS_NAME).map_or("", String::as_str);
        let owner = Key::new(pod.metadata.namespace.as_deref().unwrap_or_default(), name);
        let known = Arc::new(facts::pod(pod));
        self.change(|state| state.pods.tell(Stamp::of(pod), owner, known));
    }

    fn delete(&self, pod: &Stamp) {
        self.change(|state| state.pods.remove(pod).into_iter().collect());
    }

    fn only(&self, seen: &HashSet<Key>) {
        self.change(|state| state.pods.only(seen, |key, _| self.within(key)));
    }
}

impl Sink<ExtendedDaemonsetSetting> for WorldSink {
    fn apply(&self, object: &ExtendedDaemonsetSetting) {
        let mut setting = object.clone();
        setting.metadata.managed_fields = None;
        self.change(|state| state.settings.tell(Stamp::of(object), referenced(object), Arc::new(setting)));
        self.world.settings_changed.notify_one();
    }

    fn delete(&self, object: &Stamp) {
        self.change(|state| state.settings.remove(object).into_iter().collect());
        self.world.settings_changed.notify_one();
    }

    fn only(&self, seen: &HashSet<Key>) {
        self.change(|state| state.settings.only(seen, |key, _| self.within(key)));
        self.world.settings_changed.notify_one();
    }
}

impl Sink<PodTemplate> for WorldSink {
    fn apply(&self, object: &PodTemplate) {
        // What it is made for is known by its name; what it holds is of no interest here.
        let mut template = PodTemplate { metadata: object.metadata.clone(), template: None };
        template.metadata.managed_fields = None;
        self.change(|state| state.pod_templates.tell(Stamp::of(object), Key::of(object), Arc::new(template)));
    }

    fn delete(&self, object: &Stamp) {
        self.change(|state| state.pod_templates.remove(object).into_iter().collect());
    }

    fn only(&self, seen: &HashSet<Key>) {
        self.change(|state| state.pod_templates.only(seen, |key, _| self.within(key)));
    }
}

/// Where a watch of the pods of a DaemonSet that is taken over from puts what it sees.
pub(super) struct OldPods {
    pub(super) world: Arc<World>,
    /// The ExtendedDaemonSet.
    pub(super) key: Key,
    /// The DaemonSet's uid.
    pub(super) daemon_set: String,
    /// Which watch it is.
    pub(super) teller: Teller,
}

impl Sink<DaemonPod> for OldPods {
    fn apply(&self, pod: &DaemonPod) {
        if pod.owner_references().iter().any(|owner| owner.uid == self.daemon_set) {
            let known = Arc::new(facts::pod(pod));
            self.world.change_old_pods(&self.key, self.teller, |pods| {
                pods.tell(Stamp::of(pod), self.key.clone(), known)
            });
        }
    }

    fn delete(&self, pod: &Stamp) {
        self.world.change_old_pods(&self.key, self.teller, |pods| pods.remove(pod));
    }

    fn only(&self, seen: &HashSet<Key>) {
        self.world
            .change_old_pods(&self.key, self.teller, |pods| pods.only(seen, |_, owner| *owner == self.key));
    }
}
