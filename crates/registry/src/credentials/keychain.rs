use std::sync::Arc;

use super::{Credential, DockerConfig};

/// All credentials that a caller may use, in the order in which they are tried. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Keychain {
    /// One after the other; within each, the longest key first.
    rings: Arc<[Vec<Arc<DockerConfig>>]>,
}

impl Keychain {
    /// The credentials of a pod: those of all its secrets together, the most specific first.
    pub fn new(configs: impl IntoIterator<Item = Arc<DockerConfig>>) -> Self {
        Self { rings: Arc::new([configs.into_iter().collect()]) }
    }

    /// The same, and after them those of `fallback`: what belongs to the cluster comes after what belongs to the pod.
    #[must_use]
    pub fn or(&self, fallback: &Self) -> Self {
        Self { rings: self.rings.iter().chain(fallback.rings.iter()).cloned().collect() }
    }

    /// The credentials for a repository, each once, in the order in which they are to be tried.
    pub(crate) fn matching(&self, registry: &str, repository: &str) -> Vec<Credential> {
        let mut found: Vec<Credential> = Vec::new();
        for ring in self.rings.iter() {
            let entries = || ring.iter().flat_map(|config| &config.entries);
            let mut matching: Vec<_> =
                entries().filter(|(pattern, _)| pattern.matches(registry, repository)).collect();
            if matching.is_empty() {
                matching.extend(entries().filter(|(pattern, _)| pattern.is_fallback_for(registry)));
            }
            // Backwards by key, as the kubelet sorts: a longer path comes before its beginning. Keys that are the same
            // keep the order of the secrets.
            matching.sort_by(|(left, _), (right, _)| right.key().cmp(left.key()));
            for (_, credential) in matching {
                if !found.contains(credential) {
                    found.push(credential.clone());
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(entries: &[(&str, &str)]) -> Arc<DockerConfig> {
        let entries: Vec<_> = entries
            .iter()
            .map(|(host, user)| format!(r#""{host}":{{"username":"{user}","password":"p"}}"#))
            .collect();
        Arc::new(DockerConfig::from_dockercfg(format!("{{{}}}", entries.join(",")).as_bytes()).unwrap())
    }

    fn users(keychain: &Keychain, registry: &str, repository: &str) -> Vec<Credential> {
        keychain.matching(registry, repository)
    }

    fn named(users: &[&str]) -> Vec<Credential> {
        users.iter().map(|user| Credential::password(user, "p")).collect()
    }

    #[test]
    fn all_matches_are_tried_the_longest_key_first() {
        let keychain = Keychain::new([
            config(&[("registry.example", "host"), ("*.example", "glob"), ("other.example", "other")]),
            config(&[("registry.example/team/app", "app"), ("registry.example/team", "team")]),
        ]);
        assert_eq!(users(&keychain, "registry.example", "team/app"), named(&["app", "team", "host", "glob"]));
        assert_eq!(users(&keychain, "registry.example", "else"), named(&["host", "glob"]));
        assert_eq!(users(&keychain, "registry.example:5000", "team/app"), []);
    }

    #[test]
    fn the_clusters_credentials_come_after_the_pods_and_none_is_tried_twice() {
        let pod = Keychain::new([config(&[("a.example", "pod"), ("a.example/app", "both")])]);
        let cluster = Keychain::new([config(&[("a.example/app", "cluster"), ("a.example", "both")])]);
        assert_eq!(users(&pod.or(&cluster), "a.example", "app"), named(&["both", "pod", "cluster"]));
        assert_eq!(users(&Keychain::default().or(&cluster), "a.example", "x"), named(&["both"]));
        assert_eq!(users(&Keychain::default(), "a.example", "x"), []);
    }

    #[test]
    fn docker_hub_falls_back_to_what_docker_login_writes() {
        let hub = config(&[("https://index.docker.io/v1/", "hub")]);
        assert_eq!(users(&Keychain::new([hub.clone()]), "docker.io", "library/app"), named(&["hub"]));
        let own = Keychain::new([hub, config(&[("docker.io/library", "own")])]);
        assert_eq!(users(&own, "docker.io", "library/app"), named(&["own"]));
    }
}
