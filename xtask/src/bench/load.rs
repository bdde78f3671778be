use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, Uri, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{net::TcpStream, task::JoinSet};
use tokio_rustls::TlsConnector;

/// What one round showed.
#[derive(Clone, Copy)]
pub(super) struct Figures {
    pub(super) requests: usize,
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Keeps `connections` connections busy with one review after the other.
pub(super) fn run(url: &str, review: &Bytes, connections: usize, time: Duration) -> anyhow::Result<Figures> {
    let uri: Uri = url.parse().with_context(|| format!("{url} is not an address"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut latencies, elapsed) = runtime.block_on(async {
        let mut workers = JoinSet::new();
        let started = Instant::now();
        for _ in 0..connections {
            workers.spawn(worker(uri.clone(), review.clone(), started + time));
        }
        let mut all = Vec::new();
        while let Some(latencies) = workers.join_next().await {
            all.extend(latencies??);
        }
        anyhow::Ok((all, started.elapsed()))
    })?;
    ensure!(!latencies.is_empty(), "no review was answered");
    latencies.sort_unstable();
    let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
    #[expect(clippy::cast_precision_loss, reason = "there are not 2^52 reviews")]
    let per_second = latencies.len() as f64 / elapsed.as_secs_f64();
    Ok(Figures { requests: latencies.len(), per_second, p50_ms: at(50), p99_ms: at(99) })
}

async fn worker(uri: Uri, review: Bytes, until: Instant) -> anyhow::Result<Vec<Duration>> {
    let authority = uri.authority().context("the address has no host")?.clone();
    let stream = TcpStream::connect((authority.host(), authority.port_u16().unwrap_or(443))).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from(authority.host().to_owned())?;
    let stream = TlsConnector::from(Arc::new(trusting()?)).connect(name, stream).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut latencies = Vec::with_capacity(1 << 16);
    while Instant::now() < until {
        let request = Request::post(uri.path())
            .header("host", authority.as_str())
            .header("content-type", "application/json")
            .body(Full::new(review.clone()))?;
        let started = Instant::now();
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        latencies.push(started.elapsed());
        ensure!(status == StatusCode::OK, "{status}: {}", String::from_utf8_lossy(&body));
    }
    drop(sender);
    connection.abort();
    Ok(latencies)
}

/// TLS without asking who the server is: the benchmark only ever talks to this machine.
fn trusting() -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting(provider)))
        .with_no_client_auth())
}

#[derive(Debug)]
struct Trusting(Arc<CryptoProvider>);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
