//! HTTP/1.1 on 127.0.0.1, as little as registries, proxies and token servers need.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(super) type Body = BoxBody<Bytes, Infallible>;
pub(super) type HttpClient = Client<HttpConnector, Full<Bytes>>;

pub(super) fn client() -> HttpClient {
    Client::builder(TokioExecutor::new()).build_http()
}

/// Sends a request and reads the whole answer.
pub(super) async fn ask(client: &HttpClient, request: Request<Full<Bytes>>) -> Result<Response<Bytes>> {
    let what = format!("{} {}", request.method(), request.uri());
    let response = client.request(request).await.with_context(|| format!("no answer to {what}"))?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.with_context(|| format!("half an answer to {what}"))?.to_bytes();
    Ok(Response::from_parts(head, body))
}

pub(super) fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).boxed()
}

/// A server that ends with this value.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) port: u16,
    task: JoinHandle<()>,
}

impl Serving {
    pub(super) async fn start<H, F>(handler: H) -> Result<Self>
    where
        H: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no free port on 127.0.0.1")?;
        let port = listener.local_addr().context("a listener without an address")?.port();
        Ok(Self { port, task: tokio::spawn(accept(listener, Arc::new(handler))) })
    }

    pub(super) fn address(&self) -> String {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)).to_string()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept<H, F>(listener: TcpListener, handler: Arc<H>)
where
    H: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    // Connections end with the server, as they would with a process.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let handler = Arc::clone(&handler);
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let answer = handler(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            // A client that goes away is no news.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
