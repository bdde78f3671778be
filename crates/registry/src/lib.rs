//! Which platforms does an image have?
//!
//! ```text
//! Registry: cache → one flight for all → mirrors and registry in turn → credentials in turn → HEAD, manifest, config
//! ```
//!
//! The distribution API is small and its rules of caching, retrying and credentials are all of our own, so it is spoken
//! here directly over the HTTP client that the workspace has anyway. Credentials come in as bytes of secrets: this crate
//! knows registries, and nothing of Kubernetes or of serving.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::{sync::Arc, time::{Duration, Instant}};
//! use podwright_core::image::PullPolicy;
//! use podwright_registry::{Keychain, Registry, Settings};
//!
//! let registry = Registry::new(Settings::default(), Arc::new(()))?;
//! let deadline = Instant::now() + Duration::from_secs(2);
//! let platforms =
//!     registry.platforms(&"nginx:1.27".parse()?, PullPolicy::IfNotPresent, &Keychain::default(), deadline).await?;
//! println!("{platforms}");
//! # Ok(())
//! # }
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod auth;
mod cache;
mod checksum;
mod credentials;
mod endpoint;
mod error;
mod failure;
mod flight;
mod host;
mod lookup;
mod manifest;
mod observer;
mod registry;
mod session;
mod settings;
mod transport;

pub use credentials::{DockerConfig, DockerConfigError, Keychain};
pub use error::LookupError;
pub use observer::{LookupResult, Observer, RequestKind, RequestResult};
pub use registry::{Clock, Registry, Wanted, Warmed};
pub use settings::{HostSettings, Mirror, Settings, SettingsError};
