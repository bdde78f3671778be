//! `podwright certs`: a CA and a serving pair as files.

use std::{
    fs,
    io::Write,
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::Args;
use jiff::Timestamp;
use podwright_api::config::{DEFAULT_NAMESPACE, WebhookConfig};
use podwright_runtime::tls::managed;

/// Flags of `podwright certs`.
#[derive(Debug, Args)]
pub struct CertsArgs {
    /// Where to write ca.crt, tls.crt and tls.key
    #[arg(long, value_name = "DIR", default_value = "_certs")]
    dir: PathBuf,
    /// A DNS name that the certificate is for; may be repeated [default: localhost and those of the webhook's Service]
    #[arg(long = "dns-name", value_name = "NAME")]
    dns_names: Vec<String>,
    /// An address that the certificate is for; may be repeated [default: 127.0.0.1 and ::1]
    #[arg(long = "ip", value_name = "ADDRESS")]
    ips: Vec<IpAddr>,
}

/// The names by which a Service is reached.
pub(crate) fn service_names(service: &str, namespace: &str) -> Vec<String> {
    ["", ".svc", ".svc.cluster.local"].map(|suffix| format!("{service}.{namespace}{suffix}")).to_vec()
}

pub(crate) fn write(arguments: &CertsArgs) -> anyhow::Result<()> {
    let (mut names, mut ips) = (arguments.dns_names.clone(), arguments.ips.clone());
    if names.is_empty() && ips.is_empty() {
        names = service_names(&WebhookConfig::default().service, DEFAULT_NAMESPACE);
        names.push("localhost".to_owned());
        ips = vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
    }
    let made = managed::generate(names, ips, Timestamp::now())?;
    let directory = &arguments.dir;
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    // The CA's key is thrown away: it can sign nothing more, so it cannot leak.
    for (name, content, mode) in [
        ("ca.crt", &made.ca_crt, 0o644),
        ("tls.crt", &made.tls_crt, 0o644),
        ("tls.key", &made.tls_key, 0o600),
    ] {
        replace(&directory.join(name), content, mode)
            .with_context(|| format!("cannot write {name} in {}", directory.display()))?;
    }
    println!("wrote ca.crt, tls.crt and tls.key to {}; they are valid for a year", directory.display());
    Ok(())
}

/// A file is there whole or not at all, and a key never with wider rights than it ends up with.
fn replace(path: &Path, content: &str, mode: u32) -> std::io::Result<()> {
    let temporary = path.with_extension("new");
    let _ = fs::remove_file(&temporary);
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)?
        .write_all(content.as_bytes())?;
    fs::rename(temporary, path)
}
