use super::glob;

/// The key of a docker config: a host, perhaps with globs, a port and a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// Host and path without the decoration that docker puts around them. Orders the patterns.
    key: String,
}

/// What `docker login` writes for Docker Hub, once undecorated.
const HUB_KEY: &str = "index.docker.io";
const HUB: &str = "docker.io";

impl Pattern {
    /// Reads a key as written: `registry.example`, `https://registry.example/v1/`, `*.example:5000/team`.
    pub(super) fn new(written: &str) -> Self {
        let bare =
            written.strip_prefix("https://").or_else(|| written.strip_prefix("http://")).unwrap_or(written);
        let (host, path) = bare.split_at(bare.find('/').unwrap_or(bare.len()));
        // A name before an '@' is no part of the host, and may come with a password.
        let host = host.rsplit('@').next().unwrap_or_default();
        // docker writes the version of the API as a path; it means the whole registry.
        let path =
            path.strip_prefix("/v1/").or_else(|| path.strip_prefix("/v2/")).map_or(path, |_| &path[3..]);
        Self { key: format!("{host}{}", if path == "/" { "" } else { path }) }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Whether it is for this repository. Hosts match part by part, so that `*` never spans a dot; ports must be the
    /// same; paths match as prefixes.
    pub(super) fn matches(&self, registry: &str, repository: &str) -> bool {
        let (host, path) = self.key.split_at(self.key.find('/').unwrap_or(self.key.len()));
        let ((pattern, port), (host, wanted_port)) = (split_port(host), split_port(registry));
        let (patterns, parts): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), host.split('.').collect());
        port == wanted_port
            && patterns.len() == parts.len()
            && patterns
                .iter()
                .zip(&parts)
                .all(|(pattern, part)| glob::matches(pattern.as_bytes(), part.as_bytes()))
            && (path.is_empty() || format!("/{repository}").starts_with(path))
    }

    /// Whether it is what Docker Hub falls back to when nothing else matches.
    pub(super) fn is_fallback_for(&self, registry: &str) -> bool {
        registry == HUB && self.key == HUB_KEY
    }
}

/// Host and port. The brackets of an IPv6 address are not those of a glob.
fn split_port(written: &str) -> (&str, Option<&str>) {
    let (host, port) = match written.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (written, None),
    };
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    (address.filter(|address| address.contains(':')).unwrap_or(host), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_match_as_in_the_kubelet() {
        for (key, image, expected) in [
            ("registry.example", "registry.example/app", true),
            ("https://registry.example", "registry.example/app", true),
            ("https://registry.example/v1/", "registry.example/app", true),
            ("https://registry.example/v2/", "registry.example/app", true),
            ("registry.example/", "registry.example/app", true),
            ("https://anna:hunter2@registry.example", "registry.example/app", true),
            ("registry.example/team", "registry.example/team/app", true),
            ("registry.example/team", "registry.example/other/app", false),
            ("registry.example/v1/team", "registry.example/team/app", true),
            ("*.example", "registry.example/app", true),
            ("*.example", "a.registry.example/app", false),
            ("*.*.example", "a.registry.example/app", true),
            ("regis*.example/team", "registry.example/team/app", true),
            ("*", "localhost/app", true),
            ("registry.example:5000", "registry.example:5000/app", true),
            ("registry.example", "registry.example:5000/app", false),
            ("registry.example:5000", "registry.example/app", false),
            ("127.*.*.1:5000", "127.0.0.1:5000/app", true),
            ("[::1]:5000", "[::1]:5000/app", true),
            ("docker.io", "docker.io/library/app", true),
            ("index.docker.io", "docker.io/library/app", false),
        ] {
            let (registry, repository) = image.split_once('/').unwrap();
            assert_eq!(Pattern::new(key).matches(registry, repository), expected, "{key} {image}");
        }
        assert!(Pattern::new("https://index.docker.io/v1/").is_fallback_for("docker.io"));
        assert!(!Pattern::new("https://index.docker.io/v1/").is_fallback_for("quay.io"));
    }
}
