use std::time::Duration;

use crate::LookupError;

/// Why one endpoint gave no answer to one credential, before it is known what that means for the lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// 404.
    NotFound,
    /// 401 or 403.
    Refused,
    /// 429, with its Retry-After.
    Limited(Option<Duration>),
    /// No connection, no answer, or a 5xx, with its Retry-After.
    Fault { reason: String, retry_after: Option<Duration> },
    /// The breaker of the host is open.
    Closed { reason: String },
    /// An answer that makes no sense.
    Invalid(String),
}

impl Failure {
    pub(crate) fn fault(reason: impl Into<String>) -> Self {
        Self::Fault { reason: reason.into(), retry_after: None }
    }

    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid(reason.into())
    }

    /// How long to wait before trying the same again; none where trying again is of no use.
    pub(crate) fn wait(&self, pause: Duration) -> Option<Duration> {
        match self {
            Self::Limited(retry_after) => *retry_after,
            Self::Fault { retry_after, .. } => Some(retry_after.unwrap_or(pause)),
            Self::NotFound | Self::Refused | Self::Closed { .. } | Self::Invalid(_) => None,
        }
    }

    /// Whether another credential may get a better answer from the same host.
    pub(crate) fn is_about_the_credential(&self) -> bool {
        matches!(self, Self::NotFound | Self::Refused)
    }

    /// Of two failures with different credentials, the one that says more: a credential that may look and finds
    /// nothing beats one that may not look.
    pub(crate) fn or_worse(self, later: Self) -> Self {
        if self == Self::NotFound && later == Self::Refused { self } else { later }
    }

    pub(crate) fn about(self, image: &str, registry: &str, credentials: usize) -> LookupError {
        let (image, registry) = (image.to_owned(), registry.to_owned());
        match self {
            Self::NotFound => LookupError::NotFound { image, registry },
            Self::Refused => LookupError::Unauthorized { image, registry, credentials },
            Self::Limited(retry_after) => LookupError::RateLimited { image, registry, retry_after },
            Self::Fault { reason, .. } | Self::Closed { reason } => {
                LookupError::Unavailable { image, registry, reason }
            }
            Self::Invalid(reason) => LookupError::Invalid { image, reason },
        }
    }
}
