//! How the programs of the control plane are told what to do: flags, settings files, kubeconfigs.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, bail};
use serde_json::json;

use crate::kubeconfig::{self, Credential};
use crate::layout::{Layout, write_private};
use crate::nodes::FAKE_NODE;
use crate::pki::Pki;
use crate::ports;

const STAGES: &str = include_str!("stages.yaml");

/// Where each of them listens.
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) apiserver: u16,
    pub(crate) controllers: u16,
    pub(crate) scheduler: u16,
}

impl Ports {
    pub(crate) fn free() -> Result<Self> {
        let [etcd, etcd_peer, apiserver, controllers, scheduler] = ports::free(5)?[..] else {
            bail!("asked for 5 ports, got another number")
        };
        Ok(Self { etcd, etcd_peer, apiserver, controllers, scheduler })
    }
}

/// What the settings are made from.
pub(crate) struct Settings<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) pki: &'a Pki,
    pub(crate) ports: Ports,
    pub(crate) node_count: usize,
}

impl Settings<'_> {
    /// The API server's address.
    pub(crate) fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.apiserver)
    }

    /// Where etcd keeps its data.
    pub(crate) fn etcd_data(&self) -> PathBuf {
        self.run_file("etcd")
    }

    fn run_file(&self, name: &str) -> PathBuf {
        self.layout.run().join(name)
    }

    /// Writes the files that the flags name.
    pub(crate) fn write(&self) -> Result<()> {
        let users = [
            (self.layout.kubeconfig(), "admin", Some("system:masters")),
            (self.run_file("controllers.kubeconfig"), "system:kube-controller-manager", None),
            (self.run_file("scheduler.kubeconfig"), "system:kube-scheduler", None),
            (self.run_file("kwok.kubeconfig"), "kwok", Some("system:masters")),
        ];
        for (path, user, group) in users {
            let pair = self.pki.client(user, group)?;
            kubeconfig::write(&path, &self.server(), &self.pki.ca, user, &Credential::Certificate(&pair))?;
        }
        write_private(&self.run_file("stages.yaml"), STAGES)?;
        write_private(&self.run_file("audit.yaml"), &audit_policy().to_string())?;
        let scheduler = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": self.run_file("scheduler.kubeconfig"), "qps": 2000, "burst": 4000,
            },
            "leaderElection": { "leaderElect": false },
            "podMaxBackoffSeconds": 2,
        });
        write_private(&self.run_file("scheduler.yaml"), &scheduler.to_string())
    }

    pub(crate) fn etcd(&self) -> Vec<OsString> {
        let client = format!("http://127.0.0.1:{}", self.ports.etcd);
        let peer = format!("http://127.0.0.1:{}", self.ports.etcd_peer);
        let mut args = Args::new();
        args.set("name", "lab")
            .set("data-dir", self.etcd_data())
            // The data need not outlive the machine.
            .set("unsafe-no-fsync", "true")
            .set("listen-client-urls", &client)
            .set("advertise-client-urls", &client)
            .set("listen-peer-urls", &peer)
            .set("initial-advertise-peer-urls", &peer)
            .set("initial-cluster", format!("lab={peer}"))
            // Its only member need not wait long for others to stand for election.
            .set("heartbeat-interval", "50")
            .set("election-timeout", "500")
            .set("quota-backend-bytes", "8589934592")
            .set("log-level", "warn");
        args.0
    }

    pub(crate) fn apiserver(&self) -> Vec<OsString> {
        let pki = self.pki;
        let mut args = Args::new();
        args.set("etcd-servers", format!("http://127.0.0.1:{}", self.ports.etcd))
            .set("bind-address", "127.0.0.1")
            .set("secure-port", self.ports.apiserver.to_string())
            // There may be no default route to find an address by, and nobody needs the endpoint.
            .set("advertise-address", "127.0.0.1")
            .set("endpoint-reconciler-type", "none")
            .set("tls-cert-file", pki.serving_certificate())
            .set("tls-private-key-file", pki.serving_key())
            .set("client-ca-file", pki.ca_file())
            .set("authorization-mode", "RBAC")
            .set("service-account-issuer", "https://kubernetes.default.svc")
            .set("service-account-key-file", pki.token_public_key())
            .set("service-account-signing-key-file", pki.token_key())
            .set("service-cluster-ip-range", "10.16.0.0/16")
            .set("allow-privileged", "true")
            .set("audit-policy-file", self.run_file("audit.yaml"))
            .set("audit-log-path", self.layout.log("audit"))
            .set("max-requests-inflight", "2000")
            .set("max-mutating-requests-inflight", "1000")
            .set("profiling", "false");
        args.0
    }

    pub(crate) fn controller_manager(&self) -> Vec<OsString> {
        let pki = self.pki;
        let kubeconfig = self.run_file("controllers.kubeconfig");
        let mut args = Args::new();
        args.set("kubeconfig", &kubeconfig)
            .set("bind-address", "127.0.0.1")
            .set("secure-port", self.ports.controllers.to_string())
            .set("tls-cert-file", pki.serving_certificate())
            .set("tls-private-key-file", pki.serving_key())
            .set("service-account-private-key-file", pki.token_key())
            .set("root-ca-file", pki.ca_file())
            .set("use-service-account-credentials", "true")
            .set("leader-elect", "false")
            // What fake nodes have no use for: volumes, certificates for kubelets, cloud routes, hints for caches.
            .set(
                "controllers",
                "*,-persistentvolume-attach-detach-controller,-persistentvolume-binder-controller,\
                 -persistentvolume-expander-controller,-persistentvolumeclaim-protection-controller,\
                 -persistentvolume-protection-controller,-ephemeral-volume-controller,\
                 -certificatesigningrequest-approving-controller,-certificatesigningrequest-cleaner-controller,\
                 -certificatesigningrequest-signing-controller,-node-ipam-controller,-node-route-controller,\
                 -service-lb-controller,-ttl-controller,-horizontal-pod-autoscaler-controller",
            )
            .set("node-monitor-grace-period", format!("{}s", lease_seconds(self.node_count) + 10))
            .set("kube-api-qps", "2000")
            .set("kube-api-burst", "4000")
            .set("profiling", "false");
        for kind in ["deployment", "replicaset", "statefulset", "daemonset", "job", "namespace"] {
            args.set(&format!("concurrent-{kind}-syncs"), "20");
        }
        args.set("concurrent-gc-syncs", "40");
        args.0
    }

    pub(crate) fn scheduler(&self) -> Vec<OsString> {
        let mut args = Args::new();
        args.set("config", self.run_file("scheduler.yaml"))
            .set("bind-address", "127.0.0.1")
            .set("secure-port", self.ports.scheduler.to_string())
            .set("tls-cert-file", self.pki.serving_certificate())
            .set("tls-private-key-file", self.pki.serving_key())
            .set("profiling", "false");
        args.0
    }

    pub(crate) fn kwok(&self) -> Vec<OsString> {
        let mut args = Args::new();
        args.set("kubeconfig", self.run_file("kwok.kubeconfig"))
            .set("config", self.run_file("stages.yaml"))
            .set("manage-nodes-with-annotation-selector", format!("{}={}", FAKE_NODE.0, FAKE_NODE.1))
            .set("node-lease-duration-seconds", lease_seconds(self.node_count).to_string())
            .set("v", "WARN");
        args.0
    }
}

