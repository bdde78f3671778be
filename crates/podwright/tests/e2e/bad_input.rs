//! What goes wrong is told, and whoever serves others goes on serving.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::json;
use tempfile::TempDir;

use crate::{
    https::{self, Version},
    labs::{SOON, binary, soon, start_with},
};

/// Runs the manager, which is expected to end by itself.
fn manager(flags: &[&str]) -> Output {
    let ports = ["--metrics-bind-address=0", "--health-probe-bind-address=0", "--webhook-host=127.0.0.1"];
    Command::new(binary()).arg("manager").args(ports).args(flags).env("NO_COLOR", "1").output().unwrap()
}

fn complaint(flags: &[&str]) -> String {
    let output = manager(flags);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{flags:?} succeeded: {text}");
    text
}

fn free_port() -> u16 {
    podwright_lab::ports::free(1).unwrap()[0]
}

fn certificates() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    certify(directory.path());
    directory
}

fn certify(directory: &Path) {
    let made =
        Command::new(binary()).args(["certs", "--ip", "127.0.0.1", "--dir"]).arg(directory).output().unwrap();
    assert!(made.status.success());
}

fn write(directory: &Path, name: &str, content: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Flags of a manager that needs no cluster.
fn alone(directory: &TempDir) -> [String; 3] {
    let config =
        write(directory.path(), "podwright.yaml", "features: [peer-pods]\nwebhook: {register: false}\n");
    [
        "--leader-elect=false".to_owned(),
        format!("--config={config}"),
        format!("--cert-dir={}", directory.path().display()),
    ]
}

#[test]
fn an_unknown_key_in_the_file_ends_the_manager_with_the_nearest_one() {
    let directory = tempfile::tempdir().unwrap();
    let config = write(directory.path(), "podwright.yaml", "peerPods: {runtimeClass: x}\n");
    let text = complaint(&["--config", &config]);
    assert!(
        text.contains("podwright.yaml") && text.contains("did you mean `peerPods.runtimeClasses`?"),
        "{text}"
    );
}

#[test]
fn a_certificate_that_cannot_be_read_is_named() {
    let directory = certificates();
    fs::write(directory.path().join("tls.crt"), "not a certificate").unwrap();
    let text = complaint(&alone(&directory).each_ref().map(String::as_str));
    assert!(text.contains("tls.crt"), "{text}");
    fs::remove_file(directory.path().join("tls.crt")).unwrap();
    let text = complaint(&alone(&directory).each_ref().map(String::as_str));
    assert!(text.contains("tls.crt"), "{text}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let text = complaint(&["--webhook-port", &port.to_string()]);
    assert!(text.contains(&port.to_string()) && text.contains("is taken"), "{text}");
}

#[test]
fn an_api_server_that_does_not_answer_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = write(
        directory.path(),
        "kubeconfig",
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
         contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n",
    );
    let text = complaint(&["--kubeconfig", &kubeconfig, "--webhook-port", &free_port().to_string()]);
    assert!(text.contains("cannot reach the API server at https://127.0.0.1:1"), "{text}");
    let text = complaint(&["--kubeconfig", "/nowhere", "--webhook-port", &free_port().to_string()]);
    assert!(text.contains("/nowhere"), "{text}");
}

#[test]
fn settings_of_tls_that_make_no_sense_end_the_manager() {
    for (name, value) in
        [("TLS_MIN_VERSION", "VersionTLS11"), ("TLS_MIN_VERSION", "1.2"), ("TLS_CIPHER_SUITES", "NONE_SUCH")]
    {
        let output = Command::new(binary()).arg("manager").env(name, value).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(value), "{name}={value}: {text}");
    }
}

