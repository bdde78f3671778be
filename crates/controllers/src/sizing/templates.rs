//! Templates' status: whether they can be used, and what their pods look like.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{Controller, controller::Action, reflector::ObjectRef},
};
use podwright_api::flex::{FlexDaemonsetTemplate, FlexDaemonsetTemplateStatus};
use podwright_core::sizing;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Context, UNREADY, tally::Total, workloads::key_of};
use crate::{caches::Subscription, capacity::elections};

const RETRY: Duration = Duration::from_secs(5);
/// Many pods change at a time: the status is written no more often than this.
pub(super) const PAUSE: Duration = Duration::from_millis(500);
/// When to look again while a DaemonSet has not been looked at. It may go before it is, or ask for something else, of which nobody
/// tells us.
const UNSEEN: Duration = Duration::from_secs(1);

pub(super) async fn run(
    context: Arc<Context>,
    changes: Subscription<FlexDaemonsetTemplate>,
    told: mpsc::UnboundedReceiver<String>,
    cancel: CancellationToken,
) {
    let tallied =
        futures::stream::unfold(
            told,
            |mut told| async move { Some((ObjectRef::new(&told.recv().await?), told)) },
        );
    let store = context.sizing.caches.templates.clone();
    let elections = elections(context.sizing.leadership.clone());
    Controller::for_shared_stream(changes, store)
        .reconcile_on(tallied)
        .reconcile_all_on(elections)
        .graceful_shutdown_on(cancel.cancelled_owned())
        .run(reconcile, failed, context)
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile(
    template: Arc<FlexDaemonsetTemplate>,
    context: Arc<Context>,
) -> Result<Action, kube::Error> {
    if !context.sizing.leadership.is_current() {
        return Ok(Action::await_change());
    }
    if !context.is_filled() {
        return Ok(Action::requeue(UNREADY));
    }
    let name = template.name_any();
    let asking = context.asking(&name).iter().map(|daemon_set| key_of(daemon_set)).collect();
    // Whoever has just begun to lead knows of no pods yet: what the former leader wrote is truer until then.
    let Some(total) = context.tallies.total(&name, &asking) else {
        return Ok(Action::requeue(UNSEEN));
    };
    let status = status(&template, &total);
    if template.status.as_ref() == Some(&status) {
        return Ok(Action::await_change());
    }
    if let Err(early) = context.template_pace.enter(&name) {
        return Ok(Action::requeue(early));
    }
    let api: Api<FlexDaemonsetTemplate> = Api::all(context.sizing.client.clone());
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
    Ok(Action::await_change())
}

fn failed(template: Arc<FlexDaemonsetTemplate>, error: &kube::Error, context: Arc<Context>) -> Action {
    tracing::warn!(template = template.name_any(), %error, "failed to write the status of a FlexDaemonsetTemplate");
    context.sizing.metrics.failures.inc();
    Action::requeue(RETRY)
}

/// The status as it should be. A condition keeps its time while it stays as it is.
fn status(template: &FlexDaemonsetTemplate, total: &Total) -> FlexDaemonsetTemplateStatus {
    let generation = template.metadata.generation;
    let condition = |kind: &str, status: &str, reason: &str, message: String| {
        let before =
            template.status.iter().flat_map(|status| &status.conditions).find(|before| before.type_ == kind);
        let since =
            before.filter(|before| before.status == status).map(|before| before.last_transition_time.clone());
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: generation,
            last_transition_time: since.unwrap_or_else(|| Time(jiff::Timestamp::now())),
        }
    };
    let ready = match sizing::check(&template.spec) {
        Ok(()) => condition("Ready", "True", "Valid", "pods can be sized by it".to_owned()),
        Err(error) => condition("Ready", "False", "Invalid", error.to_string()),
    };
    let in_sync = match &total.reason {
        _ if ready.status != "True" => {
            condition("InSync", "Unknown", "Invalid", "the template cannot be used".to_owned())
        }
        None => condition("InSync", "True", "AllFollow", "all running pods have their share".to_owned()),
        Some(reason) => {
            let message = format!("pods without their share: {}, such as {reason}", total.drifted);
            condition("InSync", "False", "Drifted", message)
        }
    };
    FlexDaemonsetTemplateStatus {
        observed_generation: generation,
        conditions: vec![ready, in_sync],
        daemon_sets: Some(total.daemon_sets),
        in_use: Some(total.sized + total.drifted),
        drifted: Some(total.drifted),
    }
}

#[cfg(test)]
mod tests {
    use podwright_api::flex::FlexDaemonsetTemplateSpec;

    use super::*;

    fn template(minimum: &str) -> FlexDaemonsetTemplate {
        let spec: FlexDaemonsetTemplateSpec = serde_json::from_value(json!({
            "cpuPercentage": 1, "memoryPercentage": 2, "storagePercentage": 3, "minCPU": minimum,
        }))
        .unwrap();
        FlexDaemonsetTemplate::new("t", spec)
    }

    #[test]
    fn a_status_that_is_as_it_should_be_stays_to_the_second() {
        for minimum in ["100m", "lots"] {
            let mut template = template(minimum);
            let total = Total { daemon_sets: 1, sized: 2, drifted: 1, reason: Some("why".to_owned()) };
            template.status = Some(status(&template, &total));
            assert_eq!(template.status.as_ref(), Some(&status(&template, &total)), "{minimum}");
        }
    }

    #[test]
    fn a_template_that_cannot_be_used_says_so_and_claims_nothing_about_its_pods() {
        let conditions = status(&template("lots"), &Total::default()).conditions;
        assert_eq!((conditions[0].status.as_str(), conditions[1].status.as_str()), ("False", "Unknown"));
        assert!(conditions[0].message.contains("lots"), "{}", conditions[0].message);
    }
}
