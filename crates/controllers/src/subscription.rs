//! Who is told of the objects of a cache that change.
//!
//! kube's own handle falls silent for ever once an object has gone between being told of and being looked for, and then holds up
//! the watch. This one goes on to the next, and holds nobody up.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::Stream;
use kube::{
    Resource,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Each object that changes, as it is when it is taken. One that has gone by then is left out.
pub struct Subscription<K: Resource<DynamicType = ()> + Clone + 'static> {
    changed: UnboundedReceiver<ObjectRef<K>>,
    store: Store<K>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Stream for Subscription<K> {
    type Item = Arc<K>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Arc<K>>> {
        loop {
            match ready!(self.changed.poll_recv(context)) {
                None => return Poll::Ready(None),
                Some(key) => {
                    if let Some(object) = self.store.get(&key) {
                        return Poll::Ready(Some(object));
                    }
                }
            }
        }
    }
}

/// Those who have subscribed to a cache.
pub(crate) struct Subscribers<K: Resource<DynamicType = ()> + Clone + 'static> {
    store: Store<K>,
    told: Vec<UnboundedSender<ObjectRef<K>>>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Subscribers<K> {
    pub(crate) fn new(store: Store<K>) -> Self {
        Self { store, told: Vec::new() }
    }

    pub(crate) fn subscribe(&mut self) -> Subscription<K> {
        let (sender, changed) = unbounded_channel();
        self.told.push(sender);
        Subscription { changed, store: self.store.clone() }
    }

    /// Tells of an event that the cache has taken in: of each object once all have been listed, and of each that changes then.
    pub(crate) fn tell(&self, event: &watcher::Event<K>) {
        match event {
            watcher::Event::Apply(object) => self.tell_of(&ObjectRef::from_obj(object)),
            watcher::Event::InitDone => {
                for object in self.store.state() {
                    self.tell_of(&ObjectRef::from_obj(&*object));
                }
            }
            watcher::Event::Delete(_) | watcher::Event::Init | watcher::Event::InitApply(_) => {}
        }
    }

    fn tell_of(&self, key: &ObjectRef<K>) {
        for told in &self.told {
            // Nobody may be listening any more.
            let _ = told.send(key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt, stream::SelectAll};
    use k8s_openapi::api::core::v1::Node;
    use kube::{ResourceExt, runtime::reflector};

    use super::*;

    fn node(name: &str) -> Node {
        Node {
            metadata: kube::api::ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
            ..Default::default()
        }
    }

    #[test]
    fn an_object_that_goes_before_it_is_looked_for_does_not_end_the_news() {
        let (store, mut writer) = reflector::store::<Node>();
        let mut subscribers = Subscribers::new(store);
        // As a controller keeps its triggers: only those that were woken are asked again.
        let mut news = SelectAll::from_iter([subscribers.subscribe()]);
        let mut happen = |event: watcher::Event<Node>| {
            writer.apply_watcher_event(&event);
            subscribers.tell(&event);
        };
        assert!(news.next().now_or_never().is_none());
        happen(watcher::Event::Apply(node("brief")));
        happen(watcher::Event::Delete(node("brief")));
        assert!(news.next().now_or_never().is_none());
        happen(watcher::Event::Apply(node("lasting")));
        assert_eq!(
            news.next().now_or_never().flatten().map(|node| node.name_any()).as_deref(),
            Some("lasting")
        );
    }

    #[test]
    fn all_are_told_of_once_they_have_been_listed() {
        let (store, mut writer) = reflector::store::<Node>();
        let mut subscribers = Subscribers::new(store);
        let (mut one, mut other) = (subscribers.subscribe(), subscribers.subscribe());
        for event in [
            watcher::Event::Init,
            watcher::Event::InitApply(node("a")),
            watcher::Event::InitApply(node("b")),
            watcher::Event::InitDone,
        ] {
            writer.apply_watcher_event(&event);
            subscribers.tell(&event);
        }
        for news in [&mut one, &mut other] {
            let mut names = [(); 2].map(|()| news.next().now_or_never().flatten().unwrap().name_any());
            names.sort_unstable();
            assert_eq!(names, ["a", "b"]);
        }
    }
}
