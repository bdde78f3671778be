use std::{collections::BTreeMap, fmt};

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::Deserialize;
use thiserror::Error;

use super::{Credential, pattern::Pattern};

/// Both ways of writing base64 are found in the wild.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The credentials of one secret. Prints its hosts, never its secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct DockerConfig {
    pub(super) entries: Vec<(Pattern, Credential)>,
}

/// Why a secret cannot be used. The text never holds anything of the secret but names of hosts.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DockerConfigError {
    /// Not JSON, or not of the right shape.
    #[error("it is not a docker config: something is wrong at line {line}, column {column}")]
    Json {
        /// Where.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// `auth` is not the base64 of `user:password`.
    #[error("auth of {host} is not the base64 of user:password")]
    Auth {
        /// The key of the entry.
        host: String,
    },
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    auths: Option<BTreeMap<String, Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    auth: Option<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default)]
    identitytoken: Option<String>,
}

impl DockerConfig {
    /// Reads `.dockerconfigjson` of a `kubernetes.io/dockerconfigjson` secret.
    pub fn from_dockerconfigjson(bytes: &[u8]) -> Result<Self, DockerConfigError> {
        Self::new(json::<File>(bytes)?.auths.unwrap_or_default())
    }

    /// Reads `.dockercfg` of a `kubernetes.io/dockercfg` secret.
    pub fn from_dockercfg(bytes: &[u8]) -> Result<Self, DockerConfigError> {
        Self::new(json(bytes)?)
    }

    fn new(written: BTreeMap<String, Entry>) -> Result<Self, DockerConfigError> {
        let mut entries = Vec::with_capacity(written.len());
        for (host, entry) in written {
            let pattern = Pattern::new(&host);
            if let Some(credential) = entry.credential(pattern.key())? {
                entries.push((pattern, credential));
            }
        }
        Ok(Self { entries })
    }
}

impl Entry {
    /// What the entry gives; nothing where the secret itself is kept elsewhere (`credsStore`).
    fn credential(self, host: &str) -> Result<Option<Credential>, DockerConfigError> {
        let given = |field: Option<String>| field.filter(|field| !field.is_empty());
        if let Some(token) = given(self.identitytoken) {
            return Ok(Some(Credential::identity_token(&token)));
        }
        if let Some(auth) = given(self.auth) {
            let wrong = || DockerConfigError::Auth { host: host.to_owned() };
            let decoded = LENIENT.decode(auth.trim()).map_err(|_| wrong())?;
            let decoded = String::from_utf8(decoded).map_err(|_| wrong())?;
            let (username, password) = decoded.split_once(':').ok_or_else(wrong)?;
            return Ok(Some(Credential::password(username, password.trim_end_matches('\0'))));
        }
        let (username, password) = (given(self.username), given(self.password));
        Ok(username.zip(password).map(|(username, password)| Credential::password(&username, &password)))
    }
}

/// The parser's own words may quote what it read, so only the place is told.
fn json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DockerConfigError> {
    serde_json::from_slice(bytes)
        .map_err(|error| DockerConfigError::Json { line: error.line(), column: error.column() })
}

impl fmt::Debug for DockerConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.entries.iter().map(|(pattern, _)| pattern.key())).finish()
    }
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};

    use super::*;

    #[test]
    fn both_types_of_secret_and_every_way_of_writing_a_credential_are_read() {
        let padded = BASE64_STANDARD.encode("anna:s:3cret");
        let bare = BASE64_STANDARD_NO_PAD.encode("anna:s:3cret");
        let expected = Credential::password("anna", "s:3cret");
        for entry in [
            format!(r#"{{"auth":"{padded}"}}"#),
            format!(r#"{{"auth":"{bare}","email":"anna@example"}}"#),
            r#"{"username":"anna","password":"s:3cret"}"#.to_owned(),
            format!(r#"{{"username":"old","password":"old","auth":"{padded}"}}"#),
        ] {
            let config = format!(r#"{{"auths":{{"registry.example":{entry}}},"credsStore":"x"}}"#);
            let dockercfg = format!(r#"{{"registry.example":{entry}}}"#);
            for read in [
                DockerConfig::from_dockerconfigjson(config.as_bytes()).unwrap(),
                DockerConfig::from_dockercfg(dockercfg.as_bytes()).unwrap(),
            ] {
                assert_eq!(read.entries, [(Pattern::new("registry.example"), expected.clone())]);
            }
        }
        let token =
            DockerConfig::from_dockercfg(br#"{"r.example":{"auth":"","identitytoken":"t"}}"#).unwrap();
        assert_eq!(token.entries[0].1, Credential::identity_token("t"));
        assert_eq!(
            DockerConfig::from_dockerconfigjson(br#"{"auths":{"r.example":{}}}"#).unwrap().entries,
            []
        );
        assert_eq!(DockerConfig::from_dockerconfigjson(b"{}").unwrap().entries, []);
    }

    #[test]
    fn nothing_of_a_secret_is_ever_printed() {
        let good = DockerConfig::from_dockercfg(br#"{"r.example":{"username":"anna","password":"hunter2"}}"#)
            .unwrap();
        assert_eq!(format!("{good:?}"), r#"{"r.example"}"#);
        assert_eq!(format!("{:?}", good.entries[0].1), "Credential(…)");
        for broken in [
            &br#"{"r.example":{"auth":"hunter2!"}}"#[..],
            br#"{"https://anna:hunter2@r.example":{"auth":"!"}}"#,
            br#"{"r.example":{"auth":"aHVudGVyMg=="}}"#,
            br#"{"r.example":"hunter2"}"#,
            br#"{"r.example":{"password":["hunter2"]}}"#,
            b"hunter2",
        ] {
            let error = DockerConfig::from_dockercfg(broken).unwrap_err();
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(!text.contains("unter2") && !text.contains("aHVu"), "{text}");
            }
        }
    }
}
