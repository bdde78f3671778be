//! One credential at one endpoint: authenticates, tries again where that helps, and reads what it asked for.

mod retry_after;
mod token;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri};
use podwright_core::image::Digest;
use tokio::time::Instant;

use crate::{
    Clock, Observer, RequestKind, RequestResult,
    auth::{Challenge, Tokens},
    checksum,
    credentials::Credential,
    endpoint::Endpoint,
    failure::Failure,
    host::Host,
    manifest,
    transport::{Answer, Ask, Transport},
};

/// The longest manifest or configuration that is read: what the registries' own specification grants.
const MOST_BYTES: usize = 4 << 20;
/// How often the same is asked for, and how long to wait before the second time.
const TRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// What all sessions share.
pub(crate) struct Wire {
    pub(crate) transport: Transport,
    pub(crate) tokens: Tokens,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) clock: Clock,
}

/// One credential at one endpoint.
pub(crate) struct Session<'a> {
    pub(crate) wire: &'a Wire,
    pub(crate) host: &'a Host,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) credential: Option<&'a Credential>,
    /// When the lookup ends, whatever comes.
    pub(crate) deadline: Instant,
}

impl Session<'_> {
    /// Which digest the registry has for a tag, or that it has this digest. `None` where it can only tell by handing out
    /// the manifest.
    pub(crate) async fn head(&self, identifier: &str) -> Result<Option<Digest>, Failure> {
        let path = format!("manifests/{identifier}");
        let answer =
            self.persistently(RequestKind::Head, Method::HEAD, &path, Some(manifest::ACCEPT)).await?;
        match answer.status {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => Ok(None),
            _ => successful(answer).map(|answer| content_digest(&answer.headers)),
        }
    }

    /// A manifest or index, checked against its digest where that is known.
    pub(crate) async fn manifest(&self, identifier: &str) -> Result<Bytes, Failure> {
        let path = format!("manifests/{identifier}");
        let answer =
            self.persistently(RequestKind::Manifest, Method::GET, &path, Some(manifest::ACCEPT)).await?;
        let body = successful(answer)?.body;
        verified(identifier.parse().ok().as_ref(), body)
    }

    /// A blob, checked against its digest.
    pub(crate) async fn blob(&self, digest: &Digest) -> Result<Bytes, Failure> {
        let path = format!("blobs/{digest}");
        let answer = self.persistently(RequestKind::Config, Method::GET, &path, None).await?;
        verified(Some(digest), successful(answer)?.body)
    }

    /// Asks again after faults, and after the time that a registry names, as long as the lookup may last.
    async fn persistently(
        &self,
        kind: RequestKind,
        method: Method,
        path: &str,
        accept: Option<&'static str>,
    ) -> Result<Answer, Failure> {
        let endpoint = self.endpoint;
        let url = format!("{}://{}/v2/{}/{path}", endpoint.scheme(), endpoint.authority, endpoint.repository);
        let url: Uri = url.parse().map_err(|_| Failure::invalid("its name makes no address"))?;
        let (mut tries, mut pause) = (1, FIRST_PAUSE);
        loop {
            let failure = match self.authenticated(kind, &method, &url, accept).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let Some(wait) = failure.wait(pause) else { return Err(failure) };
            if tries == TRIES || Instant::now() + wait >= self.deadline {
                return Err(failure);
            }
            tracing::debug!(registry = endpoint.name, ?failure, ?wait, "a registry is asked again");
            tokio::time::sleep(wait).await;
            (tries, pause) = (tries + 1, pause * 4);
        }
    }

    /// Asks as the host wants to be asked, and learns that from its refusal if need be.
    async fn authenticated(
        &self,
        kind: RequestKind,
        method: &Method,
        url: &Uri,
        accept: Option<&'static str>,
    ) -> Result<Answer, Failure> {
        let mut challenge = self.host.challenge();
        for again in [true, false] {
            let authorization = match &challenge {
                Some(challenge) => self.authorization(challenge).await?,
                None => None,
            };
            let shown = authorization.is_some();
            let ask = Ask {
                method: method.clone(),
                url: url.clone(),
                trust: &self.endpoint.name,
                accept,
                authorization,
                form: None,
                limit: MOST_BYTES,
            };
            let answer = self.send(kind, ask).await?;
            if answer.status != StatusCode::UNAUTHORIZED || !again {
                return Ok(answer);
            }
            let Some(wanted) = Challenge::strongest(&answer.headers) else { return Err(Failure::Refused) };
            let basic = self.credential.and_then(Credential::basic).is_some();
            if wanted == Challenge::Basic && (shown || !basic) {
                return Err(Failure::Refused);
            }
            if let Some(grant) = self.grant(&wanted) {
                // The token was taken back before its time.
                self.wire.tokens.forget(&grant);
            }
            self.host.learn(wanted);
            challenge = self.host.challenge();
        }
        Err(Failure::Refused)
    }

    /// Sends one request within the host's limits, and tells the host how it went.
    async fn send(&self, kind: RequestKind, ask: Ask<'_>) -> Result<Answer, Failure> {
        let permit = self.host.enter().await?;
        let begun = Instant::now();
        let sent = self.wire.transport.send(ask).await;
        let told = |result| self.wire.observer.request(kind, result, begun.elapsed());
        let answer = match sent {
            Ok(answer) => answer,
            Err(broken) => {
                told(RequestResult::Failed);
                let (unusable, reason) = (broken.is_unusable(), broken.to_string());
                if unusable {
                    permit.succeeded();
                    return Err(Failure::Invalid(reason));
                }
                permit.failed(&reason);
                return Err(Failure::fault(reason));
            }
        };
        if let Some(remaining) = remaining(&answer.headers) {
            self.wire.observer.rate_limit_remaining(&self.endpoint.name, remaining);
        }
        told(result(answer.status));
        match answer.status {
            StatusCode::TOO_MANY_REQUESTS => {
                let retry_after = retry_after::read(&answer.headers);
                permit.limited(retry_after);
                Err(Failure::Limited(retry_after))
            }
            status if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => {
                let (reason, retry_after) =
                    (format!("it answers {status}"), retry_after::read(&answer.headers));
                permit.failed(&reason);
                Err(Failure::Fault { reason, retry_after })
            }
            _ => {
                permit.succeeded();
                Ok(answer)
            }
        }
    }
}

