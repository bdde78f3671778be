mod architecture;

use super::{Config, TlsMode};
use crate::Feature;

/// Values that cannot be meant, each with its key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct InvalidConfig(Vec<String>);

impl Config {
    /// Whether the values make sense together. All that is wrong is told at once.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let mut wrong = Vec::new();
        let mut require = |holds: bool, message: &str| {
            if !holds {
                wrong.push(message.to_owned());
            }
        };
        let webhook = &self.webhook;
        require(!self.features.is_empty(), "features: name at least one feature");
        let timeout = webhook.timeout.get();
        require(
            timeout.as_secs() >= 1 && timeout.as_secs() <= 30 && timeout.subsec_nanos() == 0,
            "webhook.timeout: must be whole seconds from 1s to 30s, as the API server allows",
        );
        require(webhook.max_in_flight > 0, "webhook.maxInFlight: must be at least 1");
        require(webhook.port > 0, "webhook.port: must not be 0");
        require(
            webhook
                .url
                .as_ref()
                .is_none_or(|url| url.starts_with("https://") && url.len() > "https://".len()),
            "webhook.url: must start with https:// and name a host",
        );
        require(
            self.tls.mode != TlsMode::CertManager
                || self
                    .tls
                    .certificate
                    .as_ref()
                    .is_none_or(|name| name.split('/').filter(|part| !part.is_empty()).count() == 2),
            "tls.certificate: must be namespace/name",
        );
        let tls = &self.tls;
        require(
            tls.serving_lifetime <= tls.ca_lifetime,
            "tls.servingLifetime: must not be longer than tls.caLifetime",
        );
        require(
            tls.propagation.get() * 9 <= tls.ca_lifetime.get()
                && tls.propagation.get() * 3 <= tls.serving_lifetime.get(),
            "tls.propagation: must fit nine times into tls.caLifetime and three times into tls.servingLifetime, or what is new \
             cannot be known everywhere before the old expires",
        );
        require(
            webhook.register || tls.mode != TlsMode::SelfManaged,
            "webhook.register: false needs tls.mode directory or cert-manager, because nobody else would learn of a CA that we \
             make",
        );
        let election = &self.leader_election;
        require(
            election.renew_deadline < election.lease_duration
                && election.retry_period < election.renew_deadline,
            "leaderElection: retryPeriod must be shorter than renewDeadline, and that shorter than leaseDuration",
        );
        require(
            !self.has(Feature::Sizing) || self.sizing.drift.max_unavailable > 0,
            "sizing.drift.maxUnavailable: must be at least 1; to replace no pods at all, leave onDrift of the templates at Report",
        );
        if self.has(Feature::Architecture) {
            self.check_architecture(&mut require);
        }
        if self.has(Feature::PeerPods) {
            self.check_peer_pods(&mut require);
        }
        if wrong.is_empty() { Ok(()) } else { Err(InvalidConfig(wrong)) }
    }

    fn check_peer_pods(&self, require: &mut impl FnMut(bool, &str)) {
        let peer_pods = &self.peer_pods;
        require(
            !peer_pods.runtime_classes.is_empty()
                && peer_pods.runtime_classes.iter().all(|class| is_dns_name(class)),
            "peerPods.runtimeClasses: must be one or more names of RuntimeClasses (lower-case letters, digits, '-', '.')",
        );
        require(
            is_extended_resource(&peer_pods.resource),
            "peerPods.resource: must be an extended resource such as kata.peerpods.io/vm: a domain other than kubernetes.io, a slash, a name",
        );
        require(
            !peer_pods.keep.contains(&peer_pods.resource)
                && !peer_pods.devices.contains_key(&peer_pods.resource),
            "peerPods.keep, peerPods.devices: must not contain peerPods.resource",
        );
        require(
            peer_pods.keep.iter().all(|kept| !peer_pods.devices.contains_key(kept)),
            "peerPods.keep: a resource cannot be both kept on the node and a device of the VM",
        );
        for entry in &peer_pods.capacity.nodes {
            require(
                entry.selector.makes_sense(),
                "peerPods.capacity.nodes[].selector: In and NotIn need values, Exists and DoesNotExist take none",
            );
        }
    }
}

pub(super) fn is_dns_name(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.len() <= 253
        && edge(name.chars().next())
        && edge(name.chars().last())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.')
}

