//! HTTP to registries: bounded in size and time, redirects without credentials for strangers.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, USER_AGENT},
};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use rustls_platform_verifier::Verifier;

use crate::{Settings, SettingsError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const MOST_REDIRECTS: usize = 5;
const AGENT: &str = concat!("podwright/", env!("CARGO_PKG_VERSION"));

type Connection = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The clients of all hosts: one for most, and one for each that has a CA of its own.
pub(crate) struct Transport {
    usual: Connection,
    special: HashMap<String, Connection>,
    timeout: Duration,
}

/// A request.
pub(crate) struct Ask<'a> {
    pub(crate) method: Method,
    pub(crate) url: Uri,
    /// Whose certificates count: the registry's own host, also for the token server that it names.
    pub(crate) trust: &'a str,
    pub(crate) accept: Option<&'static str>,
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) form: Option<String>,
    /// The longest body that is taken.
    pub(crate) limit: usize,
}

/// An answer, whatever its status.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("{0}")]
    Connection(String),
    #[error("its answer is longer than {0} bytes")]
    TooLong(usize),
    #[error("it redirects {0}")]
    Redirect(&'static str),
}

impl Broken {
    /// Whether there was an answer, but none that anybody could use: asking again would not change it.
    pub(crate) fn is_unusable(&self) -> bool {
        matches!(self, Self::TooLong(_) | Self::Redirect(_))
    }
}

impl Transport {
    pub(crate) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let mut special = HashMap::new();
        for (host, with) in &settings.hosts {
            if let Some(ca) = &with.ca {
                special.insert(host.clone(), connection(&authorities(host, ca)?)?);
            }
        }
        Ok(Self { usual: connection(&[])?, special, timeout: settings.request_timeout })
    }

    /// Sends a request and reads the whole answer. Redirects are followed; another host does not see who we are.
    pub(crate) async fn send(&self, ask: Ask<'_>) -> Result<Answer, Broken> {
        tokio::time::timeout(self.timeout, self.follow(ask))
            .await
            .unwrap_or(Err(Broken::Timeout(self.timeout)))
    }

    async fn follow(&self, mut ask: Ask<'_>) -> Result<Answer, Broken> {
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.once(&ask).await?;
            // Token servers are asked with a form, which must not go anywhere else.
            if ask.form.is_some() || !is_redirect(answer.status) {
                return Ok(answer);
            }
            let next = target(&ask.url, &answer.headers)?;
            if next.authority() != ask.url.authority() || next.scheme() != ask.url.scheme() {
                ask.authorization = None;
            }
            ask.url = next;
        }
        Err(Broken::Redirect("without end"))
    }

    async fn once(&self, ask: &Ask<'_>) -> Result<Answer, Broken> {
        let mut request = Request::builder().method(&ask.method).uri(&ask.url).header(USER_AGENT, AGENT);
        if let Some(accept) = ask.accept {
            request = request.header(ACCEPT, accept);
        }
        if let Some(authorization) = &ask.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if ask.form.is_some() {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        let body = Full::new(Bytes::from(ask.form.clone().unwrap_or_default()));
        let request = request.body(body).map_err(|error| Broken::Connection(error.to_string()))?;
        let connection = self.special.get(ask.trust).unwrap_or(&self.usual);
        let response =
            connection.request(request).await.map_err(|error| Broken::Connection(innermost(&error)))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ask.limit).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Broken::TooLong(ask.limit)
            } else {
                Broken::Connection(format!("the connection broke: {error}"))
            }
        })?;
        Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
    }
}

fn connection(extra: &[CertificateDer<'static>]) -> Result<Connection, SettingsError> {
    let system = |error: rustls::Error| SettingsError::System(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        Verifier::new_with_extra_roots(extra.iter().cloned(), Arc::clone(&provider)).map_err(system)?;
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(system)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_mins(1))
        .build(connector))
}

fn authorities(host: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    let wrong = |reason: String| SettingsError::Ca { host: host.to_owned(), reason };
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(format!("it is not PEM ({error})")))?;
    if certificates.is_empty() {
        return Err(wrong("there is no certificate in it".to_owned()));
    }
    let mut store = rustls::RootCertStore::empty();
    for certificate in &certificates {
        store.add(certificate.clone()).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(certificates)
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Where a redirect leads. Its text may hold a signature that is as good as a password, so it is never told.
fn target(from: &Uri, headers: &HeaderMap) -> Result<Uri, Broken> {
    const NOWHERE: Broken = Broken::Redirect("to nowhere");
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok()).ok_or(NOWHERE)?;
    let (scheme, authority) =
        (from.scheme_str().unwrap_or("https"), from.authority().map_or("", |host| host.as_str()));
    let absolute = if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        location.to_owned()
    };
    let next: Uri = absolute.parse().map_err(|_| NOWHERE)?;
    match (scheme, next.scheme_str(), next.authority()) {
        (_, Some("https"), Some(_)) | ("http", Some("http"), Some(_)) => Ok(next),
        ("https", Some("http"), _) => Err(Broken::Redirect("from https to http")),
        _ => Err(NOWHERE),
    }
}

/// The reason under all the wrapping: "Connection refused". For the two faults that settings can cure it says how.
fn innermost(error: &hyper_util::client::legacy::Error) -> String {
    let mut reason: &(dyn std::error::Error + 'static) = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    match tls(reason) {
        Some(rustls::Error::InvalidMessage(_)) => {
            "it does not speak TLS; if that is meant, its host must be marked as insecure".to_owned()
        }
        Some(rustls::Error::InvalidCertificate(wrong)) => {
            format!(
                "its certificate is not trusted ({wrong:?}); if its CA is your own, give it for this host"
            )
        }
        _ => reason.to_string(),
    }
}

/// The error of TLS in an error of input and output, which hides it from its sources.
fn tls<'a>(reason: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let hidden = || tls(reason.downcast_ref::<std::io::Error>()?.get_ref()?);
    reason.downcast_ref().or_else(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(from: &str, location: &str) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, location.parse().unwrap());
        target(&from.parse().unwrap(), &headers).map(|uri| uri.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn redirects_lead_anywhere_but_out_of_encryption() {
        let from = "https://r.example/v2/a/blobs/x";
        assert_eq!(redirect(from, "https://cdn.example/x?s=1").unwrap(), "https://cdn.example/x?s=1");
        assert_eq!(redirect(from, "/other").unwrap(), "https://r.example/other");
        assert_eq!(redirect(from, "//cdn.example/x").unwrap(), "https://cdn.example/x");
        assert_eq!(redirect("http://r.example/", "http://cdn.example/x").unwrap(), "http://cdn.example/x");
        assert_eq!(redirect(from, "http://cdn.example/x").unwrap_err(), "it redirects from https to http");
        for nowhere in ["other", "ftp://x/y", ""] {
            assert_eq!(redirect(from, nowhere).unwrap_err(), "it redirects to nowhere");
        }
    }

    #[test]
    fn a_ca_that_cannot_be_used_is_told_at_once() {
        for (pem, reason) in
            [("", "no certificate"), ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "")]
        {
            let error = authorities("r.example", pem.as_bytes()).unwrap_err().to_string();
            assert!(
                error.starts_with("the CA of r.example cannot be used") && error.contains(reason),
                "{error}"
            );
        }
    }
}
