use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header::AUTHORIZATION};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use rcgen::{CertificateParams, DnType, KeyPair};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::json;

use super::User;
use super::http::{Body, Serving, full};
use super::server::der_of;

pub(super) const ISSUER: &str = "podwright-lab";
pub(super) const SERVICE: &str = "lab-registry";
/// The identity token that the server takes for team A, as `docker login` at some clouds gets one.
const IDENTITY_TOKEN: &str = "identity-of-team-a";

/// A token server: it signs what a real registry verifies.
///
/// Repositories below `public/` are for everybody, those below `team-a/` for team A, and so on.
#[derive(Debug)]
pub struct TokenServer {
    serving: Serving,
    desk: Arc<Desk>,
}

struct Desk {
    key: EcdsaKeyPair,
    certificate: String,
    issued: AtomicUsize,
    life: Mutex<Duration>,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Desk").field("issued", &self.issued).finish_non_exhaustive()
    }
}

impl TokenServer {
    /// Starts one.
    pub async fn start() -> Result<Arc<Self>> {
        let pair = KeyPair::generate().context("failed to make the token server's key")?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, ISSUER);
        let certificate =
            params.self_signed(&pair).context("failed to make the token server's certificate")?.pem();
        let key = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            pair.serialized_der(),
            &SystemRandom::new(),
        )
        .map_err(|error| anyhow!("the token server's key cannot be used: {error}"))?;
        let life = Mutex::new(Duration::from_mins(5));
        let desk = Arc::new(Desk { key, certificate, issued: AtomicUsize::new(0), life });
        let serving = Serving::start({
            let desk = Arc::clone(&desk);
            move |request| {
                let desk = Arc::clone(&desk);
                async move { desk.answer(request).await }
            }
        })
        .await?;
        Ok(Arc::new(Self { serving, desk }))
    }

    /// Where tokens are to be had.
    #[must_use]
    pub fn realm(&self) -> String {
        format!("http://{}/token", self.serving.address())
    }

    /// How many tokens it has given.
    #[must_use]
    pub fn issued(&self) -> usize {
        self.desk.issued.load(Ordering::Relaxed)
    }

    /// What it says its tokens are good for from now on. They are good for five minutes whatever it says.
    pub fn claim_life(&self, life: Duration) {
        *self.desk.life.lock().unwrap_or_else(PoisonError::into_inner) = life;
    }

    /// `.dockerconfigjson` with team A's identity token instead of a password.
    #[must_use]
    pub fn identity_config(&self, host: &str) -> String {
        json!({"auths": {host: {"identitytoken": IDENTITY_TOKEN}}}).to_string()
    }

    pub(super) fn certificate(&self) -> &str {
        &self.desk.certificate
    }

    pub(super) fn sign(&self, repository: &str, actions: &[&str]) -> Result<String> {
        self.desk.sign(repository, actions)
    }
}

impl Desk {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        self.token(request)
            .await
            .unwrap_or_else(|status| respond(status, json!({"errors": [{"code": "DENIED"}]})))
    }

    async fn token(&self, request: Request<Incoming>) -> Result<Response<Body>, StatusCode> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let (user, query, field) = if head.method == Method::POST {
            let form = fields(std::str::from_utf8(&body).unwrap_or_default());
            let known = form.get("refresh_token").is_some_and(|token| token == IDENTITY_TOKEN);
            let user = if known { Some(User::A) } else { return Err(StatusCode::UNAUTHORIZED) };
            (user, form, "access_token")
        } else {
            let user = match head.headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap_or_default()) {
                Some(authorization) => Some(User::of(authorization).ok_or(StatusCode::UNAUTHORIZED)?),
                None => None,
            };
            (user, fields(head.uri.query().unwrap_or_default()), "token")
        };
        if query.get("service").map(String::as_str) != Some(SERVICE) {
            return Err(StatusCode::BAD_REQUEST);
        }
        let scope = query.get("scope").ok_or(StatusCode::BAD_REQUEST)?;
        let repository = scope.strip_prefix("repository:").and_then(|rest| rest.strip_suffix(":pull"));
        let repository = repository.ok_or(StatusCode::BAD_REQUEST)?;
        let owner = repository.split('/').next().unwrap_or_default();
        // As real ones do: a token is given in any case, but it may be good for nothing.
        let actions: &[&str] =
            if owner == "public" || user.is_some_and(|user| user.name() == owner) { &["pull"] } else { &[] };
        let token = self.sign(repository, actions).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        self.issued.fetch_add(1, Ordering::Relaxed);
        let life = self.life.lock().unwrap_or_else(PoisonError::into_inner).as_secs();
        Ok(respond(StatusCode::OK, json!({field: token, "expires_in": life})))
    }

    fn sign(&self, repository: &str, actions: &[&str]) -> Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?.as_secs();
        let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [der_of(&self.certificate)]});
        let access = if actions.is_empty() {
            json!([])
        } else {
            json!([{"type": "repository", "name": repository, "actions": actions}])
        };
        let claims = json!({
            "iss": ISSUER, "sub": "lab", "aud": SERVICE, "jti": format!("{now}-{}", self.issued.load(Ordering::Relaxed)),
            "iat": now, "nbf": now.saturating_sub(60), "exp": now + 300, "access": access,
        });
        let encode = |part: &serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|error| anyhow!("failed to sign a token: {error}"))?;
        Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}

fn respond(status: StatusCode, body: serde_json::Value) -> Response<Body> {
    let mut response = Response::new(full(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response
}

/// The fields of a query or form.
fn fields(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), unescaped(value))).collect()
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        bytes.extend(u8::from_str_radix(code, 16).ok());
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_unescaped() {
        let fields = fields("scope=repository%3Aa%2Fb%3Apull&service=lab");
        assert_eq!(fields["scope"], "repository:a/b:pull");
        assert_eq!(fields["service"], "lab");
    }
}
