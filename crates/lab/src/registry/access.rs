use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;

use super::TokenServer;

/// Whom a registry lets in.
#[derive(Debug, Clone)]
pub enum Access {
    /// Everybody.
    Open,
    /// Whoever has the password of one of the [`User`]s (`htpasswd`).
    Passwords,
    /// Whoever has a token (`Bearer`).
    Tokens(Arc<TokenServer>),
}

/// The people of the lab. Registries take passwords only as bcrypt, so there are two, with hashes made beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum User {
    /// Team A.
    A,
    /// Team B.
    B,
}

impl User {
    /// Everybody.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// The name to log in with.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "team-a",
            Self::B => "team-b",
        }
    }

    /// The password to log in with.
    #[must_use]
    pub fn password(self) -> &'static str {
        match self {
            Self::A => "apricot",
            Self::B => "blueberry",
        }
    }

    /// A line of an `htpasswd` file; bcrypt at its lowest cost, for speed.
    pub(super) fn hashed(self) -> &'static str {
        match self {
            Self::A => "team-a:$2y$04$podwrightlabpodwrighte0HlsL7jYbW37ClkeaZYaIWXg0Og1tJO",
            Self::B => "team-b:$2y$04$podwrightlabpodwrighte1wPGXtztolWzFCcH9jlcnY1r4o5oDGS",
        }
    }

    /// The value of an `Authorization` header.
    #[must_use]
    pub fn basic(self) -> String {
        format!("Basic {}", self.auth())
    }

    /// `.dockerconfigjson` of a pull secret with this user's password for `host`.
    #[must_use]
    pub fn docker_config(self, host: &str) -> String {
        json!({"auths": {host: {"auth": self.auth()}}}).to_string()
    }

    fn auth(self) -> String {
        BASE64_STANDARD.encode(format!("{}:{}", self.name(), self.password()))
    }

    /// Who says so in an `Authorization` header, if it is true.
    pub(super) fn of(authorization: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|user| user.basic() == authorization)
    }
}
