use std::path::PathBuf;

use anyhow::Context;
use clap::{ArgAction, Args};
use podwright_api::{
    Feature,
    config::{Config, LogFormat, TlsMode},
};

/// Flags of `podwright manager`. They win over the environment, and that over the file.
#[derive(Debug, Args)]
pub struct ManagerArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Run only these features (comma-separated)
    #[arg(long, value_delimiter = ',', value_name = "FEATURE")]
    features: Option<Vec<Feature>>,
    /// Talk to the cluster of this kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the cluster that this runs in
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Let one replica control while all admit [default: true]
    #[arg(long, alias = "enable-leader-election", num_args = 0..=1, default_missing_value = "true", require_equals = true, action = ArgAction::Set, value_name = "BOOL")]
    leader_elect: Option<bool>,
    /// Where to serve /metrics; 0 switches it off
    #[arg(long, alias = "metrics-addr", default_value = ":8080", value_name = "ADDRESS")]
    metrics_bind_address: String,
    /// Where to serve /healthz and /readyz; 0 switches it off
    #[arg(long, default_value = ":8081", value_name = "ADDRESS")]
    health_probe_bind_address: String,
    /// The address to serve the webhook on [default: 0.0.0.0]
    #[arg(long, value_name = "ADDRESS")]
    webhook_host: Option<String>,
    /// The port to serve the webhook on [default: 9443]
    #[arg(long, value_name = "PORT")]
    webhook_port: Option<u16>,
    /// Register the webhook by this https:// address instead of by its Service
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,
    /// Serve with tls.crt and tls.key of this directory (and register with its ca.crt) instead of managing a certificate
    #[arg(long, value_name = "DIR")]
    cert_dir: Option<String>,
    /// How log lines look: text or json [default: text]
    #[arg(long, alias = "logEncoder", value_name = "FORMAT", value_parser = log_format)]
    log_format: Option<LogFormat>,
    /// What to log: a level, or a filter such as info,kube=debug [default: info]
    #[arg(long, visible_alias = "zap-log-level", alias = "loglevel", value_name = "FILTER")]
    log_level: Option<String>,
    #[command(flatten)]
    legacy: LegacyArgs,
}

/// Flags of the replaced projects that choose how their libraries work, which ours do not need to be told.
#[derive(Debug, Args)]
struct LegacyArgs {
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    zap_devel: Option<String>,
    #[arg(long, hide = true)]
    zap_encoder: Option<String>,
    #[arg(long, hide = true)]
    zap_stacktrace_level: Option<String>,
    #[arg(long, hide = true)]
    zap_time_encoding: Option<String>,
    #[arg(long, hide = true)]
    leader_election_resource: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pprof: Option<String>,
    #[arg(long = "ddProfilingEnabled", hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    dd_profiling_enabled: Option<String>,
}

impl LegacyArgs {
    fn used(&self) -> Vec<&'static str> {
        [
            ("--zap-devel", &self.zap_devel),
            ("--zap-encoder", &self.zap_encoder),
            ("--zap-stacktrace-level", &self.zap_stacktrace_level),
            ("--zap-time-encoding", &self.zap_time_encoding),
            ("--leader-election-resource", &self.leader_election_resource),
            ("--pprof", &self.pprof),
            ("--ddProfilingEnabled", &self.dd_profiling_enabled),
        ]
        .into_iter()
        .filter_map(|(flag, value)| value.as_ref().map(|_| flag))
        .collect()
    }
}

/// Everything the manager needs to know, from file, environment and flags.
pub(super) struct Settings {
    pub(super) config: Config,
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) metrics_address: String,
    pub(super) probe_address: String,
    /// Who we are in the election.
    pub(super) identity: String,
    /// What the operator should know about the settings.
    pub(super) remarks: Vec<String>,
}

