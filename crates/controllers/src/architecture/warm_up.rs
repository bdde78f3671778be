//! Images of workloads are looked up before their pods come, so that admission need not wait for registries.
//!
//! Each replica does it, because each remembers for itself. Nothing of the workloads is kept.

use std::{fmt::Debug, sync::Arc};

use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    batch::v1::CronJob,
    core::v1::PodTemplateSpec,
};
use kube::{
    Api, Resource, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use podwright_core::{
    image::PullPolicy,
    mutate::{Fact, ImageFact, Lookup},
    pod::PodView,
    registration,
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::Context;

/// How many images are looked up at once: whoever waits for an answer comes first.
const CONCURRENCY: usize = 4;

/// A pod that a workload makes, with the namespace that it is in.
type Template = (String, PodTemplateSpec);

/// Runs until cancelled.
pub(super) async fn run(context: Arc<Context>, cancel: CancellationToken) {
    if !context.architecture.config.architecture.warm_up {
        cancel.cancelled().await;
        return;
    }
    let mut kinds = context.architecture.lookups.kinds.subscribe();
    // Where there is only one kind of node nothing is looked up; that changes with the nodes.
    loop {
        let all = stream::select(
            templates(&context, |workload: Deployment| workload.spec.map(|spec| spec.template)),
            stream::select(
                templates(&context, |workload: StatefulSet| workload.spec.map(|spec| spec.template)),
                templates(&context, |workload: CronJob| {
                    workload.spec.job_template.spec.map(|job| job.template)
                }),
            ),
        );
        let lookups = all.flat_map(|template| stream::iter(context.wanted(template)));
        let warming = lookups.for_each_concurrent(CONCURRENCY, |lookup| context.warm(lookup));
        tokio::select! {
            () = cancel.cancelled() => return,
            () = warming => {}
            changed = kinds.changed() => if changed.is_err() { return },
        }
    }
}

fn templates<K>(
    context: &Context,
    template: impl Fn(K) -> Option<PodTemplateSpec> + Send + 'static,
) -> impl Stream<Item = Template> + Send + Unpin
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<K> = Api::all(context.architecture.client.clone());
    watcher(api, watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .filter_map(move |workload| {
            std::future::ready(match workload {
                Ok(workload) => {
                    let namespace = workload.namespace().unwrap_or_default();
                    template(workload).map(|template| (namespace, template))
                }
                Err(error) => {
                    tracing::warn!(kind = %K::kind(&()), %error, "failed to watch");
                    None
                }
            })
        })
        .boxed()
}

impl Context {
    /// What admission will ask for when the workload's pods come.
    fn wanted(&self, (namespace, template): Template) -> Vec<Lookup> {
        let config = &self.architecture.config;
        let view = serde_json::to_value(&template).and_then(|template| PodView::read(&template.to_string()));
        let Some(view) = view.ok().filter(|_| registration::admits(config, &namespace)) else {
            return Vec::new();
        };
        let mut lookups = self.mutator.lookups(&namespace, &view, &self.architecture.lookups.kinds.current());
        // What is not remembered need not be looked up ahead.
        let remembered = config.architecture.pull_always_cache_time.is_some();
        lookups.retain(|lookup| match lookup {
            Lookup::Image(image) => {
                remembered || image.policy == PullPolicy::IfNotPresent || image.reference.digest().is_some()
            }
            _ => false,
        });
        lookups
    }

    async fn warm(&self, lookup: Lookup) {
        let found = self.architecture.lookups.find(&lookup).await;
        match found {
            Ok(Some(Fact::Image(ImageFact::Offers(_)))) => {
                self.architecture.metrics.warmed.inc();
            }
            Ok(Some(Fact::Image(ImageFact::Unknown(reason)))) => {
                tracing::debug!(%lookup, reason, "not known ahead");
            }
            _ => {}
        }
    }
}
