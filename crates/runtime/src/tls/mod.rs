//! TLS for a server whose certificate changes while it serves.
//!
//! ```text
//! managed (a Secret, self-made CA) ─┐
//! directory (files, cert-manager)  ─┴▶ store (the pair in use) ─▶ policy::server_config ─▶ http::serve_tls
//!            └▶ the CA bundle, on a watch channel, for whoever tells clients what to trust
//! ```

pub mod certificate;
pub mod directory;
pub mod managed;
pub mod policy;
pub mod store;

#[cfg(test)]
pub(crate) mod testing;
