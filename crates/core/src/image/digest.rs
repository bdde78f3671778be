use std::{fmt, str::FromStr};

use thiserror::Error;

/// The content address of a manifest or blob: `sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    algorithm: Algorithm,
    text: String,
}

/// How a digest is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// What practically every registry uses.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// Why a text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DigestError {
    /// Neither sha256, sha384 nor sha512.
    #[error("a digest starts with sha256:, sha384: or sha512:")]
    Algorithm,
    /// Too short, too long, or not lower-case hexadecimal.
    #[error("{algorithm} takes {wanted} lower-case hexadecimal digits")]
    Digits {
        /// The algorithm that the digest names.
        algorithm: Algorithm,
        /// How many digits its digests have.
        wanted: usize,
    },
}

impl Algorithm {
    const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    fn digits(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha384 => 96,
            Self::Sha512 => 128,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Digest {
    /// How it was computed.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The whole digest, algorithm included.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The digits alone.
    #[must_use]
    pub fn digits(&self) -> &str {
        &self.text[self.algorithm.name().len() + 1..]
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let (name, digits) = text.split_once(':').ok_or(DigestError::Algorithm)?;
        let algorithm = Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
            .ok_or(DigestError::Algorithm)?;
        let wanted = algorithm.digits();
        if digits.len() != wanted || !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(DigestError::Digits { algorithm, wanted });
        }
        Ok(Self { algorithm, text: text.to_owned() })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}
