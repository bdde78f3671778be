use std::time::Duration;

use thiserror::Error;

/// Why the platforms of an image are not known. The text is for a person and never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LookupError {
    /// The registry has no such repository, tag or digest.
    #[error("{image}: {registry} has no such image; check its name and tag")]
    NotFound {
        /// The image, in full.
        image: String,
        /// Who was asked.
        registry: String,
    },
    /// The registry does not let us see it.
    #[error("{image}: {registry} {}", refusal(*credentials))]
    Unauthorized {
        /// The image, in full.
        image: String,
        /// Who was asked.
        registry: String,
        /// How many credentials were tried; none means that it was asked anonymously.
        credentials: usize,
    },
    /// The registry wants to be left alone for a while.
    #[error("{image}: {registry} limits how often it is asked{}", again(*retry_after))]
    RateLimited {
        /// The image, in full.
        image: String,
        /// Who was asked.
        registry: String,
        /// When it can be asked again, if it said so.
        retry_after: Option<Duration>,
    },
    /// The registry cannot be reached, or answers with a fault of its own.
    #[error("{image}: {registry} cannot answer: {reason}")]
    Unavailable {
        /// The image, in full.
        image: String,
        /// Who was asked.
        registry: String,
        /// What went wrong.
        reason: String,
    },
    /// There was no answer in the time that the caller had. The lookup may still be under way, so asking again helps.
    #[error("{image}: {registry} has not answered in time")]
    Timeout {
        /// The image, in full.
        image: String,
        /// Who was asked.
        registry: String,
    },
    /// What the registry has under this name cannot be used: not an image, damaged, or without any platform.
    #[error("{image}: {reason}")]
    Invalid {
        /// The image, in full.
        image: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl LookupError {
    /// A name for the kind of error, from a fixed set: fit for a metric's label.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::Unauthorized { .. } => "unauthorized",
            Self::RateLimited { .. } => "rate_limited",
            Self::Unavailable { .. } => "unavailable",
            Self::Timeout { .. } => "timeout",
            Self::Invalid { .. } => "invalid",
        }
    }

    /// Whether the registry had no chance to say what it knows, so that an older answer is better than none.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Unavailable { .. } | Self::Timeout { .. })
    }
}

fn refusal(credentials: usize) -> String {
    match credentials {
        0 => {
            "shows it to nobody without credentials, or has no such image; no pull secret of the pod matches"
                .to_owned()
        }
        1 => "refuses the one credential that matches".to_owned(),
        many => format!("refuses each of the {many} credentials that match"),
    }
}

fn again(retry_after: Option<Duration>) -> String {
    retry_after.map(|wait| format!("; again in {} s", wait.as_secs().max(1))).unwrap_or_default()
}
