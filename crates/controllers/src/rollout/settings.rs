//! Settings' status: whether each is used. Which one counts where is decided by the core, and not read from there.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kube::ResourceExt;
use podwright_api::eds::ExtendedDaemonsetSetting;
use podwright_core::rollout::overrides::settings;
use tokio_util::sync::CancellationToken;

use super::{Context, observe::read_setting, writes::WriteError};

/// How long changes are gathered: nodes come and go in numbers.
const GATHER: Duration = Duration::from_millis(100);
/// When to try again after an error.
const RETRY: Duration = Duration::from_secs(2);

/// Keeps the status of all settings right until cancelled.
pub(super) async fn run(context: Arc<Context>, cancel: CancellationToken) {
    let mut leadership = context.pen.leadership.clone();
    let mut failed = false;
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = context.world.settings_changed.notified() => {}
            _ = leadership.changed() => {}
            () = tokio::time::sleep(RETRY), if failed => {}
        }
        if cancel.run_until_cancelled(tokio::time::sleep(GATHER)).await.is_none() {
            return;
        }
        failed = !context.pen.leadership.is_current() || judge_all(&context).await;
    }
}

/// Whether something could not be written.
async fn judge_all(context: &Context) -> bool {
    let (groups, nodes) = context.world.settings();
    let labels: Vec<&BTreeMap<String, String>> = nodes.iter().map(|node| &node.facts.labels).collect();
    let mut failed = false;
    for group in groups.values() {
        let read: Vec<settings::Setting> = group.iter().map(|setting| read_setting(setting)).collect();
        for (setting, status) in group.iter().zip(settings::judge(&read, &labels)) {
            if setting.status.as_ref() == Some(&status) {
                continue;
            }
            match context.pen.store_status::<ExtendedDaemonsetSetting>(setting, &status).await {
                Ok(stored) => context.world.answered_setting(stored),
                Err(WriteError::NotLeading) => return true,
                Err(error) if error.is_gone() => {}
                Err(error) => {
                    tracing::warn!(setting = setting.name_any(), error = %error.text(), "failed to store the status of a setting");
                    failed = true;
                }
            }
        }
    }
    failed
}
