//! A review that could not be answered. Left to the webhook's `failurePolicy`, which is why it is never a denial.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use podwright_core::mutate::PipelineError;

/// What went wrong, for the API server's log and for ours.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    message: String,
}

impl Fault {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The caller's fault.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Our own fault.
    pub(crate) fn ours(error: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl From<PipelineError> for Fault {
    fn from(error: PipelineError) -> Self {
        match error {
            PipelineError::Unreadable(_) => Self::bad(error.to_string()),
            PipelineError::BadPatch { .. } => Self::ours(error),
        }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        (self.status, self.message + "\n").into_response()
    }
}
