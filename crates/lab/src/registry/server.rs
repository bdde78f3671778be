use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::{Access, User};
use crate::pki::Pki;
use crate::process::{Child, ChildSpec, on_path};
use crate::{eventually, ports};

const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The program, as Debian calls it, and as its makers do.
const PROGRAMS: [&str; 2] = ["docker-registry", "registry"];

/// A registry on 127.0.0.1. It ends with this value; its images are in a temporary directory.
#[derive(Debug)]
pub struct LocalRegistry {
    files: Arc<TempDir>,
    access: Access,
    port: u16,
    certificates: Option<String>,
    child: Option<Child>,
    log: PathBuf,
}

/// A request, as the registry itself wrote it into its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// `GET`, `HEAD`, …
    pub method: String,
    /// `/v2/app/manifests/latest`.
    pub path: String,
    /// What it answered.
    pub status: u16,
}

impl LocalRegistry {
    /// Starts an empty one.
    pub async fn start(access: Access) -> Result<Self> {
        let files = tempfile::tempdir().context("failed to make a directory for the registry")?;
        Self::over(Arc::new(files), access, false).await
    }

    /// Starts another one over the same images, with other rules: a private one to push to an open one, and so on.
    pub async fn beside(&self, access: Access) -> Result<Self> {
        Self::over(Arc::clone(&self.files), access, false).await
    }

    /// The same with TLS, by a CA of its own.
    pub async fn beside_with_tls(&self, access: Access) -> Result<Self> {
        Self::over(Arc::clone(&self.files), access, true).await
    }

    async fn over(files: Arc<TempDir>, access: Access, tls: bool) -> Result<Self> {
        let port = ports::free(1)?.first().copied().context("no free port")?;
        let own = files.path().join(port.to_string());
        std::fs::create_dir_all(&own).context("failed to make a directory for the registry")?;
        let certificates = if tls { Some(Pki::create(&own.join("pki"))?.ca) } else { None };
        let log = own.join("registry.log");
        let mut registry = Self { files, access, port, certificates, child: None, log };
        registry.write_config(&own)?;
        registry.start_again().await?;
        Ok(registry)
    }

    /// Host and port, as they stand in images' names.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}:{}", Ipv4Addr::LOCALHOST, self.port)
    }

    /// The certificate (PEM) of the CA behind a registry with TLS.
    #[must_use]
    pub fn ca(&self) -> Option<&str> {
        self.certificates.as_deref()
    }

    /// What an `Authorization` header must hold to push to a repository.
    pub(super) fn authorization(&self, repository: &str) -> Result<Option<String>> {
        Ok(match &self.access {
            Access::Open => None,
            Access::Passwords => Some(User::A.basic()),
            Access::Tokens(server) => Some(format!("Bearer {}", server.sign(repository, &["pull", "push"])?)),
        })
    }

    /// All requests so far, from the registry's own log.
    pub fn logged(&self) -> Result<Vec<Logged>> {
        let text = std::fs::read_to_string(&self.log).context("failed to read the registry's log")?;
        Ok(text.lines().filter_map(logged).collect())
    }

    /// Kills the process; the images stay.
    pub async fn stop(&mut self) -> Result<()> {
        if let Some(child) = self.child.take() {
            child.signal(Signal::KILL)?;
            child.wait().await;
        }
        Ok(())
    }

    /// Starts it again, at the same address.
    pub async fn start_again(&mut self) -> Result<()> {
        ensure!(self.child.is_none(), "the registry is running");
        let spec = ChildSpec {
            name: "docker-registry".to_owned(),
            program: program()?,
            args: vec!["serve".into(), self.log.with_file_name("config.yml").into()],
            env: vec![("OTEL_TRACES_EXPORTER".to_owned(), "none".to_owned())],
            log: self.log.clone(),
        };
        let child = Child::spawn(&spec)?;
        let up = eventually(START_TIMEOUT, || async {
            if child.exited() {
                return Ok(Err(child.failure("ended")));
            }
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.context("it does not listen yet")?;
            Ok(Ok(()))
        });
        up.await.map_err(|error| child.failure("did not start").context(error))??;
        self.child = Some(child);
        Ok(())
    }

    fn write_config(&self, own: &Path) -> Result<()> {
        let mut config = json!({
            "version": 0.1,
            "log": {"level": "warn", "accesslog": {"disabled": false}},
            "storage": {
                "filesystem": {"rootdirectory": self.files.path().join("images")},
                "delete": {"enabled": true},
                "maintenance": {"uploadpurging": {"enabled": false}},
            },
            "http": {"addr": self.address(), "secret": "lab"},
        });
        match &self.access {
            Access::Open => {}
            Access::Passwords => {
                let file = own.join("htpasswd");
                std::fs::write(&file, User::ALL.map(User::hashed).join("\n"))
                    .context("failed to write htpasswd")?;
                config["auth"] = json!({"htpasswd": {"realm": "lab", "path": file}});
            }
            Access::Tokens(server) => {
                let file = own.join("tokens.crt");
                std::fs::write(&file, server.certificate())
                    .context("failed to write the token server's certificate")?;
                config["auth"] = json!({"token": {
                    "realm": server.realm(),
                    "service": super::token::SERVICE,
                    "issuer": super::token::ISSUER,
                    "rootcertbundle": file,
                }});
            }
        }
        if self.certificates.is_some() {
            let pki = own.join("pki");
            config["http"]["tls"] =
                json!({"certificate": pki.join("serving.crt"), "key": pki.join("serving.key")});
        }
        // The registry reads YAML, of which JSON is a part.
        std::fs::write(own.join("config.yml"), config.to_string())
            .context("failed to write the registry's config")
    }
}

impl Drop for LocalRegistry {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            // It is tied to this process anyway; nothing more can be done about an error here.
            let _ = child.signal(Signal::KILL);
        }
    }
}

fn program() -> Result<PathBuf> {
    match PROGRAMS.iter().find_map(|name| on_path(name)) {
        Some(program) => Ok(program),
        None => bail!(
            "no registry was found on the PATH: install docker-registry (Debian and Ubuntu: apt-get install \
             docker-registry), or put the `registry` binary of the CNCF distribution project there"
        ),
    }
}

/// Reads a line of the access log: `127.0.0.1 - - [date] "GET /v2/ HTTP/1.1" 200 2 "" "agent"`.
fn logged(line: &str) -> Option<Logged> {
    let (_, request) = line.split_once("] \"")?;
    let (request, answer) = request.split_once("\" ")?;
    let mut words = request.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some(Logged { method, path, status: answer.split(' ').next()?.parse().ok()? })
}

/// The certificate in a PEM text, as DER in base64: what tokens carry.
pub(super) fn der_of(pem: &str) -> String {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    // It was base64 all along; decoding proves it.
    BASE64_STANDARD.decode(&body).map_or(String::new(), |der| BASE64_STANDARD.encode(der))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_access_log_is_read_and_everything_else_passed_over() {
        let line = r#"127.0.0.1 - - [15/Nov/2026:11:37:14 +0000] "HEAD /v2/a/manifests/x HTTP/1.1" 404 91 "" "curl""#;
        let expected = Logged { method: "HEAD".into(), path: "/v2/a/manifests/x".into(), status: 404 };
        assert_eq!(logged(line), Some(expected));
        assert_eq!(logged(r#"time="2026" level=warning msg="no secret""#), None);
    }
}
