use super::*;
use crate::tls::policy::TlsPolicy;
use crate::tls::store::CertStore;
use crate::tls::testing;
use axum::body::Body;
use axum::http::{Request, StatusCode, Version, header};
use axum::routing::get;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A server with `/` and `/slow`, which answers only once it is released.
struct Server {
    address: SocketAddr,
    shutdown: Shutdown,
    started: Arc<Notify>,
    release: Arc<Notify>,
    serving: JoinHandle<()>,
    roots: Arc<RootCertStore>,
}

impl Server {
    async fn start(options: ServeOptions) -> Self {
        let pair = testing::self_signed(&["localhost"]);
        let store = Arc::new(CertStore::new());
        store.install(pair.chain.as_bytes(), pair.key.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pair.chain.as_bytes()).unwrap()).unwrap();

        let (started, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begun, go) = (Arc::clone(&started), Arc::clone(&release));
        let slow = move || async move {
            begun.notify_one();
            go.notified().await;
            "slow"
        };
        let router = Router::new().route("/", get(|| async { "ok" })).route("/slow", get(slow));
        let listener = bind("127.0.0.1:0").await.unwrap().unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = Shutdown::manual();
        let tls = TlsPolicy::default().server_config(store).unwrap();
        let stop = shutdown.clone();
        let serving = tokio::spawn(async move { serve_tls(listener, router, tls, options, &stop).await });
        Self { address, shutdown, started, release, serving, roots: Arc::new(roots) }
    }

    async fn connect(&self, alpn: &str) -> TlsStream<TcpStream> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(Arc::clone(&self.roots))
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    async fn http1(&self) -> http1::SendRequest<Body> {
        let (client, connection) =
            http1::handshake(TokioIo::new(self.connect("http/1.1").await)).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn http2(&self) -> http2::SendRequest<Body> {
        let io = TokioIo::new(self.connect("h2").await);
        let (client, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

fn ask(path: &str) -> Request<Body> {
    Request::get(format!("https://localhost{path}")).body(Body::empty()).unwrap()
}

/// Waits until the server closes; what it sent before does not matter.
async fn until_closed(mut stream: impl tokio::io::AsyncRead + Unpin) {
    let mut rest = Vec::new();
    // An abrupt end is an end too.
    let _ = stream.read_to_end(&mut rest).await;
}

#[tokio::test]
async fn both_protocols_are_served_as_alpn_decides() {
    let server = Server::start(ServeOptions::default()).await;
    let answer = server.http1().await.send_request(ask("/")).await.unwrap();
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_11));
    let answer = server.http2().await.send_request(ask("/")).await.unwrap();
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_2));
}

#[tokio::test]
async fn a_failed_handshake_does_not_end_the_server() {
    let server = Server::start(ServeOptions::default()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    until_closed(stream).await;
    assert_eq!(server.http1().await.send_request(ask("/")).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_client_that_is_silent_or_slow_is_sent_away() {
    let short = Duration::from_millis(50);
    let server =
        Server::start(ServeOptions { handshake_timeout: short, header_timeout: short, ..Default::default() })
            .await;
    until_closed(TcpStream::connect(server.address).await.unwrap()).await;
    until_closed(server.connect("http/1.1").await).await;
    until_closed(server.connect("h2").await).await;
    let mut stream = server.connect("http/1.1").await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: local").await.unwrap();
    until_closed(stream).await;
}

#[tokio::test]
async fn a_later_request_may_take_its_time_to_begin_but_not_to_come_in() {
    let short = Duration::from_millis(50);
    let server = Server::start(ServeOptions { header_timeout: short, ..Default::default() }).await;
    let mut stream = server.connect("http/1.1").await;
    let head = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut answer = [0; 15];
    for _ in 0..2 {
        stream.write_all(head).await.unwrap();
        while !answer.ends_with(b"\r\n\r\nok") {
            answer.rotate_left(1);
            answer[14] = stream.read_u8().await.unwrap();
        }
        answer.fill(0);
        // Longer than a head may take: between requests that is no fault.
        tokio::time::sleep(5 * short).await;
    }
    stream.write_all(&head[..20]).await.unwrap();
    until_closed(stream).await;
}

#[tokio::test]
async fn connections_over_the_maximum_wait_for_their_turn() {
    let server = Server::start(ServeOptions { max_connections: 1, ..Default::default() }).await;
    let mut first = server.http1().await;
    assert_eq!(first.send_request(ask("/")).await.unwrap().status(), StatusCode::OK);
    let mut second = std::pin::pin!(server.http1());
    let waited = tokio::time::timeout(Duration::from_millis(100), second.as_mut()).await;
    assert!(waited.is_err(), "the second connection was served beside the first");
    drop(first);
    assert_eq!(second.await.send_request(ask("/")).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn stopping_finishes_running_requests_and_takes_no_more_connections() {
    for alpn in ["http/1.1", "h2"] {
        let server = Server::start(ServeOptions::default()).await;
        let running = if alpn == "h2" {
            let mut client = server.http2().await;
            tokio::spawn(async move { client.send_request(ask("/slow")).await })
        } else {
            let mut client = server.http1().await;
            tokio::spawn(async move { client.send_request(ask("/slow")).await })
        };
        server.started.notified().await;
        server.shutdown.trigger();
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert!(!server.serving.is_finished(), "{alpn}: a request is still running");
        server.release.notify_one();
        let answer = running.await.unwrap().unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{alpn}");
        if alpn == "http/1.1" {
            assert_eq!(answer.headers()[header::CONNECTION], "close");
        }
        server.serving.await.unwrap();
    }
}

#[tokio::test]
async fn a_request_on_a_connection_made_just_before_the_stop_is_answered() {
    let server = Server::start(ServeOptions::default()).await;
    let mut client = server.http1().await;
    server.shutdown.trigger();
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let answer = client.send_request(ask("/")).await.unwrap();
    assert_eq!(
        (answer.status(), &answer.headers()[header::CONNECTION]),
        (StatusCode::OK, &"close".parse().unwrap())
    );
    server.serving.await.unwrap();
}

#[tokio::test]
async fn requests_that_do_not_finish_in_time_are_cut_off() {
    let server =
        Server::start(ServeOptions { drain_timeout: Duration::from_millis(50), ..Default::default() }).await;
    let mut client = server.http1().await;
    let running = tokio::spawn(async move { client.send_request(ask("/slow")).await });
    server.started.notified().await;
    server.shutdown.trigger();
    server.serving.await.unwrap();
    assert!(running.await.unwrap().is_err());
}

#[tokio::test]
async fn plain_http_is_served_and_stops_at_once_when_idle() {
    let shutdown = Shutdown::manual();
    let listener = bind("127.0.0.1:0").await.unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let stop = shutdown.clone();
    let router = Router::new().route("/", get(|| async { "ok" }));
    let serving = tokio::spawn(async move { serve_plain(listener, router, &stop).await });

    let stream = TcpStream::connect(address).await.unwrap();
    let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(client.send_request(ask("/")).await.unwrap().status(), StatusCode::OK);
    shutdown.trigger();
    serving.await.unwrap();
}