/// As the API server sees it: a domain prefix that is not Kubernetes' own, and a qualified name.
fn is_extended_resource(name: &str) -> bool {
    let Some((domain, short)) = name.split_once('/') else {
        return false;
    };
    let alphanumeric = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    is_dns_name(domain)
        && !domain.ends_with("kubernetes.io")
        && !name.starts_with("requests.")
        && short.len() <= 63
        && alphanumeric(short.chars().next())
        && alphanumeric(short.chars().last())
        && short.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        Config::read(text).unwrap().check().unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_make_sense() {
        Config::default().check().unwrap();
    }

    #[test]
    fn values_that_cannot_be_meant_are_named_by_their_key() {
        for (text, key) in [
            ("features: []", "features"),
            ("webhook: {timeout: 31s}", "webhook.timeout"),
            ("webhook: {timeout: 1500ms}", "webhook.timeout"),
            ("webhook: {url: 'http://x'}", "webhook.url"),
            ("tls: {caLifetime: 1h}", "tls.servingLifetime"),
            ("tls: {caLifetime: 60s, servingLifetime: 30s, propagation: 30s}", "tls.propagation"),
            ("webhook: {register: false}", "webhook.register"),
            ("leaderElection: {leaseDuration: 5s}", "leaderElection"),
            ("sizing: {drift: {maxUnavailable: 0}}", "sizing.drift.maxUnavailable"),
            ("peerPods: {runtimeClasses: []}", "peerPods.runtimeClasses"),
            ("peerPods: {runtimeClasses: [Kata]}", "peerPods.runtimeClasses"),
            ("peerPods: {resource: cpu}", "peerPods.resource"),
            ("peerPods: {resource: kubernetes.io/vm}", "peerPods.resource"),
            ("peerPods: {keep: [nvidia.com/gpu]}", "peerPods.keep"),
            (
                "peerPods: {capacity: {nodes: [{vms: 1, selector: {matchExpressions: [{key: a, operator: In}]}}]}}",
                "peerPods.capacity",
            ),
        ] {
            let message = complaint(text);
            assert!(message.contains(key), "{text:?} gave {message:?}");
        }
    }

    #[test]
    fn what_is_said_of_architectures_must_make_sense() {
        for (text, key) in [
            ("{ifNotPresentCacheTime: 0s}", "architecture.ifNotPresentCacheTime"),
            ("{lookupTimeout: 5s}", "architecture.lookupTimeout"),
            ("{lookupTimeout: 0s}", "architecture.lookupTimeout"),
            ("{gate: {deadline: 0s}}", "architecture.gate.deadline"),
            ("{dockerConfigSecretName: A_B}", "architecture.dockerConfigSecretName"),
            ("{architectures: {x86_64: {}}}", "write amd64"),
            ("{architectures: {linux/arm64: {}}}", "architecture.architectures.linux/arm64"),
            ("{architectures: {arm64: {preference: 0}}}", "architecture.architectures.arm64.preference"),
            ("{architectures: {arm64: {preference: 101}}}", "architecture.architectures.arm64.preference"),
            ("{architectures: {arm: {variant: seven}}}", "architecture.architectures.arm.variant"),
            ("{architectures: {arm: {machineType: ''}}}", "architecture.architectures.arm.machineType"),
            ("{architectures: {arm: {taintsToTolerate: [{key: ''}]}}}", "taintsToTolerate"),
            ("{architectures: {arm: {taintsToTolerate: [{key: 'a b'}]}}}", "taintsToTolerate"),
            ("{architectures: {arm: {requireNodeLabels: [{'a b': c}]}}}", "requireNodeLabels"),
            ("{architectures: {arm: {requireNodeLabels: [{a: b}, {a: c}]}}}", "requireNodeLabels"),
            ("{registries: {'https://docker.io': {}}}", "architecture.registries.https://docker.io"),
            (
                "{registries: {docker.io: {mirrors: ['http://a']}}}",
                "architecture.registries.docker.io.mirrors",
            ),
            ("{registries: {docker.io: {ca: x}}}", "architecture.registries.docker.io.ca"),
            ("{objectSelector: {matchExpressions: [{key: a, operator: In}]}}", "architecture.objectSelector"),
        ] {
            let message = complaint(&format!("architecture: {text}"));
            assert!(message.contains(key), "{text:?} gave {message:?}");
        }
        Config::read(
            "architecture:\n  ifNotPresentCacheTime: 1w\n  pullAlwaysCacheTime: null\n  architectures:\n    arm64:\n      \
             taintsToTolerate: [{effect: NoExecute, key: ARM, value: 'true'}]\n      \
             requireNodeLabels: [{kubernetes.io/arch: arm64}]\n",
        )
        .unwrap()
        .check()
        .unwrap();
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let message = complaint("webhook: {timeout: 40s, maxInFlight: 0}");
        assert!(message.contains("webhook.timeout") && message.contains("webhook.maxInFlight"), "{message}");
    }
}
