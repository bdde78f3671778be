//! A client that speaks to the webhook as an API server does.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

/// Sends one POST and gives status and body.
pub(crate) async fn post(
    version: Version,
    port: u16,
    path: &str,
    ca: &str,
    body: impl Into<Bytes>,
) -> anyhow::Result<(u16, String)> {
    let request = Request::post(format!("https://127.0.0.1:{port}{path}"))
        .header("host", "127.0.0.1")
        .header("content-type", "application/json")
        .body(Full::new(body.into()))?;
    send(version, port, ca, request).await
}

/// Sends one GET and gives status and body.
pub(crate) async fn get(port: u16, path: &str, ca: &str) -> anyhow::Result<(u16, String)> {
    let request = Request::get(format!("https://127.0.0.1:{port}{path}"))
        .header("host", "127.0.0.1")
        .body(Full::default())?;
    send(Version::Http1, port, ca, request).await
}

async fn send(
    version: Version,
    port: u16,
    ca: &str,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<(u16, String)> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols =
        vec![if version == Version::Http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let stream =
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("127.0.0.1")?, stream).await?;
    let response = match version {
        Version::Http1 => {
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            sender.send_request(request).await?
        }
        Version::Http2 => {
            let (mut sender, connection) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            sender.send_request(request).await?
        }
    };
    let status = response.status().as_u16();
    Ok((status, String::from_utf8(response.into_body().collect().await?.to_bytes().to_vec())?))
}