struct Running {
    process: Child,
    port: u16,
    ca: String,
    directory: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn running() -> Running {
    running_in(certificates()).await
}

async fn running_in(directory: TempDir) -> Running {
    let port = free_port();
    let process = Command::new(binary())
        .arg("manager")
        .args(alone(&directory))
        .args(["--metrics-bind-address=0", "--health-probe-bind-address=0", "--webhook-host=127.0.0.1"])
        .args(["--webhook-port", &port.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ca = fs::read_to_string(directory.path().join("ca.crt")).unwrap();
    let running = Running { process, port, ca, directory };
    soon(|| running.post(Version::Http1, "{}")).await.unwrap();
    running
}

impl Running {
    async fn post(&self, version: Version, body: impl Into<bytes::Bytes>) -> anyhow::Result<(u16, String)> {
        https::post(version, self.port, "/mutate/peer-pods?timeout=5s", &self.ca, body).await
    }
}

fn review() -> String {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "object": {"metadata": {}, "spec": {"runtimeClassName": "kata-remote", "containers": [{"name": "a"}]}}},
    })
    .to_string()
}

#[tokio::test]
async fn bad_bodies_are_refused_over_both_protocols_and_good_ones_still_answered() {
    let server = running().await;
    for version in [Version::Http1, Version::Http2] {
        let valid = review();
        for (body, status) in [
            ("garbage".to_owned(), 400),
            (valid[..valid.len() / 2].to_owned(), 400),
            (valid.replace("\"object\"", "\"thing\""), 400),
        ] {
            let (code, text) = server.post(version, body).await.unwrap();
            assert_eq!(code, status, "{text}");
        }
        let (code, text) = server.post(version, vec![b' '; 10 * 1024 * 1024]).await.unwrap();
        assert_eq!(code, 413, "{version:?}: {text}");
        let (code, text) = server.post(version, valid).await.unwrap();
        assert!(code == 200 && text.contains("JSONPatch"), "{version:?} {code}: {text}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_speak_tls_harms_nobody() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = running().await;
    for _ in 0..20 {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
    }
    assert_eq!(server.post(Version::Http1, review()).await.unwrap().0, 200);
}

#[tokio::test]
async fn a_new_certificate_behind_a_swapped_link_is_served_without_a_restart() {
    // As a kubelet mounts a Secret: the files are links through ..data, which alone is swapped.
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for version in ["..v1", "..v2"] {
        certify(&root.join(version));
    }
    symlink("..v1", root.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key", "ca.crt"] {
        symlink(Path::new("..data").join(name), root.join(name)).unwrap();
    }
    let server = running_in(directory).await;
    symlink("..v2", server.directory.path().join("..data_tmp")).unwrap();
    fs::rename(server.directory.path().join("..data_tmp"), server.directory.path().join("..data")).unwrap();
    let ca = fs::read_to_string(server.directory.path().join("ca.crt")).unwrap();
    assert_ne!(ca, server.ca);
    soon(|| async {
        let (code, _) = https::post(Version::Http2, server.port, "/mutate/peer-pods", &ca, review()).await?;
        anyhow::ensure!(code == 200);
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn objects_that_the_api_server_takes_and_we_cannot_read_keep_no_replica_from_becoming_ready() {
    let lab = start_with(1, "", &[]).await;
    // As Go reads it, and a nanosecond too late for us.
    let template = json!({
        "metadata": {"labels": {"app": "late"}, "creationTimestamp": "9999-12-31T23:59:59Z"},
        "spec": {"containers": [{"name": "a", "image": "x"}]},
    });
    let labels = json!({"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"});
    for object in [
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "late"},
            "spec": {"selector": {"matchLabels": {"app": "late"}}, "template": template},
        }),
        json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "late", "labels": labels}, "template": template}),
    ] {
        lab.apply("default", &object.to_string()).await.unwrap();
    }
    let replica = lab.replica(0).unwrap();
    replica.terminate().await.unwrap();
    replica.start().await.unwrap();
    replica.await_ready(SOON).await.unwrap();
    let log = fs::read_to_string(lab.log("podwright-0")).unwrap();
    for kind in ["DaemonSet", "PodTemplate"] {
        let told =
            |line: &&str| line.contains("cannot be read") && line.contains(kind) && line.contains("late");
        assert!(log.lines().any(|line| told(&line)), "nothing is told of the {kind}");
    }
}
