//! A real registry on this machine, for tests and the demo: Debian's `docker-registry`, open, with passwords, or with
//! tokens from a token server; images made on the spot; and a proxy that makes it misbehave.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use podwright_lab::registry::{Access, LocalRegistry, image};
//! let registry = LocalRegistry::start(Access::Open).await?;
//! let app = image("app").platforms(["linux/amd64", "linux/arm64"]).push(&registry).await?;
//! println!("{} {}", app.by_tag(), app.digest);
//! # Ok(())
//! # }
//! ```

mod access;
mod http;
mod image;
mod proxy;
mod server;
mod token;

pub use access::{Access, User};
pub use image::{ImageBuilder, Pushed, image};
pub use proxy::{Fault, Proxy, Seen};
pub use server::{LocalRegistry, Logged};
pub use token::TokenServer;