/// A lease is renewed four times in its life. Of a thousand nodes that would be a hundred writes a second for nothing,
/// so the leases of many nodes last longer.
fn lease_seconds(node_count: usize) -> usize {
    (node_count / 5).clamp(40, 200)
}

/// Metadata of every write, and of every request for pods; heartbeats and events would drown the rest.
fn audit_policy() -> serde_json::Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": true,
        "rules": [
            {
                "level": "None",
                "namespaces": ["kube-node-lease"],
                "resources": [{ "group": "coordination.k8s.io", "resources": ["leases"] }],
            },
            {
                "level": "None",
                "resources": [
                    { "group": "", "resources": ["events"] },
                    { "group": "events.k8s.io", "resources": ["events"] },
                ],
            },
            { "level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"] },
            { "level": "Metadata", "resources": [{ "group": "", "resources": ["pods", "pods/*"] }] },
            { "level": "None" },
        ],
    })
}

/// Flags of the form `--name=value`.
struct Args(Vec<OsString>);

impl Args {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn set(&mut self, name: &str, value: impl Into<OsString>) -> &mut Self {
        let mut arg = OsString::from(format!("--{name}="));
        arg.push(value.into());
        self.0.push(arg);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_of_many_nodes_last_longer() {
        assert_eq!(lease_seconds(10), 40);
        assert_eq!(lease_seconds(500), 100);
        assert_eq!(lease_seconds(5000), 200);
    }
}
