//! Does what a plan says.

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, EvictParams, Patch, PatchParams, Preconditions},
    runtime::events::{Event, EventType},
};
use podwright_api::{distributor::PodDistributor, keys};
use podwright_core::distribution::{Adoption, Cause, CostChange, Disruption, History, Plan, Removal};
use serde_json::{Value, json};

use super::rules::Context;

/// How many requests are on their way at once.
const CONCURRENCY: usize = 16;

/// Costs first, so that whatever is removed meanwhile is removed by them; then removals. Each that succeeds is written down, and
/// one that fails keeps no other from being done.
pub(super) async fn all(
    context: &Context,
    rule: &PodDistributor,
    plan: &Plan,
    history: &mut History,
    now: i64,
) -> Result<(), kube::Error> {
    let namespace = rule.namespace().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(context.distribution.client.clone(), &namespace);
    let pods = &pods;
    let mut outcome = Ok(());
    if context.distribution.config.distribution.deletion_costs {
        let mut changes = stream::iter(plan.costs.clone())
            .map(|change| steer(context, pods, change))
            .buffer_unordered(CONCURRENCY);
        while let Some(changed) = changes.next().await {
            outcome = outcome.and(changed);
        }
    }
    let mut adoptions = stream::iter(plan.adoptions.clone())
        .map(|adoption| adopt(context, pods, adoption))
        .buffer_unordered(CONCURRENCY);
    while let Some(adopted) = adoptions.next().await {
        outcome = outcome.and(adopted);
    }
    let mut removals = stream::iter(plan.removals.clone())
        .map(|removal| async move {
            let removed = remove(context, pods, &removal).await;
            (removal, removed)
        })
        .buffer_unordered(CONCURRENCY);
    let mut gone: Vec<Removal> = Vec::new();
    while let Some((removal, removed)) = removals.next().await {
        match removed {
            Ok(Removed::Gone) => {
                history.removed(&removal, now);
                context.distribution.metrics.corrected(word(removal.cause));
                gone.push(removal);
            }
            Ok(Removed::Protected) => {
                context.distribution.metrics.corrected("held-up");
                let message = format!(
                    "pod {} would move ({}), but a disruption budget holds it",
                    removal.name, removal.why
                );
                tell(context, rule, false, "PodHeldUp", &message).await;
            }
            Ok(Removed::NotThere) => {}
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    for cause in [Cause::Lost, Cause::Spilled, Cause::SlippedBy, Cause::Moved] {
        let mut those = gone.iter().filter(|removal| removal.cause == cause);
        let Some(first) = those.next() else { continue };
        let message = match those.count() {
            0 => format!("pod {}: {}", first.name, first.why),
            others => format!("pod {} and {others} more: {}", first.name, first.why),
        };
        tell(context, rule, false, reason(cause), &message).await;
    }
    outcome
}

enum Removed {
    Gone,
    /// A disruption budget holds it.
    Protected,
    /// It is gone already, or another pod has its name.
    NotThere,
}

async fn steer(context: &Context, pods: &Api<Pod>, change: CostChange) -> Result<(), kube::Error> {
    let cost = change.cost.to_string();
    let annotations = json!({keys::POD_DELETION_COST: cost, keys::OUR_DELETION_COST: cost});
    annotate(context, pods, (&change.name, &change.uid), annotations, "deletion-cost").await
}

async fn adopt(context: &Context, pods: &Api<Pod>, adoption: Adoption) -> Result<(), kube::Error> {
    let annotations =
        json!({keys::DISTRIBUTION: adoption.mark.text(), keys::MUTATED_BY: keys::MUTATED_BY_VERSPREI});
    annotate(context, pods, (&adoption.name, &adoption.uid), annotations, "adopted").await
}

async fn annotate(
    context: &Context,
    pods: &Api<Pod>,
    (name, uid): (&str, &str),
    annotations: Value,
    correction: &'static str,
) -> Result<(), kube::Error> {
    if !context.distribution.leadership.is_current() {
        return Ok(());
    }
    let patch = json!({"metadata": {"uid": uid, "annotations": annotations}});
    match pods.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => {
            context.distribution.metrics.corrected(correction);
            Ok(())
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn remove(context: &Context, pods: &Api<Pod>, removal: &Removal) -> Result<Removed, kube::Error> {
    if !context.distribution.leadership.is_current() {
        return Ok(Removed::NotThere);
    }
    let precisely = DeleteParams {
        preconditions: Some(Preconditions { uid: Some(removal.uid.clone()), resource_version: None }),
        ..DeleteParams::default()
    };
    let done = match removal.how {
        // Nobody is left on its node to end it in good order. Our view of the nodes may be old, so that is looked at live.
        Disruption::Delete if removal.cause == Cause::Lost => {
            let nodes: Api<Node> = Api::all(context.distribution.client.clone());
            if nodes.get_metadata_opt(removal.node.as_deref().unwrap_or_default()).await?.is_some() {
                return Ok(Removed::NotThere);
            }
            pods.delete(&removal.name, &precisely.grace_period(0)).await.map(|_| ())
        }
        Disruption::Delete => pods.delete(&removal.name, &precisely).await.map(|_| ()),
        Disruption::Evict => {
            let params = EvictParams { delete_options: Some(precisely), ..EvictParams::default() };
            pods.evict(&removal.name, &params).await.map(|_| ())
        }
    };
    match done {
        Ok(()) => Ok(Removed::Gone),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Removed::NotThere),
        Err(kube::Error::Api(status)) if status.code == 429 => Ok(Removed::Protected),
        Err(error) => Err(error),
    }
}

/// An event on the rule. One that cannot be written is not worth failing for.
pub(super) async fn tell(
    context: &Context,
    rule: &PodDistributor,
    warning: bool,
    reason: &str,
    message: &str,
) {
    let event = Event {
        type_: if warning { EventType::Warning } else { EventType::Normal },
        reason: reason.to_owned(),
        note: Some(message.to_owned()),
        action: "Distribute".to_owned(),
        secondary: None,
    };
    if let Err(error) = context.recorder.publish(&event, &rule.object_ref(&())).await {
        tracing::warn!(rule = rule.name_any(), %error, "failed to write an event");
    }
}

const fn word(cause: Cause) -> &'static str {
    match cause {
        Cause::Lost => "lost",
        Cause::Spilled => "spilled",
        Cause::SlippedBy => "repaired",
        Cause::Moved => "moved",
    }
}

const fn reason(cause: Cause) -> &'static str {
    match cause {
        Cause::Lost => "PodLost",
        Cause::Spilled => "PodSpilled",
        Cause::SlippedBy => "PodRepaired",
        Cause::Moved => "PodMoved",
    }
}
