use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use podwright_core::image::Reference;
use thiserror::Error;

/// How registries are asked, and for how long their answers hold.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long the answer about a tag holds for `imagePullPolicy: IfNotPresent`.
    pub if_not_present: Duration,
    /// The same for `Always`. Without it the registry is asked each time whether the tag has moved.
    pub always: Option<Duration>,
    /// How long "there is none", "you may not" and "this is no image" hold.
    pub negative: Duration,
    /// What all that is remembered may take together.
    pub cache_bytes: u64,
    /// How long a lookup goes on, also when nobody waits for it any more.
    pub patience: Duration,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How many requests one host gets at a time.
    pub requests_per_host: usize,
    /// After how many faults in a row a host is left alone.
    pub breaker_failures: u32,
    /// For how long it is then left alone.
    pub breaker_pause: Duration,
    /// What is special about some hosts, by the name that stands in the image's name or in [`HostSettings::mirrors`].
    pub hosts: BTreeMap<String, HostSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            if_not_present: Duration::from_hours(7 * 24),
            always: None,
            negative: Duration::from_secs(10),
            cache_bytes: 16 << 20,
            patience: Duration::from_secs(30),
            request_timeout: Duration::from_secs(8),
            requests_per_host: 8,
            breaker_failures: 5,
            breaker_pause: Duration::from_secs(10),
            hosts: BTreeMap::new(),
        }
    }
}

/// What is special about one host.
#[derive(Debug, Clone, Default)]
pub struct HostSettings {
    /// Who is asked before the registry itself, in turn.
    pub mirrors: Vec<Mirror>,
    /// Plain HTTP. Credentials then travel unencrypted.
    pub insecure: bool,
    /// Certificates (PEM) of authorities that are trusted beside those of the system.
    pub ca: Option<Vec<u8>>,
}

/// A registry that has what another one has: a host, and perhaps a path under which the repositories lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    pub(crate) host: String,
    pub(crate) prefix: Option<String>,
}

/// What is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// A mirror that cannot be one.
    #[error("{0:?} is no mirror: write host, host:port or host:port/path, without a scheme")]
    Mirror(String),
    /// A CA that cannot be read.
    #[error("the CA of {host} cannot be used: {reason}")]
    Ca {
        /// The host whose CA it is.
        host: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There are no authorities to trust.
    #[error("no certificate authorities were found on this system: {0}")]
    System(String),
}

impl FromStr for Mirror {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let wrong = || SettingsError::Mirror(text.to_owned());
        let (host, prefix) = match text.trim_end_matches('/').split_once('/') {
            Some((host, prefix)) => (host, Some(prefix)),
            None => (text.trim_end_matches('/'), None),
        };
        // What can stand before a repository in an image's name can be a mirror: the same letters, the same port. The
        // host may be a bare name, which an image's name would take for a part of the repository.
        let probe = format!(
            "{host}{}/{}",
            if host.contains(':') { "" } else { ":443" },
            prefix.unwrap_or("repository")
        );
        let reference: Reference = probe.parse().map_err(|_| wrong())?;
        if reference.repository() != prefix.unwrap_or("repository") || reference.tag() != Some("latest") {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), prefix: prefix.map(str::to_owned) })
    }
}

impl fmt::Display for Mirror {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.host)?;
        self.prefix.as_ref().map_or(Ok(()), |prefix| write!(formatter, "/{prefix}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_is_a_host_and_perhaps_a_path() {
        for text in
            ["mirror", "mirror.example", "mirror:5000", "10.0.0.1:5000/hub", "harbor.example/proxy/hub"]
        {
            assert_eq!(text.parse::<Mirror>().unwrap().to_string(), text);
        }
        assert_eq!("mirror.example/".parse::<Mirror>().unwrap().to_string(), "mirror.example");
        for text in ["", "https://mirror", "mirror:port", "mirror/UPPER", "mirror/a:b", "a b", "mirror//x"] {
            assert_eq!(text.parse::<Mirror>(), Err(SettingsError::Mirror(text.to_owned())));
        }
    }
}
