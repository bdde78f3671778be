use std::{fmt, str::FromStr};

use thiserror::Error;

/// What an image can run on, in the spelling that Kubernetes uses for nodes (`amd64`, not `x86_64`).
///
/// The variant is left out where it says nothing: `arm64` is always v8, `amd64` is v1 unless it says more. `arm` without
/// one is v7, as the container runtimes have it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Platform {
    os: String,
    architecture: String,
    variant: Option<String>,
    os_version: Option<String>,
}

/// Why something is no platform.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlatformError {
    /// An empty architecture, or `unknown`, as build attestations have it.
    #[error("no architecture is named")]
    Unknown,
    /// Something that cannot be a label's value, and so can match no node.
    #[error("{0:?} is not a name that a node could have: letters, digits, '.', '_' and '-', 63 at most")]
    Name(String),
    /// Not `os/architecture` or `os/architecture/variant`.
    #[error("{0:?} is no platform: write it as linux/amd64 or linux/arm/v7")]
    Shape(String),
}

impl Platform {
    /// The platform of these parts, normalised. An empty `os` is Linux.
    pub fn new(os: &str, architecture: &str, variant: Option<&str>) -> Result<Self, PlatformError> {
        let os = match lower(os)?.as_str() {
            "" => "linux".to_owned(),
            "macos" => "darwin".to_owned(),
            other => other.to_owned(),
        };
        let variant = lower(variant.unwrap_or_default())?;
        let (architecture, variant) = normalise(&lower(architecture)?, &variant);
        if matches!(architecture.as_str(), "" | "unknown") || os == "unknown" {
            return Err(PlatformError::Unknown);
        }
        Ok(Self {
            os,
            architecture,
            variant: Some(variant).filter(|variant| !variant.is_empty()),
            os_version: None,
        })
    }

    /// The same for one version of the operating system, as Windows images have it (`10.0.20348.169`).
    pub fn os_version(mut self, version: Option<&str>) -> Result<Self, PlatformError> {
        let version = version.unwrap_or_default();
        named(version)?;
        self.os_version = Some(version.to_owned()).filter(|version| !version.is_empty());
        Ok(self)
    }

    /// The operating system, as in the label `kubernetes.io/os`.
    #[must_use]
    pub fn os(&self) -> &str {
        &self.os
    }

    /// The architecture, as in the label `kubernetes.io/arch`.
    #[must_use]
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// The variant (`v7`), where the architecture alone does not say it all.
    #[must_use]
    pub fn variant(&self) -> Option<&str> {
        self.variant.as_deref()
    }

    /// The version of the operating system that the image was built for.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.os_version.as_deref()
    }
}

/// As in `linux/arm/v7`, with the version of the operating system behind it where there is one.
impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.os, self.architecture)?;
        if let Some(variant) = &self.variant {
            write!(formatter, "/{variant}")?;
        }
        if let Some(version) = &self.os_version {
            write!(formatter, " ({version})")?;
        }
        Ok(())
    }
}

impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Self, PlatformError> {
        match text.split('/').collect::<Vec<_>>()[..] {
            [os, architecture] if !os.is_empty() => Self::new(os, architecture, None),
            [os, architecture, variant] if !os.is_empty() => Self::new(os, architecture, Some(variant)),
            _ => Err(PlatformError::Shape(text.to_owned())),
        }
    }
}

fn normalise(architecture: &str, variant: &str) -> (String, String) {
    let (architecture, variant) = match (architecture, variant) {
        ("x86_64" | "x86-64" | "amd64", variant) => ("amd64", if variant == "v1" { "" } else { variant }),
        ("aarch64" | "arm64", variant) => {
            ("arm64", if matches!(variant, "8" | "v8" | "v8.0") { "" } else { variant })
        }
        ("i386" | "i486" | "i586" | "i686", variant) => ("386", variant),
        ("armhf", _) | ("arm", "" | "7") => ("arm", "v7"),
        ("armel", _) | ("arm", "6") => ("arm", "v6"),
        ("arm", "5") => ("arm", "v5"),
        ("arm", "8") => ("arm", "v8"),
        ("ppc64el", variant) => ("ppc64le", variant),
        other => other,
    };
    (architecture.to_owned(), variant.to_owned())
}

fn lower(name: &str) -> Result<String, PlatformError> {
    named(name)?;
    Ok(name.to_ascii_lowercase())
}

fn named(name: &str) -> Result<(), PlatformError> {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if letters && name.len() <= 63 {
        Ok(())
    } else {
        Err(PlatformError::Name(name.chars().take(63).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_platform_is_the_same_platform() {
        for (spelling, expected) in [
            ("linux/amd64", "linux/amd64"),
            ("Linux/x86_64", "linux/amd64"),
            ("linux/x86-64/v1", "linux/amd64"),
            ("linux/amd64/v3", "linux/amd64/v3"),
            ("linux/aarch64", "linux/arm64"),
            ("linux/arm64/v8", "linux/arm64"),
            ("linux/arm64/8", "linux/arm64"),
            ("linux/arm", "linux/arm/v7"),
            ("linux/arm/7", "linux/arm/v7"),
            ("linux/armhf", "linux/arm/v7"),
            ("linux/armel", "linux/arm/v6"),
            ("linux/arm/v5", "linux/arm/v5"),
            ("linux/i386", "linux/386"),
            ("linux/ppc64le", "linux/ppc64le"),
            ("windows/amd64", "windows/amd64"),
            ("macos/arm64", "darwin/arm64"),
        ] {
            assert_eq!(spelling.parse::<Platform>().unwrap().to_string(), expected, "{spelling}");
        }
    }

    #[test]
    fn an_operating_system_that_is_not_named_is_linux_but_no_architecture_is_ever_assumed() {
        assert_eq!(Platform::new("", "arm64", None).unwrap().to_string(), "linux/arm64");
        assert_eq!(Platform::new("linux", "", None), Err(PlatformError::Unknown));
        assert_eq!(Platform::new("unknown", "unknown", None), Err(PlatformError::Unknown));
        assert_eq!(Platform::new("unknown", "amd64", None), Err(PlatformError::Unknown));
    }

    #[test]
    fn what_no_node_can_be_called_is_no_platform() {
        assert!(matches!(Platform::new("linux", "a b", None), Err(PlatformError::Name(_))));
        assert!(matches!(Platform::new("linux", &"a".repeat(64), None), Err(PlatformError::Name(_))));
        assert!(matches!("linux".parse::<Platform>(), Err(PlatformError::Shape(_))));
        assert!(matches!("linux/a/b/c".parse::<Platform>(), Err(PlatformError::Shape(_))));
        assert!(matches!("/amd64".parse::<Platform>(), Err(PlatformError::Shape(_))));
    }

    #[test]
    fn a_windows_image_says_for_which_build_it_is() {
        let platform =
            Platform::new("windows", "amd64", None).unwrap().os_version(Some("10.0.20348.169")).unwrap();
        assert_eq!(platform.version(), Some("10.0.20348.169"));
        assert_eq!(platform.to_string(), "windows/amd64 (10.0.20348.169)");
    }
}
