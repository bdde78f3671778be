//! The way down, in two phases, so that no request is lost while the rest of the cluster learns that we go.
//!
//! ```text
//! running ──signal──▶ draining (not ready, still serving) ──grace──▶ stopping (listener closed, requests finish)
//!                        └────────────── second signal: exit 130 at once ──────────────┘
//! ```

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The exit code after a second signal, as shells show an interrupted program.
const INTERRUPTED: i32 = 130;

/// A handle on the shutdown of this process; clones share it.
#[derive(Clone, Debug)]
pub struct Shutdown {
    draining: CancellationToken,
    stopping: CancellationToken,
}

/// Signals cannot be listened to.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for SIGTERM and SIGINT, so a clean shutdown would be impossible")]
pub struct SignalError(#[from] std::io::Error);

impl Shutdown {
    /// Starts listening for SIGTERM and SIGINT. Must be called inside a tokio runtime.
    ///
    /// `grace` is how long we go on accepting connections after the first signal: long enough for load balancers and
    /// endpoints to notice that we are not ready.
    pub fn on_signals(grace: Duration) -> Result<Self, SignalError> {
        let signals = futures::stream::select(
            deliveries(signal(SignalKind::terminate())?, "SIGTERM"),
            deliveries(signal(SignalKind::interrupt())?, "SIGINT"),
        );
        let this = Self::with_grace(grace);
        let watched = this.clone();
        tokio::spawn(async move {
            watched.until_second(signals).await;
            std::process::exit(INTERRUPTED);
        });
        Ok(this)
    }

    /// One that only [`trigger`](Self::trigger) starts, with no grace: for tests and for commands that serve nothing.
    #[must_use]
    pub fn manual() -> Self {
        let draining = CancellationToken::new();
        Self { stopping: draining.child_token(), draining }
    }

    /// Starts the shutdown as the first signal would; calling it again changes nothing.
    ///
    /// For errors that leave the process no use, such as a lost task.
    pub fn trigger(&self) {
        self.draining.cancel();
    }

    /// Cancelled at the first signal: say "not ready", but go on serving.
    #[must_use]
    pub fn draining(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// Cancelled after the grace: accept no more, finish what is running, release what is held.
    #[must_use]
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    fn with_grace(grace: Duration) -> Self {
        let this = Self { draining: CancellationToken::new(), stopping: CancellationToken::new() };
        let waiting = this.clone();
        tokio::spawn(async move {
            waiting.draining.cancelled().await;
            tokio::time::sleep(grace).await;
            waiting.stopping.cancel();
        });
        this
    }

    /// Drains on the first signal, returns on the second.
    async fn until_second(&self, signals: impl Stream<Item = &'static str>) {
        let mut signals = std::pin::pin!(signals);
        if let Some(name) = signals.next().await {
            info!(signal = name, "shutting down; a second signal exits at once");
            self.trigger();
        }
        if let Some(name) = signals.next().await {
            warn!(signal = name, "second signal, exiting at once");
        }
    }
}

/// A signal as a stream that never ends.
fn deliveries(source: Signal, name: &'static str) -> impl Stream<Item = &'static str> {
    futures::stream::unfold(source, move |mut source| async move {
        source.recv().await?;
        Some((name, source))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn stopping_follows_draining_after_the_grace() {
        let grace = Duration::from_secs(5);
        let shutdown = Shutdown::with_grace(grace);
        assert!(!shutdown.draining().is_cancelled() && !shutdown.stopping().is_cancelled());

        let started = Instant::now();
        shutdown.trigger();
        assert!(shutdown.draining().is_cancelled() && !shutdown.stopping().is_cancelled());
        shutdown.stopping().cancelled().await;
        assert!(started.elapsed() >= grace);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_signal_drains_and_the_second_ends_the_wait() {
        let shutdown = Shutdown::with_grace(Duration::from_mins(1));
        let (send, receive) = tokio::sync::mpsc::unbounded_channel();
        let signals = futures::stream::unfold(receive, |mut receive| async move {
            receive.recv().await.map(|name| (name, receive))
        });
        let mut ends = Box::pin(shutdown.until_second(signals));
        assert!(ends.as_mut().now_or_never().is_none());

        send.send("SIGTERM").unwrap();
        assert!(ends.as_mut().now_or_never().is_none());
        assert!(shutdown.draining().is_cancelled() && !shutdown.stopping().is_cancelled());

        send.send("SIGINT").unwrap();
        ends.await;
    }

    #[test]
    fn a_manual_shutdown_needs_no_runtime_and_has_no_grace() {
        let shutdown = Shutdown::manual();
        assert!(!shutdown.stopping().is_cancelled());
        shutdown.clone().trigger();
        assert!(shutdown.draining().is_cancelled() && shutdown.stopping().is_cancelled());
    }
}
