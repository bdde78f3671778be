use super::Config;

/// An environment variable whose value makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("environment variable {name}={value:?}: {reason}")]
pub struct BadVariable {
    name: &'static str,
    value: String,
    reason: &'static str,
}

impl Config {
    /// Lays the environment over the file: the variables that the replaced projects' users have set.
    ///
    /// `variable` looks one up; an empty value counts as unset, as it does in those projects.
    pub fn with_environment(
        mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, BadVariable> {
        let set = |name: &str| variable(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        if let Some(namespace) = set("POD_NAMESPACE") {
            self.namespace = Some(namespace);
        }
        if let Some(namespaces) = set("WATCH_NAMESPACE") {
            self.watch_namespaces = list("WATCH_NAMESPACE", &namespaces)?;
        }
        if let Some(classes) = set("TARGET_RUNTIMECLASS") {
            self.peer_pods.runtime_classes = list("TARGET_RUNTIMECLASS", &classes)?;
        }
        if let Some(resource) = set("POD_VM_EXTENDED_RESOURCE") {
            self.peer_pods.resource = resource;
        }
        if let Some(mode) = set("EDS_VALIDATION_MODE") {
            self.rollout.validation_mode = mode.parse().map_err(|reason| BadVariable {
                name: "EDS_VALIDATION_MODE",
                value: mode,
                reason,
            })?;
        }
        if let Some(version) = set("TLS_MIN_VERSION") {
            self.tls.min_version = version;
        }
        if let Some(suites) = set("TLS_CIPHER_SUITES") {
            self.tls.cipher_suites = suites;
        }
        Ok(self)
    }
}

fn list(name: &'static str, value: &str) -> Result<Vec<String>, BadVariable> {
    let items: Vec<String> =
        value.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect();
    if items.is_empty() {
        return Err(BadVariable {
            name,
            value: value.to_owned(),
            reason: "names nothing; give at least one, or unset it",
        });
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replaced_projects_variables_win_over_the_file() {
        let config = Config::default()
            .with_environment(|name| match name {
                "TARGET_RUNTIMECLASS" => Some("kata-remote, kata-wh-test".to_owned()),
                "POD_VM_EXTENDED_RESOURCE" => Some("example.com/vm".to_owned()),
                "TLS_MIN_VERSION" => Some(" VersionTLS13 ".to_owned()),
                "WATCH_NAMESPACE" => Some("a,b".to_owned()),
                "EDS_VALIDATION_MODE" => Some("manual".to_owned()),
                _ => None,
            })
            .unwrap();
        assert_eq!(config.peer_pods.runtime_classes, ["kata-remote", "kata-wh-test"]);
        assert_eq!(config.peer_pods.resource, "example.com/vm");
        assert_eq!(config.tls.min_version, "VersionTLS13");
        assert_eq!(config.watch_namespaces, ["a", "b"]);
        assert_eq!(config.rollout.validation_mode, crate::config::ValidationMode::Manual);
    }

    #[test]
    fn an_empty_variable_counts_as_unset_and_an_empty_list_is_refused() {
        let config = Config::default().with_environment(|_| Some("  ".to_owned())).unwrap();
        assert_eq!(config, Config::default());
        let error = Config::default()
            .with_environment(|name| (name == "TARGET_RUNTIMECLASS").then(|| " , ".to_owned()))
            .unwrap_err();
        assert!(error.to_string().contains("TARGET_RUNTIMECLASS"), "{error}");
    }

    #[test]
    fn a_mode_that_does_not_exist_is_refused_with_those_that_do() {
        let error = Config::default()
            .with_environment(|name| (name == "EDS_VALIDATION_MODE").then(|| "automatic".to_owned()))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"environment variable EDS_VALIDATION_MODE="automatic": must be auto or manual"#
        );
    }
}
