//! Kubeconfig files, each complete in itself (certificates inside), and clients made from them.

use std::path::Path;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::layout::write_private;
use crate::pki::Pair;

/// How a kubeconfig's user proves who they are.
pub(crate) enum Credential<'a> {
    Certificate(&'a Pair),
    Token(&'a str),
}

/// Writes a kubeconfig for one user of the API server at `server`.
pub(crate) fn write(
    path: &Path,
    server: &str,
    ca: &str,
    user: &str,
    credential: &Credential<'_>,
) -> Result<()> {
    let text = serde_saphyr::to_string(&document(server, ca, user, credential))
        .context("failed to render a kubeconfig")?;
    write_private(path, &text)
}

fn document(server: &str, ca: &str, user: &str, credential: &Credential<'_>) -> Value {
    let credential = match credential {
        Credential::Certificate(pair) => json!({
            "client-certificate-data": STANDARD.encode(&pair.certificate),
            "client-key-data": STANDARD.encode(&pair.key),
        }),
        Credential::Token(token) => json!({ "token": token }),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "lab",
            "cluster": { "server": server, "certificate-authority-data": STANDARD.encode(ca) },
        }],
        "users": [{ "name": user, "user": credential }],
        "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": user } }],
        "current-context": "lab",
    })
}

/// Client settings from a kubeconfig file, without the limits that are there to protect shared clusters.
pub(crate) async fn client_config(path: &Path) -> Result<kube::Config> {
    let kubeconfig =
        Kubeconfig::read_from(path).with_context(|| format!("failed to read {}", path.display()))?;
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("{} is not a usable kubeconfig", path.display()))
}

/// A client on the current runtime. A client belongs to the runtime that it was made on.
pub(crate) fn client(config: kube::Config) -> Result<kube::Client> {
    // Loses only to a provider that somebody else has installed, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    kube::Client::try_from(config).context("failed to make a client for the lab's API server")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_written_kubeconfig_reads_back_as_client_settings() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        let pki = crate::pki::Pki::create(dir.path()).unwrap();
        let pair = pki.client("admin", Some("system:masters")).unwrap();
        write(&path, "https://127.0.0.1:1234", &pki.ca, "admin", &Credential::Certificate(&pair)).unwrap();
        let config = client_config(&path).await.unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://127.0.0.1:1234/");
        client(config).unwrap();
    }
}
