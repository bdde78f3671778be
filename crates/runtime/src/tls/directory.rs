//! A pair that somebody else keeps in a directory: `tls.crt`, `tls.key` and, where it is known, `ca.crt`.
//!
//! The files are read again by content on a timer. That covers every way in which they change (written in place, moved
//! over, or the `..data` link of a mounted Secret swapped) without a file watch that may miss one of them. What cannot
//! be used, a pair that is only half written among it, is kept out, and the last good pair stays in use.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::certificate::{Certificate, CertificateError};
use super::store::{CertStore, Installed, StoreError};

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITY: &str = "ca.crt";

/// Why the directory cannot be used as it is now.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}; put tls.crt and tls.key there, readable by this process", file.display())]
    Read {
        /// Which file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The pair is not usable.
    #[error("cannot use tls.crt and tls.key in {}: {source}", directory.display())]
    Pair {
        /// Where they lie.
        directory: PathBuf,
        /// Why not.
        source: StoreError,
    },
    /// The CA bundle is not usable.
    #[error("cannot use {}: {source}", file.display())]
    Authority {
        /// Which file.
        file: PathBuf,
        /// Why not.
        source: CertificateError,
    },
}

/// What a look at the directory led to.
#[derive(Debug)]
pub enum Reload {
    /// Nothing changed since the last look.
    Unchanged,
    /// There was a new pair, and it is in use now.
    Installed(Installed),
    /// Something changed for the worse; the last good pair stays in use.
    Kept(DirectoryError),
}

/// A directory whose pair is in use.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    store: Arc<CertStore>,
    bundle: watch::Sender<Option<String>>,
    seen: Seen,
}

/// What the last look saw, so that each change is acted on and told about once.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Nothing,
    Content([u8; 32]),
    Failure(String),
}

/// The files as they were at one look.
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authority: Option<Vec<u8>>,
}

impl Directory {
    /// How often to look, where nobody says otherwise: about as often as a kubelet updates a mounted Secret.
    pub const INTERVAL: Duration = Duration::from_secs(10);

    /// Loads the pair for the first time; an error here is for the operator to see at once.
    ///
    /// `bundle` gets the text of `ca.crt`, or none if there is no such file.
    pub async fn open(
        path: impl Into<PathBuf>,
        store: Arc<CertStore>,
        bundle: watch::Sender<Option<String>>,
    ) -> Result<Self, DirectoryError> {
        let mut directory = Self { path: path.into(), store, bundle, seen: Seen::Nothing };
        match directory.reload().await {
            Reload::Kept(error) => Err(error),
            Reload::Installed(_) | Reload::Unchanged => Ok(directory),
        }
    }

    /// Looks once, and puts a changed pair and bundle into use.
    pub async fn reload(&mut self) -> Reload {
        match Files::read(&self.path).await {
            Ok(files) => {
                let seen = Seen::Content(files.digest());
                if self.seen == seen {
                    return Reload::Unchanged;
                }
                self.seen = seen;
                self.install(&files).map_or_else(Reload::Kept, Reload::Installed)
            }
            Err(error) => {
                let seen = Seen::Failure(error.to_string());
                if self.seen == seen {
                    return Reload::Unchanged;
                }
                self.seen = seen;
                Reload::Kept(error)
            }
        }
    }

    /// Looks every `interval` until cancelled.
    pub async fn watch(mut self, interval: Duration, cancel: CancellationToken) {
        while cancel.run_until_cancelled(tokio::time::sleep(interval)).await.is_some() {
            let directory = self.path.display().to_string();
            match self.reload().await {
                Reload::Unchanged => {}
                Reload::Installed(pair) => {
                    info!(directory, not_after = %pair.not_after, fingerprint = pair.fingerprint, "certificate reloaded");
                }
                Reload::Kept(error) => {
                    error!(%error, "certificate not reloaded; the last good one stays in use");
                }
            }
        }
    }

    fn install(&self, files: &Files) -> Result<Installed, DirectoryError> {
        let authority = files.authority.as_deref().map(|pem| self.authority(pem)).transpose()?;
        let source = |source| DirectoryError::Pair { directory: self.path.clone(), source };
        let installed = self.store.install(&files.certificate, &files.key).map_err(source)?;
        self.bundle.send_if_modified(|bundle| {
            let is_new = *bundle != authority;
            *bundle = authority;
            is_new
        });
        Ok(installed)
    }

    /// The bundle as text, of nothing but certificates.
    fn authority(&self, pem: &[u8]) -> Result<String, DirectoryError> {
        let source = |source| DirectoryError::Authority { file: self.path.join(AUTHORITY), source };
        let certificates = Certificate::parse_all(pem).map_err(source)?;
        Ok(certificates.iter().map(Certificate::pem).collect())
    }
}

impl Files {
    async fn read(directory: &Path) -> Result<Self, DirectoryError> {
        let (certificate, key) = (directory.join(CERTIFICATE), directory.join(KEY));
        let authority = directory.join(AUTHORITY);
        Ok(Self {
            certificate: tokio::fs::read(&certificate).await.map_err(unreadable(certificate))?,
            key: tokio::fs::read(&key).await.map_err(unreadable(key))?,
            authority: match tokio::fs::read(&authority).await {
                Ok(pem) => Some(pem),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(unreadable(authority)(error)),
            },
        })
    }

    fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let authority = self.authority.as_deref();
        for content in [Some(self.certificate.as_slice()), Some(&self.key), authority].into_iter().flatten() {
            // With its length before each, no two sets of files hash alike.
            hash.update((content.len() as u64).to_be_bytes());
            hash.update(content);
        }
        hash.finalize().into()
    }
}

fn unreadable(file: PathBuf) -> impl FnOnce(io::Error) -> DirectoryError {
    move |source| DirectoryError::Read { file, source }
}

#[cfg(test)]
mod tests;
