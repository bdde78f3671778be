use super::super::{ArchitectureRules, Config, RegistryConfig};
use super::is_dns_name;

impl Config {
    pub(super) fn check_architecture(&self, require: &mut impl FnMut(bool, &str)) {
        let config = &self.architecture;
        let cached = [Some(config.if_not_present_cache_time), config.pull_always_cache_time];
        require(
            cached.iter().flatten().all(|time| !time.get().is_zero()),
            "architecture.ifNotPresentCacheTime, architecture.pullAlwaysCacheTime: must be longer than 0s",
        );
        require(
            !config.lookup_timeout.get().is_zero() && config.lookup_timeout < self.webhook.timeout,
            "architecture.lookupTimeout: must be longer than 0s and shorter than webhook.timeout",
        );
        require(!config.gate.deadline.get().is_zero(), "architecture.gate.deadline: must be longer than 0s");
        require(
            config.docker_config_secret_name.is_empty() || is_dns_name(&config.docker_config_secret_name),
            "architecture.dockerConfigSecretName: must be the name of a Secret (lower-case letters, digits, '-', '.')",
        );
        require(
            config.namespace_selector.makes_sense() && config.object_selector.makes_sense(),
            "architecture.namespaceSelector, architecture.objectSelector: In and NotIn need values, Exists and DoesNotExist take \
             none",
        );
        for (name, rules) in &config.architectures {
            for complaint in complaints(name, rules) {
                require(false, &format!("architecture.architectures.{name}{complaint}"));
            }
        }
        for (host, registry) in &config.registries {
            for complaint in registry_complaints(host, registry) {
                require(false, &format!("architecture.registries.{host}{complaint}"));
            }
        }
    }
}

/// Spellings that people know from elsewhere, and how nodes spell them.
const SPELLINGS: [(&str, &str); 3] = [("x86_64", "amd64"), ("aarch64", "arm64"), ("x86", "386")];

fn complaints(name: &str, rules: &ArchitectureRules) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Some((_, spelled)) = SPELLINGS.iter().find(|(other, _)| *other == name) {
        complaints.push(format!(": nodes spell it otherwise; write {spelled}"));
    } else if !is_label_value(name) || name.is_empty() {
        complaints
            .push(": must be an architecture as in the label kubernetes.io/arch, such as arm64".to_owned());
    }
    if rules.preference.is_some_and(|weight| !(1..=100).contains(&weight)) {
        complaints.push(".preference: must be from 1 to 100".to_owned());
    }
    let is_variant = |variant: &String| {
        variant.strip_prefix('v').is_some_and(|rest| rest.parse::<f32>().is_ok_and(|level| level >= 1.0))
    };
    if rules.variant.as_ref().is_some_and(|variant| !is_variant(variant)) {
        complaints.push(".variant: must be v and a number, such as v7".to_owned());
    }
    for (key, value) in [("machineType", &rules.machine_type), ("machineImage", &rules.machine_image)] {
        if value.as_ref().is_some_and(|value| value.trim().is_empty()) {
            complaints.push(format!(".{key}: must not be empty; leave it out instead"));
        }
    }
    let taints = rules.taints_to_tolerate.iter().flatten();
    if !taints
        .clone()
        .all(|taint| is_label_key(&taint.key) && taint.value.iter().all(|value| is_label_value(value)))
    {
        complaints.push(
            ".taintsToTolerate: each needs a key such as kubernetes.io/arch, and a value as labels have it"
                .to_owned(),
        );
    }
    let mut labels = std::collections::BTreeMap::new();
    for (key, value) in rules.require_node_labels.iter().flatten() {
        if !is_label_key(key) || !is_label_value(value) {
            complaints.push(format!(".requireNodeLabels: {key}={value} cannot be a label of a node"));
        }
        if labels.insert(key, value).is_some_and(|other| other != value) {
            complaints.push(format!(".requireNodeLabels: a node cannot have two values of the label {key}"));
        }
    }
    complaints
}

fn registry_complaints(host: &str, registry: &RegistryConfig) -> Vec<String> {
    let mut complaints = Vec::new();
    let is_host = |text: &str| {
        !text.is_empty()
            && !text.contains("://")
            && text.chars().all(|c| c.is_ascii_graphic())
            && !text.starts_with('/')
    };
    if !is_host(host) || host.contains('/') {
        complaints.push(
            ": must be a host as image names have it, such as docker.io or registry.example.com:5000"
                .to_owned(),
        );
    }
    if !registry.mirrors.iter().all(|mirror| is_host(mirror)) {
        complaints.push(".mirrors: each must be host[:port][/prefix], without https://".to_owned());
    }
    if registry.ca.as_ref().is_some_and(|ca| !ca.contains("-----BEGIN CERTIFICATE-----")) {
        complaints.push(".ca: must be one or more certificates as PEM text".to_owned());
    }
    complaints
}

fn is_label_value(value: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    value.len() <= 63
        && edge(value.chars().next())
        && edge(value.chars().last())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_label_key(key: &str) -> bool {
    let (domain, name) = key.split_once('/').map_or((None, key), |(domain, name)| (Some(domain), name));
    domain.is_none_or(is_dns_name) && !name.is_empty() && is_label_value(name)
}
