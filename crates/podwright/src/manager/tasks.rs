//! Tasks that run as long as the process.

use std::future::Future;

use podwright_runtime::shutdown::Shutdown;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What runs beside the serving. A task that ends by itself is a fault, and the process should end too.
pub(super) struct Tasks {
    tracker: TaskTracker,
    /// Those that others rely on: they end after the rest.
    base: TaskTracker,
    cancel: CancellationToken,
    stopping: CancellationToken,
    faults: mpsc::UnboundedSender<anyhow::Error>,
}

impl Tasks {
    /// None yet, and where their faults are told.
    pub(super) fn new(shutdown: &Shutdown) -> (Self, mpsc::UnboundedReceiver<anyhow::Error>) {
        let (faults, told) = mpsc::unbounded_channel();
        let tasks = Self {
            tracker: TaskTracker::new(),
            base: TaskTracker::new(),
            cancel: CancellationToken::new(),
            stopping: shutdown.stopping(),
            faults,
        };
        (tasks, told)
    }

    /// Runs a task, which ends when its token is cancelled.
    pub(super) fn spawn<F>(&self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.tracker.spawn(self.guarded(name, task(self.cancel.clone())));
    }

    /// Runs a task that others rely on.
    pub(super) fn spawn_base<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.base.spawn(self.guarded(name, task));
    }

    /// Ends all, then lets go of the lease: nothing may act on the leadership when the next leader begins.
    pub(super) async fn end(self, released: &CancellationToken) {
        self.cancel.cancel();
        self.tracker.close();
        self.tracker.wait().await;
        released.cancel();
        self.base.close();
        self.base.wait().await;
    }

    fn guarded<F>(&self, name: &'static str, running: F) -> impl Future<Output = ()> + Send + 'static
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let (cancel, stopping, faults) = (self.cancel.clone(), self.stopping.clone(), self.faults.clone());
        async move {
            let ended = running.await;
            if !cancel.is_cancelled() && !stopping.is_cancelled() {
                let fault = ended.err().unwrap_or_else(|| anyhow::anyhow!("ended by itself"));
                // Whoever listens has ended already if this cannot be told.
                let _ = faults.send(fault.context(name));
            }
        }
    }
}
