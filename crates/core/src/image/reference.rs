use std::{fmt, str::FromStr};

use thiserror::Error;

use super::{Digest, DigestError};

/// Where images without a registry in their name come from.
const DEFAULT_REGISTRY: &str = "docker.io";
/// Where the default registry keeps images without an owner.
const OFFICIAL: &str = "library";
/// What is meant where neither tag nor digest is named.
const DEFAULT_TAG: &str = "latest";
const MAX_NAME: usize = 255;
const MAX_TAG: usize = 128;

/// The name of an image, as the container runtime understands it: registry, repository, and a tag, a digest or both.
///
/// It prints in full: `nginx` is `docker.io/library/nginx:latest`. Where there is a digest, it is what counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Why a text names no image.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReferenceError {
    /// Nothing is there.
    #[error("the image has no name")]
    Empty,
    /// An image ID, which no registry knows.
    #[error("this is the ID of an image; name its repository, as in repository@sha256:…")]
    Identifier,
    /// The registry's part cannot be a host.
    #[error("{0:?} is no registry: a host name, with a port after ':' if it needs one, comes first")]
    Registry(String),
    /// The repository has capital letters.
    #[error("{0:?} has capital letters: repositories are lower-case")]
    UpperCase(String),
    /// The repository has something else wrong.
    #[error("{0:?} is no repository: lower-case letters and digits, parted by '/', '.', '_', '__' or '-'")]
    Repository(String),
    /// Registry and repository are too long together.
    #[error("the name is longer than {MAX_NAME} characters")]
    TooLong,
    /// The part after ':' is no tag.
    #[error(
        "{0:?} is no tag: letters, digits, '_', '.' and '-', {MAX_TAG} at most, starting with none of the last two"
    )]
    Tag(String),
    /// The part after '@' is no digest.
    #[error("after '@' comes a digest: {0}")]
    Digest(#[from] DigestError),
}

impl Reference {
    /// The registry's host, with its port if one is named: `docker.io`, `localhost:5000`.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path in the registry: `library/nginx`.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag: `latest` where neither tag nor digest was named, none where there is only a digest.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, which wins over the tag.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// What a registry is asked for: the digest, else the tag.
    #[must_use]
    pub fn identifier(&self) -> &str {
        self.digest.as_ref().map_or_else(|| self.tag.as_deref().unwrap_or(DEFAULT_TAG), Digest::as_str)
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if text.is_empty() {
            return Err(ReferenceError::Empty);
        }
        if text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(ReferenceError::Identifier);
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse()?)),
            None => (text, None),
        };
        let (registry, rest) = split_registry(rest);
        let (path, tag) = match rest.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (rest, None),
        };
        let repository = if registry == DEFAULT_REGISTRY && !path.contains('/') && !path.is_empty() {
            format!("{OFFICIAL}/{path}")
        } else {
            path.to_owned()
        };
        check_registry(registry)?;
        check_repository(path)?;
        if registry.len() + 1 + repository.len() > MAX_NAME {
            return Err(ReferenceError::TooLong);
        }
        if let Some(tag) = tag {
            check_tag(tag)?;
        }
        let tag = tag.or_else(|| digest.is_none().then_some(DEFAULT_TAG)).map(str::to_owned);
        Ok(Self { registry: registry.to_owned(), repository, tag, digest })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(formatter, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(formatter, "@{digest}")?;
        }
        Ok(())
    }
}

/// The first part is a registry only if it looks like a host: a dot, a port, capitals, or `localhost`.
fn split_registry(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some((first, rest)) if is_host(first) => {
            (if first == "index.docker.io" { DEFAULT_REGISTRY } else { first }, rest)
        }
        _ => (DEFAULT_REGISTRY, name),
    }
}

fn is_host(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn check_registry(registry: &str) -> Result<(), ReferenceError> {
    let wrong = || ReferenceError::Registry(registry.to_owned());
    let (host, port) = match registry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            let valid =
                !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
            (valid, port.strip_prefix(':').or_else(|| port.is_empty().then_some("0")))
        }
        None => match registry.split_once(':') {
            Some((host, port)) => (host.split('.').all(is_label), Some(port)),
            None => (registry.split('.').all(is_label), Some("0")),
        },
    };
    let port = port.ok_or_else(wrong)?;
    let numeric = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if host && numeric { Ok(()) } else { Err(wrong()) }
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn check_repository(path: &str) -> Result<(), ReferenceError> {
    if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(ReferenceError::UpperCase(path.to_owned()));
    }
    if path.split('/').all(is_component) { Ok(()) } else { Err(ReferenceError::Repository(path.to_owned())) }
}

