//! The accept loop: takes connections while there is room, and sees them out at the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::FutureExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

use super::ServeOptions;
use super::connection::{Connection, Transport};
use crate::shutdown::Shutdown;

/// How long to wait after an accept error such as "too many open files", which would only come back at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often at most to say that there is no room.
const FULL_NOTICE: Duration = Duration::from_secs(30);

pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    transport: Transport,
    options: ServeOptions,
    shutdown: &Shutdown,
) {
    let address = listener.local_addr().map_or_else(|_| "unknown".to_owned(), |address| address.to_string());
    let aborted = CancellationToken::new();
    // Also when this future is dropped, no connection outlives the server.
    let _abort = aborted.clone().drop_guard();
    let house = House {
        connection: Arc::new(Connection::new(router, transport, options, shutdown)),
        open: TaskTracker::new(),
        aborted,
    };
    info!(address, "listening");
    house.welcome(listener, options.max_connections, &shutdown.stopping()).await;

    house.open.close();
    let running = house.open.len();
    if tokio::time::timeout(options.drain_timeout, house.open.wait()).await.is_err() {
        warn!(address, unfinished = house.open.len(), "connections cut off: they did not finish in time");
    }
    info!(address, drained = running, "stopped listening");
}

/// The open connections and what a new one gets.
struct House {
    connection: Arc<Connection>,
    open: TaskTracker,
    aborted: CancellationToken,
}

impl House {
    /// Accepts until `stopping`, then what is already in the backlog, and closes the door.
    async fn welcome(&self, listener: TcpListener, room: usize, stopping: &CancellationToken) {
        let room = Room { places: Arc::new(Semaphore::new(room)), noticed: None };
        stopping.run_until_cancelled(self.accept(&listener, room)).await;
        while let Some(Ok((stream, _))) = listener.accept().now_or_never() {
            self.admit(stream, None);
        }
    }

    async fn accept(&self, listener: &TcpListener, mut room: Room) {
        loop {
            let place = room.place().await;
            match listener.accept().await {
                Ok((stream, _)) => self.admit(stream, place),
                Err(error) if is_of_the_client(&error) => {
                    debug!(%error, "a connection was gone before it was accepted");
                }
                Err(error) => {
                    error!(%error, "cannot accept connections at the moment; trying on");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream, place: Option<OwnedSemaphorePermit>) {
        let (connection, aborted) = (Arc::clone(&self.connection), self.aborted.clone());
        self.open.spawn(async move {
            aborted.run_until_cancelled(connection.serve(stream)).await;
            drop(place);
        });
    }
}

/// The places for connections.
struct Room {
    places: Arc<Semaphore>,
    noticed: Option<Instant>,
}

impl Room {
    /// A place, as soon as there is one. None only if the semaphore were closed, which nobody does.
    async fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(place);
        }
        if self.noticed.is_none_or(|noticed| noticed.elapsed() > FULL_NOTICE) {
            warn!("the maximum of open connections is reached; new ones wait");
            self.noticed = Some(Instant::now());
        }
        Arc::clone(&self.places).acquire_owned().await.ok()
    }
}

/// Errors of a connection that ended in the backlog, which say nothing about the next one.
fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
