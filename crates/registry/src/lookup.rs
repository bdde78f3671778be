//! One lookup, from the name of an image to its platforms: who is asked, in which order, and for what.

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use podwright_core::image::{Digest, Platform, Platforms, Reference};
use tokio::time::Instant;

use crate::{
    LookupError,
    cache::Memory,
    checksum,
    credentials::{Class, Credential},
    endpoint::Route,
    failure::Failure,
    host::Host,
    manifest::{self, Child, Manifest},
    session::{Session, Wire},
};

/// How deep an index may lie in indexes.
const DEEPEST: usize = 3;
/// How many indexes one image may have in all.
const MOST_INDEXES: usize = 16;

/// What a lookup found, and for whom.
pub(crate) struct Found {
    pub(crate) platforms: Arc<Platforms>,
    pub(crate) class: Class,
    /// Whether the registry only had to say that what we know still holds.
    pub(crate) revalidated: bool,
}

/// Why there is no answer, and whose earlier answers are void by it.
pub(crate) struct Missing {
    pub(crate) error: LookupError,
    pub(crate) refused: Vec<Class>,
}

pub(crate) struct Lookup<'a> {
    pub(crate) reference: &'a Reference,
    pub(crate) routes: &'a [Route],
    pub(crate) wire: &'a Wire,
    pub(crate) memory: &'a Memory,
    pub(crate) deadline: Instant,
}

impl Lookup<'_> {
    /// Asks one endpoint after the other, each with one credential after the other. What the last endpoint says, the
    /// registry itself, is what counts if none has the image.
    pub(crate) async fn run(&self, host: impl Fn(&str) -> Arc<Host>) -> Result<Found, Missing> {
        let image = self.reference.to_string();
        let mut missing = None;
        for Route { endpoint, credentials } in self.routes {
            let host = host(&endpoint.authority);
            let mut worst: Option<Failure> = None;
            let mut refused = Vec::new();
            let candidates: Vec<Option<&Credential>> =
                if credentials.is_empty() { vec![None] } else { credentials.iter().map(Some).collect() };
            for credential in candidates {
                let class = credential.map_or(Class::Anonymous, Credential::class);
                let session =
                    Session { wire: self.wire, host: &host, endpoint, credential, deadline: self.deadline };
                let failure = match self.resolve(&session).await {
                    Ok((platforms, revalidated)) => return Ok(Found { platforms, class, revalidated }),
                    Err(failure) => failure,
                };
                let another = failure.is_about_the_credential();
                if another {
                    refused.push(class);
                }
                worst = Some(match worst {
                    Some(earlier) => earlier.or_worse(failure),
                    None => failure,
                });
                if !another {
                    break;
                }
            }
            let failure = worst.unwrap_or(Failure::Refused);
            let error = failure.about(&image, &endpoint.name, credentials.len());
            missing = Some(Missing { error, refused });
        }
        Err(missing.unwrap_or_else(|| {
            let error = Failure::invalid("nobody is known who could have it").about(&image, "", 0);
            Missing { error, refused: Vec::new() }
        }))
    }

    /// Asks first which digest it is: that costs nobody anything, and mostly we know what the digest holds.
    async fn resolve(&self, session: &Session<'_>) -> Result<(Arc<Platforms>, bool), Failure> {
        let digest = match self.reference.digest() {
            Some(digest) if self.memory.content(self.reference, digest).is_none() => Some(digest.clone()),
            Some(digest) => session.head(digest.as_str()).await?.map(|_| digest.clone()),
            None => session.head(self.reference.identifier()).await?,
        };
        if let Some(known) = digest.as_ref().and_then(|digest| self.memory.content(self.reference, digest)) {
            return Ok((known, true));
        }
        let identifier = digest.as_ref().map_or_else(|| self.reference.identifier(), Digest::as_str);
        let body = session.manifest(identifier).await?;
        let digest = digest.or_else(|| checksum::of(&body));
        let mut walk = Walk { session, indexes: 0, platforms: Vec::new() };
        walk.manifest(body, 0).await?;
        if walk.platforms.is_empty() {
            return Err(Failure::invalid("its index names no platform for any of its images"));
        }
        let platforms: Arc<Platforms> = Arc::new(walk.platforms.into_iter().collect());
        if let Some(digest) = digest {
            let now = (self.wire.clock)();
            self.memory.keep_content(self.reference, &digest, &platforms, now);
        }
        Ok((platforms, false))
    }
}

/// Gathers the platforms of a manifest and of all that it refers to.
struct Walk<'a> {
    session: &'a Session<'a>,
    indexes: usize,
    platforms: Vec<Platform>,
}

impl Walk<'_> {
    fn manifest(&mut self, body: Bytes, depth: usize) -> BoxFuture<'_, Result<(), Failure>> {
        async move {
            match manifest::manifest(&body).map_err(Failure::Invalid)? {
                Manifest::Image { config } => {
                    let body =
                        self.session.blob(&config).await.map_err(|failure| lost(failure, "configuration"))?;
                    self.platforms.push(manifest::config(&body).map_err(Failure::Invalid)?);
                }
                Manifest::Index(children) => {
                    self.indexes += 1;
                    if depth == DEEPEST || self.indexes > MOST_INDEXES {
                        return Err(Failure::invalid(
                            "its index holds indexes that hold indexes, too many to follow",
                        ));
                    }
                    for child in children {
                        match child {
                            Child::Image(platform) => self.platforms.push(platform),
                            Child::Index(digest) => {
                                let body = self.session.manifest(digest.as_str()).await;
                                let body = body.map_err(|failure| lost(failure, "index within its index"))?;
                                self.manifest(body, depth + 1).await?;
                            }
                        }
                    }
                }
            }
            Ok(())
        }
        .boxed()
    }
}

/// A part that is not there does not mean that the image is not: it is damaged.
fn lost(failure: Failure, part: &str) -> Failure {
    match failure {
        Failure::NotFound => Failure::invalid(format!("its {part} is missing in the registry")),
        other => other,
    }
}
