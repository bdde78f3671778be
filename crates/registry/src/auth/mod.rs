//! How registries want to be authenticated to: `Basic`, or `Bearer` with a token from elsewhere.

mod challenge;
mod token;

pub(crate) use challenge::Challenge;
pub(crate) use token::{Grant, Token, Tokens};
