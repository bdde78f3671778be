use std::time::Duration;

use crate::LookupError;

/// Who wants to know what happens here: metrics, and tests. All labels are from fixed sets.
pub trait Observer: Send + Sync {
    /// A lookup ended after `took`.
    fn lookup(&self, result: LookupResult, took: Duration) {
        let _ = (result, took);
    }

    /// A request to a registry or token server ended after `took`.
    fn request(&self, kind: RequestKind, result: RequestResult, took: Duration) {
        let _ = (kind, result, took);
    }

    /// The registry said how many requests it still grants. Registries are as many as there are in images' names, so
    /// whoever makes a label of them has to bound it.
    fn rate_limit_remaining(&self, registry: &str, remaining: u64) {
        let _ = (registry, remaining);
    }
}

/// Nobody wants to know.
impl Observer for () {}

/// How a lookup ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LookupResult {
    /// From the cache, without asking.
    Hit,
    /// The registry said that what is in the cache still holds.
    Revalidated,
    /// From the registry.
    Fetched,
    /// From the cache though too old, because the registry could not say.
    Stale,
    /// [`LookupError::NotFound`].
    NotFound,
    /// [`LookupError::Unauthorized`].
    Unauthorized,
    /// [`LookupError::RateLimited`].
    RateLimited,
    /// [`LookupError::Unavailable`].
    Unavailable,
    /// [`LookupError::Timeout`].
    Timeout,
    /// [`LookupError::Invalid`].
    Invalid,
}

impl LookupResult {
    /// The result as a metric's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Revalidated => "revalidated",
            Self::Fetched => "fetched",
            Self::Stale => "stale",
            Self::NotFound => "not_found",
            Self::Unauthorized => "unauthorized",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Invalid => "invalid",
        }
    }
}

impl From<&LookupError> for LookupResult {
    fn from(error: &LookupError) -> Self {
        match error {
            LookupError::NotFound { .. } => Self::NotFound,
            LookupError::Unauthorized { .. } => Self::Unauthorized,
            LookupError::RateLimited { .. } => Self::RateLimited,
            LookupError::Unavailable { .. } => Self::Unavailable,
            LookupError::Timeout { .. } => Self::Timeout,
            LookupError::Invalid { .. } => Self::Invalid,
        }
    }
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestKind {
    /// Which digest a tag has, which most registries do not count.
    Head,
    /// A manifest or index.
    Manifest,
    /// The configuration of a single image.
    Config,
    /// A token.
    Token,
}

impl RequestKind {
    /// The kind as a metric's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Manifest => "manifest",
            Self::Config => "config",
            Self::Token => "token",
        }
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestResult {
    /// 2xx.
    Success,
    /// 401 or 403: also the first step of every authentication.
    Refused,
    /// 404, and every other 4xx.
    Rejected,
    /// 429.
    RateLimited,
    /// 5xx, no connection, or no answer in time.
    Failed,
}

impl RequestResult {
    /// The result as a metric's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Refused => "refused",
            Self::Rejected => "rejected",
            Self::RateLimited => "rate_limited",
            Self::Failed => "failed",
        }
    }
}