/// Letters and digits, with one of `.`, `_`, `__` or any number of `-` between them.
fn is_component(component: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = component.bytes().next().is_some_and(word) && component.bytes().next_back().is_some_and(word);
    ends && component
        .split(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit())
        .all(|between| matches!(between, "" | "." | "_" | "__") || between.bytes().all(|byte| byte == b'-'))
}

fn check_tag(tag: &str) -> Result<(), ReferenceError> {
    let first = tag.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let rest = tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
    if first && rest && tag.len() <= MAX_TAG { Ok(()) } else { Err(ReferenceError::Tag(tag.to_owned())) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn names_are_completed_as_the_runtime_completes_them() {
        let digest = format!("sha256:{HEX}");
        for (short, full) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.27", "docker.io/library/nginx:1.27"),
            ("bitnami/redis", "docker.io/bitnami/redis:latest"),
            ("docker.io/nginx", "docker.io/library/nginx:latest"),
            ("index.docker.io/nginx:1", "docker.io/library/nginx:1"),
            ("ghcr.io/a/b/c:v1", "ghcr.io/a/b/c:v1"),
            ("localhost/app", "localhost/app:latest"),
            ("localhost:5000/app", "localhost:5000/app:latest"),
            ("registry:5000/app:v1", "registry:5000/app:v1"),
            ("REGISTRY/app", "REGISTRY/app:latest"),
            ("[::1]:5000/app", "[::1]:5000/app:latest"),
            ("[fe80::1]/app", "[fe80::1]/app:latest"),
            ("a__b/c-d--e.f_g", "docker.io/a__b/c-d--e.f_g:latest"),
        ] {
            assert_eq!(short.parse::<Reference>().unwrap().to_string(), full, "{short}");
            for suffix in ["", ":v2"] {
                let name = full.rsplit_once(':').unwrap().0;
                let text = format!("{name}{suffix}@{digest}");
                let reference: Reference = text.parse().unwrap();
                assert_eq!(reference.to_string(), text);
                assert_eq!(reference.identifier(), digest);
            }
        }
    }

    #[test]
    fn what_names_no_image_is_refused_with_the_reason() {
        use ReferenceError as E;
        for (text, expected) in [
            ("", E::Empty),
            (HEX, E::Identifier),
            ("App", E::UpperCase("App".into())),
            ("ghcr.io/Owner/app", E::UpperCase("Owner/app".into())),
            ("a//b", E::Repository("a//b".into())),
            ("a/b/", E::Repository("a/b/".into())),
            ("a...b", E::Repository("a...b".into())),
            ("-a", E::Repository("-a".into())),
            ("ghcr.io/", E::Repository(String::new())),
            ("a b", E::Repository("a b".into())),
            ("app:", E::Tag(String::new())),
            ("app:-1", E::Tag("-1".into())),
            ("app:a:b", E::Tag("a:b".into())),
            ("host:port/app", E::Registry("host:port".into())),
            ("host:99999/app", E::Registry("host:99999".into())),
            ("-host.io/app", E::Registry("-host.io".into())),
            ("app@sha1:00", E::Digest(DigestError::Algorithm)),
            ("app@", E::Digest(DigestError::Algorithm)),
            ("app@sha256:00", E::Digest("sha256:00".parse::<Digest>().unwrap_err())),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap_err(), expected, "{text}");
        }
        assert_eq!(format!("ghcr.io/{}", "a".repeat(255)).parse::<Reference>(), Err(E::TooLong));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_a_full_name_reads_as_itself(text in "\\PC{0,40}|[a-zA-Z0-9./:@_-]{0,60}") {
            if let Ok(reference) = text.parse::<Reference>() {
                prop_assert_eq!(reference.to_string().parse::<Reference>().unwrap(), reference);
            }
        }
    }
}