fn result(status: StatusCode) -> RequestResult {
    match status.as_u16() {
        401 | 403 => RequestResult::Refused,
        429 => RequestResult::RateLimited,
        400..=499 => RequestResult::Rejected,
        500.. => RequestResult::Failed,
        _ => RequestResult::Success,
    }
}

fn successful(answer: Answer) -> Result<Answer, Failure> {
    match answer.status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Failure::Refused),
        StatusCode::NOT_FOUND => Err(Failure::NotFound),
        status if status.is_success() => Ok(answer),
        status => Err(Failure::invalid(format!("its registry answers {status}"))),
    }
}

fn verified(digest: Option<&Digest>, body: Bytes) -> Result<Bytes, Failure> {
    if digest.is_none_or(|digest| checksum::matches(digest, &body)) {
        return Ok(body);
    }
    Err(Failure::invalid("what its registry hands out is not what the digest names"))
}

fn content_digest(headers: &HeaderMap) -> Option<Digest> {
    headers.get("docker-content-digest")?.to_str().ok()?.parse().ok()
}

/// How many requests are left, as Docker Hub says it: `76;w=21600`.
fn remaining(headers: &HeaderMap) -> Option<u64> {
    headers.get("ratelimit-remaining")?.to_str().ok()?.split(';').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_registry_says_of_its_limits_is_read() {
        let mut headers = HeaderMap::new();
        assert_eq!(remaining(&headers), None);
        headers.insert("ratelimit-remaining", "76;w=21600".parse().unwrap());
        assert_eq!(remaining(&headers), Some(76));
    }
}
