//! HTTP serving that neither loses a request on the way down nor lets one client hold the door shut.
//!
//! ```text
//! bind (first, before anything says "ready") ─▶ accept loop ─▶ [TLS handshake] ─▶ HTTP/1.1 or HTTP/2 connection
//! draining: HTTP/1.1 answers say "Connection: close"      stopping: listener closed, GOAWAY, wait for running requests
//! ```
//!
//! A failed handshake, a broken connection or an accept error ends that connection at most, never the loop.

mod activity;
mod bind;
mod connection;
mod listening;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub use bind::{BindError, bind};

use crate::shutdown::Shutdown;
use connection::Transport;

/// The bounds that a server keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// How long a client may take for the TLS handshake.
    pub handshake_timeout: Duration,
    /// How long a connection may stay open without a first request. On HTTP/1.1, the head of a later request that is
    /// still not complete after this time, counted from a look that came upon it, ends the connection too.
    pub header_timeout: Duration,
    /// How long an HTTP/1.1 connection may be quiet between requests. API servers keep theirs for 90 seconds, and the
    /// server should not be the first to close.
    pub idle_timeout: Duration,
    /// How many connections may be open; more wait in the backlog of the kernel.
    pub max_connections: usize,
    /// How many requests may run at once on one HTTP/2 connection.
    pub max_streams: u32,
    /// How long running requests may take to finish once the server stops.
    pub drain_timeout: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(100),
            max_connections: 4096,
            max_streams: 250,
            drain_timeout: Duration::from_secs(20),
        }
    }
}

/// Serves HTTP/1.1 without TLS, with the default bounds, until `shutdown` is stopping and the connections have drained.
pub async fn serve_plain(listener: TcpListener, router: Router, shutdown: &Shutdown) {
    listening::serve(listener, router, Transport::Plain, ServeOptions::default(), shutdown).await;
}

/// Serves HTTP/2 and HTTP/1.1, as ALPN decides, over TLS until `shutdown` is stopping and the connections have drained.
pub async fn serve_tls(
    listener: TcpListener,
    router: Router,
    tls: ServerConfig,
    options: ServeOptions,
    shutdown: &Shutdown,
) {
    let transport = Transport::Tls(TlsAcceptor::from(Arc::new(tls)));
    listening::serve(listener, router, transport, options, shutdown).await;
}

#[cfg(test)]
mod tests;
