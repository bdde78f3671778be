//! Who we say we are: pull secrets, and which of them a registry gets to see.
//!
//! The rules are the kubelet's, so that what is looked up with a credential is what would be pulled with it: keys may have
//! globs and paths, the longest comes first, all that match are tried in turn, and nobody is asked anonymously for whom
//! there is a credential.

mod docker_config;
mod glob;
mod keychain;
mod pattern;

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use sha2::{Digest as _, Sha256};

pub use docker_config::{DockerConfig, DockerConfigError};
pub use keychain::Keychain;

/// Something to show to a registry. Prints as nothing but its kind.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credential {
    login: Login,
    class: Class,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Login {
    Password {
        username: String,
        password: String,
    },
    /// A refresh token, which only a token server takes.
    IdentityToken(String),
}

/// Which answers may be shared: those that everybody gets, and those of one and the same credential.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Anonymous,
    Credential([u8; 32]),
}

impl Credential {
    pub(crate) fn password(username: &str, password: &str) -> Self {
        let login = Login::Password { username: username.to_owned(), password: password.to_owned() };
        Self { class: Class::of(&["password", username, password]), login }
    }

    pub(crate) fn identity_token(token: &str) -> Self {
        Self { class: Class::of(&["identity", token]), login: Login::IdentityToken(token.to_owned()) }
    }

    pub(crate) fn class(&self) -> Class {
        self.class
    }

    pub(crate) fn login(&self) -> &Login {
        &self.login
    }

    /// The value of an `Authorization: Basic` header; none for a token.
    pub(crate) fn basic(&self) -> Option<String> {
        match &self.login {
            Login::Password { username, password } => {
                Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{username}:{password}"))))
            }
            Login::IdentityToken(_) => None,
        }
    }
}

impl Class {
    fn of(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part.len().to_le_bytes());
            hash.update(part.as_bytes());
        }
        Self::Credential(hash.finalize().into())
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credential(…)")
    }
}

/// A fingerprint says nothing to a person, and should not be anywhere for a program to find.
impl fmt::Debug for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Credential(_) => "Credential(…)",
        })
    }
}
