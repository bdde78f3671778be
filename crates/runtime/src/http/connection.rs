//! One connection from its first byte to its last.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, Version, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;
use tracing::{debug, warn};

use super::ServeOptions;
use super::activity::{Activity, Glance, Heard};
use crate::shutdown::Shutdown;

/// How long a connection on which nothing was asked yet may still ask once the server stops.
const LAST_CALL: Duration = Duration::from_millis(500);

/// How often an HTTP/2 peer is asked for a sign of life, and how long it may take to give one.
const PING: Duration = Duration::from_secs(20);

/// What lies under HTTP.
pub(super) enum Transport {
    Plain,
    Tls(TlsAcceptor),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// What every connection of a server shares.
pub(super) struct Connection {
    router: Router,
    transport: Transport,
    options: ServeOptions,
    http1: Builder<TokioExecutor>,
    http2: Builder<TokioExecutor>,
    draining: CancellationToken,
    stopping: CancellationToken,
}

impl Connection {
    pub(super) fn new(
        router: Router,
        transport: Transport,
        options: ServeOptions,
        shutdown: &Shutdown,
    ) -> Self {
        // The protocol is known from ALPN. Letting hyper guess it from the first bytes would wait for them without limit.
        let mut http1 = Builder::new(TokioExecutor::new()).http1_only();
        http1.http1().timer(TokioTimer::new()).header_read_timeout(options.idle_timeout);
        let mut http2 = Builder::new(TokioExecutor::new()).http2_only();
        http2
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(options.max_streams)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING);
        let (draining, stopping) = (shutdown.draining(), shutdown.stopping());
        Self { router, transport, options, http1, http2, draining, stopping }
    }

    /// Serves one client until it or the server is done.
    pub(super) async fn serve(&self, stream: TcpStream) {
        // Answers are small and awaited: waiting to fill a packet only delays them. If it fails, they are slower.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "TCP_NODELAY cannot be set");
        }
        match &self.transport {
            Transport::Plain => self.drive(stream, Protocol::Http1).await,
            Transport::Tls(acceptor) => {
                match tokio::time::timeout(self.options.handshake_timeout, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                        let protocol = if is_http2 { Protocol::Http2 } else { Protocol::Http1 };
                        self.drive(stream, protocol).await;
                    }
                    Ok(Err(error)) => report(&error),
                    Err(_) => debug!("the client did not finish the TLS handshake in time"),
                }
            }
        }
    }

    fn builder(&self, protocol: Protocol) -> &Builder<TokioExecutor> {
        match protocol {
            Protocol::Http1 => &self.http1,
            Protocol::Http2 => &self.http2,
        }
    }

    async fn drive(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, protocol: Protocol) {
        let activity = Arc::new(Activity::default());
        let heard = Heard { stream, activity: Arc::clone(&activity) };
        let service = service_fn(|request| {
            activity.begin();
            answer(self.router.clone(), request, self.draining.clone(), Arc::clone(&activity))
        });
        let mut connection = pin!(self.builder(protocol).serve_connection(TokioIo::new(heard), service));
        let mut patience = pin!(tokio::time::sleep(self.options.header_timeout));
        let (mut is_closing, mut is_watched, mut former) = (false, true, None);
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        debug!(error, "connection ended");
                    }
                    return;
                }
                () = self.stopping.cancelled(), if !is_closing => {
                    is_closing = true;
                    // hyper would drop an HTTP/1.1 connection without a request, though its first may be under way.
                    if protocol == Protocol::Http2 || activity.glance() != Glance::New {
                        connection.as_mut().graceful_shutdown();
                    } else {
                        patience.as_mut().reset(Instant::now() + LAST_CALL);
                    }
                }
                () = patience.as_mut(), if is_watched => match activity.glance() {
                    Glance::New if is_closing => return,
                    Glance::New => {
                        // Politely first, as a request may cross the good-bye; next time the connection is dropped.
                        is_closing = true;
                        connection.as_mut().graceful_shutdown();
                        patience.as_mut().reset(Instant::now() + LAST_CALL);
                    }
                    // Its frames bring more than requests; hyper and its pings look after it from here on.
                    _ if protocol == Protocol::Http2 => is_watched = false,
                    Glance::Coming { after } if former == Some(Glance::Coming { after }) => {
                        debug!("the client did not finish the head of its request in time");
                        return;
                    }
                    glance => {
                        former = Some(glance);
                        patience.as_mut().reset(Instant::now() + self.options.header_timeout);
                    }
                },
            }
        }
    }
}

/// Lets the router answer. While draining, HTTP/1.1 clients are told to come back on another connection, which by then
/// leads elsewhere; HTTP/2 has GOAWAY for that.
async fn answer(
    mut router: Router,
    request: Request<Incoming>,
    draining: CancellationToken,
    activity: Arc<Activity>,
) -> Result<Response<Body>, Infallible> {
    let version = request.version();
    let mut response = router.call(request).await?;
    if draining.is_cancelled() && version < Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    activity.end();
    Ok(response)
}

/// Port checks hang up in the handshake all the time; an alert from a client that does not trust us matters.
fn report(error: &io::Error) {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(error) = cause {
        warn!(%error, "TLS handshake failed");
    } else {
        debug!(%error, "the client left during the TLS handshake");
    }
}