impl ManagerArgs {
    pub(super) fn settings(self, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Settings> {
        let mut config = match &self.config {
            None => Config::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
                Config::read(&text).with_context(|| format!("configuration file {}", path.display()))?
            }
        };
        config = config.with_environment(&variable)?;
        config.namespace = config.namespace.or_else(own_namespace);
        let mut remarks: Vec<String> = self
            .legacy
            .used()
            .into_iter()
            .map(|flag| match flag {
                _ if flag.starts_with("--zap") => {
                    format!("{flag} has no effect here; see --log-format and --log-level")
                }
                _ => format!("{flag} has no effect here"),
            })
            .collect();
        if variable("POD_VM_INSTANCE_TYPE").is_some_and(|value| !value.is_empty()) {
            remarks
                .push("POD_VM_INSTANCE_TYPE has no effect: the pod's annotations choose its VM".to_owned());
        }
        if variable("EDS_NODEAFFINITYMATCH_SUPPORT").is_some_and(|value| !value.is_empty()) {
            remarks.push(
                "EDS_NODEAFFINITYMATCH_SUPPORT has no effect: pods are bound to their node by affinity"
                    .to_owned(),
            );
        }
        if let Some(features) = self.features {
            config.features = features;
        }
        if let Some(enabled) = self.leader_elect {
            config.leader_election.enabled = enabled;
        }
        if let Some(directory) = self.cert_dir {
            config.tls.directory = directory;
            if config.tls.mode == TlsMode::SelfManaged {
                config.tls.mode = TlsMode::Directory;
            }
        }
        overlay(&mut config.webhook.host, self.webhook_host);
        overlay(&mut config.webhook.port, self.webhook_port);
        overlay(&mut config.logging.format, self.log_format);
        overlay(&mut config.logging.level, self.log_level);
        config.webhook.url = self.webhook_url.or(config.webhook.url);
        config.check().context("configuration")?;
        let host = variable("POD_NAME").or_else(|| variable("HOSTNAME")).filter(|name| !name.is_empty());
        Ok(Settings {
            config,
            kubeconfig: self.kubeconfig,
            metrics_address: self.metrics_bind_address,
            probe_address: self.health_probe_bind_address,
            // Two processes of one name must not take themselves for each other.
            identity: format!("{}_{}", host.as_deref().unwrap_or("podwright"), std::process::id()),
            remarks,
        })
    }
}

/// Where a pod finds the namespace that it runs in. Manifests of replaced projects do not put it into the environment.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

fn own_namespace() -> Option<String> {
    let text = std::fs::read_to_string(OWN_NAMESPACE).ok()?;
    Some(text.trim().to_owned()).filter(|name| !name.is_empty())
}

fn overlay<T>(setting: &mut T, flag: Option<T>) {
    if let Some(value) = flag {
        *setting = value;
    }
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        // As zap calls it.
        "text" | "console" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("must be text or json".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        manager: ManagerArgs,
    }

    fn settings(flags: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Settings> {
        let words = std::iter::once("manager").chain(flags.iter().copied());
        Line::try_parse_from(words)?.manager.settings(|name| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("podwright.yaml");
        std::fs::write(
            &file,
            "webhook: {port: 1111}\ntls: {minVersion: VersionTLS12}\npeerPods: {resource: a.b/c}\n",
        )
        .unwrap();
        let path = file.to_str().unwrap();
        let environment =
            [("TLS_MIN_VERSION", "VersionTLS13"), ("POD_NAMESPACE", "home"), ("POD_NAME", "pod-1")];
        let settings =
            settings(&["--config", path, "--webhook-port", "2222", "--leader-elect=false"], &environment)
                .unwrap();
        let config = &settings.config;
        assert_eq!(config.webhook.port, 2222);
        assert_eq!(config.tls.min_version, "VersionTLS13");
        assert_eq!(config.peer_pods.resource, "a.b/c");
        assert_eq!(config.home(), "home");
        assert!(!config.leader_election.enabled);
        assert!(settings.identity.starts_with("pod-1_"));
    }

    #[test]
    fn a_certificate_directory_switches_self_management_off() {
        let settings = settings(&["--cert-dir", "/certs"], &[]).unwrap();
        assert_eq!(settings.config.tls.mode, TlsMode::Directory);
        assert_eq!(settings.config.tls.directory, "/certs");
    }

    #[test]
    fn what_has_no_effect_is_remarked_upon() {
        let settings = settings(
            &["--zap-devel=true", "--zap-log-level", "debug"],
            &[("POD_VM_INSTANCE_TYPE", "t2.small")],
        )
        .unwrap();
        assert_eq!(settings.remarks.len(), 2, "{:?}", settings.remarks);
        assert_eq!(settings.config.logging.level, "debug");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_the_reason() {
        let error = settings(&["--config", "/nowhere/podwright.yaml"], &[]).err().unwrap();
        assert!(format!("{error:#}").contains("/nowhere/podwright.yaml"), "{error:#}");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("p.yaml");
        std::fs::write(&file, "pearPods: {}\n").unwrap();
        let error = settings(&["--config", file.to_str().unwrap()], &[]).err().unwrap();
        assert!(format!("{error:#}").contains("did you mean `peerPods`?"), "{error:#}");
    }
}
