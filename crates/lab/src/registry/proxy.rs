use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{
    Method, Request, Response, StatusCode,
    header::{AUTHORIZATION, HOST, LOCATION, RETRY_AFTER},
};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};

use super::http::{Body, HttpClient, Serving, ask, client, full};

/// How the proxy answers instead of the registry behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// With this status, and `Retry-After` in seconds.
    Status(u16, Option<u64>),
    /// Not at all.
    Hang,
    /// With the registry's answer, of which the end never comes.
    Stall,
    /// With the registry's answer, but for one byte.
    Damage,
    /// With more bytes than anybody would want.
    Flood,
    /// With a redirect to the same path at this address.
    Redirect(String),
    /// With the registry's answer, without the header that tells the digest.
    HideDigest,
    /// With what the registry answers to somebody who shows no credential.
    DropCredential,
}

/// A request that came by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `GET`, `HEAD`, …
    pub method: String,
    /// The path.
    pub path: String,
    /// The `Authorization` header, if there was one.
    pub authorization: Option<String>,
}

/// A proxy before a registry: it passes everything on and counts it, and misbehaves where it is told to.
#[derive(Debug)]
pub struct Proxy {
    serving: Serving,
    desk: Arc<Desk>,
}

#[derive(Debug)]
struct Desk {
    upstream: String,
    client: HttpClient,
    seen: Mutex<Vec<Seen>>,
    faults: Mutex<Vec<Rule>>,
}

#[derive(Debug)]
struct Rule {
    part: String,
    fault: Fault,
    times: Option<usize>,
}

impl Proxy {
    /// Starts one before the registry at this address.
    pub async fn start(upstream: &str) -> Result<Self> {
        let desk = Arc::new(Desk {
            upstream: upstream.to_owned(),
            client: client(),
            seen: Mutex::default(),
            faults: Mutex::default(),
        });
        let serving = Serving::start({
            let desk = Arc::clone(&desk);
            move |request| {
                let desk = Arc::clone(&desk);
                async move { desk.answer(request).await }
            }
        })
        .await?;
        Ok(Self { serving, desk })
    }

    /// Host and port, as they stand in images' names.
    #[must_use]
    pub fn address(&self) -> String {
        self.serving.address()
    }

    /// Misbehaves from now on for each request with `part` in its method and path (`GET /v2/app/…`).
    pub fn fault(&self, part: &str, fault: Fault) {
        lock(&self.desk.faults).push(Rule { part: part.to_owned(), fault, times: None });
    }

    /// The same, but so many times only.
    pub fn fault_times(&self, part: &str, fault: Fault, times: usize) {
        lock(&self.desk.faults).push(Rule { part: part.to_owned(), fault, times: Some(times) });
    }

    /// Behaves from now on.
    pub fn heal(&self) {
        lock(&self.desk.faults).clear();
    }

    /// What came by so far, in order.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.desk.seen).clone()
    }

    /// How many requests with `part` in their method and path came by so far.
    #[must_use]
    pub fn count(&self, part: &str) -> usize {
        lock(&self.desk.seen)
            .iter()
            .filter(|seen| format!("{} {}", seen.method, seen.path).contains(part))
            .count()
    }
}

impl Desk {
    async fn answer(&self, mut request: Request<Incoming>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let authorization = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let seen = Seen {
            method: method.to_string(),
            path: path.clone(),
            authorization: authorization.map(str::to_owned),
        };
        lock(&self.seen).push(seen);
        let fault = self.fault_for(&format!("{method} {path}"));
        match &fault {
            Some(Fault::Status(code, retry_after)) => return failed(*code, *retry_after),
            Some(Fault::Hang) => return std::future::pending().await,
            Some(Fault::Flood) => return endless(),
            Some(Fault::Redirect(to)) => return redirect(&format!("http://{to}{path}")),
            Some(Fault::DropCredential) => {
                request.headers_mut().remove(AUTHORIZATION);
            }
            _ => {}
        }
        let Ok(mut answer) = self.forward(request, &method).await else { return failed(502, None) };
        let body = std::mem::take(answer.body_mut());
        let mut answer = answer.map(|_| full(body.clone()));
        match fault {
            Some(Fault::Stall) => *answer.body_mut() = cut(&body),
            Some(Fault::Damage) => {
                let damaged: Bytes =
                    body.iter().map(|byte| if *byte == b'l' { b'1' } else { *byte }).collect();
                *answer.body_mut() = full(damaged);
            }
            Some(Fault::HideDigest) => {
                answer.headers_mut().remove("docker-content-digest");
            }
            _ => {}
        }
        answer
    }

    fn fault_for(&self, request: &str) -> Option<Fault> {
        let mut faults = lock(&self.faults);
        let rule = faults.iter_mut().find(|rule| rule.times != Some(0) && request.contains(&rule.part))?;
        rule.times = rule.times.map(|times| times - 1);
        Some(rule.fault.clone())
    }

    async fn forward(&self, request: Request<Incoming>, method: &Method) -> Result<Response<Bytes>> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        head.uri = format!("http://{}{path}", self.upstream).parse()?;
        head.headers.remove(HOST);
        let body = body.collect().await?.to_bytes();
        let answer = ask(&self.client, Request::from_parts(head, Full::new(body))).await?;
        // An answer to HEAD tells the length of a body that does not come; it is not ours to tell again.
        let (mut head, body) = answer.into_parts();
        if method == Method::HEAD {
            head.headers.remove(http::header::CONTENT_LENGTH);
        }
        Ok(Response::from_parts(head, body))
    }
}

fn failed(code: u16, retry_after: Option<u64>) -> Response<Body> {
    let mut response = Response::new(full("no"));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn redirect(to: &str) -> Response<Body> {
    let mut response = failed(307, None);
    if let Ok(location) = to.parse() {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// All of the body but the last byte, for which one can wait for ever.
fn cut(body: &Bytes) -> Body {
    let begun = body.slice(..body.len().saturating_sub(1));
    let first = futures::stream::once(async move { Ok(Frame::data(begun)) });
    Body::new(StreamBody::new(first.chain(futures::stream::pending())))
}

fn endless() -> Response<Body> {
    let chunk = Bytes::from(vec![b' '; 64 << 10]);
    let chunks = futures::stream::repeat_with(move || Ok(Frame::data(chunk.clone())));
    Response::new(Body::new(StreamBody::new(chunks)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
