use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::LongDuration;

/// How lines look in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// How Podwright logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LoggingConfig {
    /// `text` or `json`.
    pub format: LogFormat,
    /// A level (`error`, `warn`, `info`, `debug`, `trace`), or a filter such as `info,kube=debug`.
    pub level: String,
}

impl Default for LoggingConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".to_owned() }
    }
}

/// The admission server and its registration with the API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WebhookConfig {
    /// The address to listen on.
    pub host: String,
    /// The port to listen on.
    pub port: u16,
    /// The Service by which the API server reaches us, in our namespace.
    pub service: String,
    /// The Service's port.
    pub service_port: u16,
    /// Register by this `https://` address instead of by the Service. For a manager that runs outside the cluster.
    pub url: Option<String>,
    /// The MutatingWebhookConfiguration that we fill in.
    pub configuration: String,
    /// Whether we fill in the MutatingWebhookConfiguration. Off: somebody else registers us.
    pub register: bool,
    /// How long the API server waits for an answer (1 to 30 seconds).
    pub timeout: LongDuration,
    /// How many reviews are worked on at once; more wait, within the deadline.
    pub max_in_flight: usize,
    /// How long to go on serving after SIGTERM while the API server's endpoints learn that we leave.
    pub shutdown_grace: LongDuration,
}

impl Default for WebhookConfig {
    fn default() -> Self {
        Self {
            host: "0.0.0.0".to_owned(),
            port: 9443,
            service: "podwright-webhook".to_owned(),
            service_port: 443,
            url: None,
            configuration: "podwright".to_owned(),
            register: true,
            timeout: LongDuration::seconds(5),
            max_in_flight: 256,
            shutdown_grace: LongDuration::seconds(10),
        }
    }
}

/// Who makes the certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// Podwright: a CA and a serving pair in a Secret shared by the replicas, rotated early.
    #[default]
    SelfManaged,
    /// You: files in a directory, reloaded when their content changes.
    Directory,
    /// cert-manager: its Secret mounted as a directory, its injector asked to write the caBundle where the Secret
    /// carries no `ca.crt`.
    CertManager,
}

/// Where the server's certificate comes from, and what TLS is spoken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TlsConfig {
    /// Who makes the certificate.
    pub mode: TlsMode,
    /// Self-managed: the Secret, in our namespace.
    pub secret: String,
    /// Directory and cert-manager: where tls.crt, tls.key and, optionally, ca.crt are.
    pub directory: String,
    /// cert-manager: the Certificate, as `namespace/name`, for its injector.
    pub certificate: Option<String>,
    /// Self-managed: how long a CA lives. It is replaced after two thirds of that.
    pub ca_lifetime: LongDuration,
    /// Self-managed: how long a serving certificate lives. It is replaced after two thirds of that.
    pub serving_lifetime: LongDuration,
    /// Self-managed: how long a new CA is published before a certificate of it is served. Must fit nine times into
    /// `caLifetime` and three times into `servingLifetime`.
    pub propagation: LongDuration,
    /// The lowest TLS version: `VersionTLS12` or `VersionTLS13` (TLS_MIN_VERSION).
    pub min_version: String,
    /// IANA names of the TLS 1.2 cipher suites to allow, comma-separated (TLS_CIPHER_SUITES). Empty: the default set.
    pub cipher_suites: String,
}

impl Default for TlsConfig {
    fn default() -> Self {
        const DAY: u64 = 24 * 3600;
        Self {
            mode: TlsMode::SelfManaged,
            secret: "podwright-tls".to_owned(),
            directory: "/tmp/k8s-webhook-server/serving-certs".to_owned(),
            certificate: None,
            ca_lifetime: LongDuration::seconds(365 * DAY),
            serving_lifetime: LongDuration::seconds(30 * DAY),
            propagation: LongDuration::seconds(120),
            min_version: String::new(),
            cipher_suites: String::new(),
        }
    }
}

/// Which replica controls. Any replica admits; one writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LeaderElectionConfig {
    /// Off: this process considers itself the leader.
    pub enabled: bool,
    /// The Lease, in our namespace.
    pub lease: String,
    /// How long a claim lasts without renewal.
    pub lease_duration: LongDuration,
    /// How long the leader tries to renew before it stops being one.
    pub renew_deadline: LongDuration,
    /// How often to try.
    pub retry_period: LongDuration,
}

impl Default for LeaderElectionConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            lease: "podwright".to_owned(),
            lease_duration: LongDuration::seconds(15),
            renew_deadline: LongDuration::seconds(10),
            retry_period: LongDuration::seconds(2),
        }
    }
}
