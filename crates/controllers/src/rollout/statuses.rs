//! Statuses, stored: at once and waited for when they say more than figures, else in the background and now and then.

use std::sync::Arc;

use futures::future::try_join_all;
use podwright_api::eds::{ExtendedDaemonSet, ExtendedDaemonSetReplicaSetStatus, ExtendedDaemonSetStatus};
use podwright_core::rollout::plan::Plan;
use tokio::time::Instant;

use super::{
    Context,
    enact::find,
    keeper::{Keeper, Outcome},
    world::{KnownReplicaSet, View},
    writes::WriteError,
};

/// What is to be stored.
struct Statuses {
    set: Arc<ExtendedDaemonSet>,
    status: Option<ExtendedDaemonSetStatus>,
    replica_sets: Vec<(Arc<KnownReplicaSet>, ExtendedDaemonSetReplicaSetStatus)>,
}

impl Statuses {
    /// What has changed; none if nothing has. The set's own is left out where the roles have been stored with it already.
    fn of(view: &View, set: &Arc<ExtendedDaemonSet>, plan: &Plan) -> Option<Self> {
        let known = |(name, status): &(String, ExtendedDaemonSetReplicaSetStatus)| {
            Some((find(view, name)?, status.clone()))
        };
        let replica_sets: Vec<_> = plan.replica_set_statuses.iter().filter_map(known).collect();
        let status = plan.status.clone().filter(|_| !plan.roles_changed);
        (status.is_some() || !replica_sets.is_empty()).then(|| Self {
            set: set.clone(),
            status,
            replica_sets,
        })
    }

    /// Replica sets' first: what they say of a failure is acted on once it is stored.
    async fn store(self, context: &Context) -> Result<Arc<ExtendedDaemonSet>, WriteError> {
        let each = self.replica_sets.iter().map(|(known, status)| async {
            let stored = context.pen.store_status(&known.object, status).await?;
            context.world.answered_replica_set(stored);
            Ok::<(), WriteError>(())
        });
        try_join_all(each).await?;
        let Some(status) = self.status else { return Ok(self.set) };
        let stored = context.pen.store_status(&*self.set, &status).await?;
        context.world.answered_set(stored.clone());
        Ok(Arc::new(stored))
    }
}

impl Keeper {
    /// Stores what has changed, and gives the set as it is then.
    pub(super) async fn store_statuses(
        &mut self,
        view: &View,
        set: Arc<ExtendedDaemonSet>,
        plan: &Plan,
    ) -> Result<Arc<ExtendedDaemonSet>, WriteError> {
        match Statuses::of(view, &set, plan) {
            None => Ok(set),
            Some(statuses) => {
                self.statuses_stored = Some(Instant::now());
                statuses.store(&self.context).await
            }
        }
    }

    /// Stores what has changed in the background, unless that was done a moment ago; when to look again then.
    pub(super) fn store_figures(
        &mut self,
        view: &View,
        set: &Arc<ExtendedDaemonSet>,
        plan: &Plan,
    ) -> Option<Instant> {
        let statuses = Statuses::of(view, set, plan)?;
        if self.storing {
            // We are woken when that is done.
            return None;
        }
        if let Err(due) = self.statuses_due() {
            return Some(due);
        }
        (self.storing, self.statuses_stored) = (true, Some(Instant::now()));
        let context = self.context.clone();
        self.running.spawn(async move { Outcome::Stored(statuses.store(&context).await.map(|_| ())) });
        None
    }

    /// Waits until nothing is being stored in the background; whether something was.
    pub(super) async fn stored(&mut self) -> bool {
        let was = self.storing;
        while self.storing {
            match self.running.join_next().await {
                Some(done) => self.settle(done.ok()),
                None => self.storing = false,
            }
        }
        was
    }
}
