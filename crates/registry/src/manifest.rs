//! What registries hand out, read: an index of images for several platforms, or one image and its configuration.

use podwright_core::image::{Digest, Platform};
use serde::Deserialize;

/// The types that we can read, for the `Accept` header. Schema 1 is not among them: no runtime takes it any more.
pub(crate) const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";

const INDEX_TYPES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
const CONFIG_TYPES: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];
/// What marks the entries that describe other entries: provenance, bills of materials.
const ATTESTATION: &str = "vnd.docker.reference.type";

/// A manifest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Manifest {
    /// Several, each by itself.
    Index(Vec<Child>),
    /// One image, whose configuration says its platform.
    Image { config: Digest },
}

/// What stands in an index.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Child {
    /// An image for a platform.
    Image(Platform),
    /// Another index.
    Index(Digest),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    schema_version: u64,
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    layers: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    #[serde(default)]
    digest: String,
    platform: Option<Described>,
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

/// A platform as images describe it: in an index, and in the configuration of a single image.
#[derive(Deserialize)]
struct Described {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    variant: Option<String>,
    #[serde(rename = "os.version")]
    os_version: Option<String>,
}

impl Described {
    fn platform(&self) -> Option<Platform> {
        let platform = Platform::new(&self.os, &self.architecture, self.variant.as_deref()).ok()?;
        platform.os_version(self.os_version.as_deref()).ok()
    }
}

/// Reads a manifest. What is wrong with it is told to a person.
pub(crate) fn manifest(body: &[u8]) -> Result<Manifest, String> {
    let document: Document = json(body, "manifest")?;
    match document {
        Document { manifests: Some(_), config: Some(_), .. }
        | Document { manifests: Some(_), layers: Some(_), .. } => {
            Err("its manifest is an index and an image at once".to_owned())
        }
        Document { manifests: Some(children), .. } => Ok(Manifest::Index(
            children.into_iter().map(child).filter_map(Result::transpose).collect::<Result<_, _>>()?,
        )),
        Document { config: Some(config), .. } if CONFIG_TYPES.contains(&config.media_type.as_str()) => {
            Ok(Manifest::Image { config: digest(&config.digest)? })
        }
        Document { config: Some(config), .. } => Err(format!(
            "it is no container image: its configuration is of type {:?}",
            shortened(&config.media_type)
        )),
        Document { schema_version: 1, .. } => {
            Err("its manifest is of schema 1, which no runtime pulls any more: push the image again"
                .to_owned())
        }
        _ => Err("its manifest is neither an index nor an image".to_owned()),
    }
}

/// Reads the configuration of a single image.
pub(crate) fn config(body: &[u8]) -> Result<Platform, String> {
    let described: Described = json(body, "image configuration")?;
    described.platform().ok_or_else(|| "its configuration names no platform".to_owned())
}

/// What an entry of an index says; nothing where it says nothing about a platform.
fn child(descriptor: Descriptor) -> Result<Option<Child>, String> {
    if descriptor.annotations.is_some_and(|annotations| annotations.contains_key(ATTESTATION)) {
        return Ok(None);
    }
    if INDEX_TYPES.contains(&descriptor.media_type.as_str()) {
        return Ok(Some(Child::Index(digest(&descriptor.digest)?)));
    }
    Ok(descriptor.platform.and_then(|described| described.platform()).map(Child::Image))
}

/// Whatever the answer is, nothing of it is repeated: a name can lead to a host that is no registry at all.
fn json<'a, T: Deserialize<'a>>(body: &'a [u8], what: &str) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| {
        format!("the registry's answer is no {what} (line {}, column {})", error.line(), error.column())
    })
}

fn digest(text: &str) -> Result<Digest, String> {
    text.parse().map_err(|error| format!("its manifest has a broken digest: {error}"))
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str, reason: &str) {
        let error = manifest(body.as_bytes()).unwrap_err();
        assert!(error.contains(reason), "{body}: {error}");
    }

    #[test]
    fn what_is_not_an_image_is_refused_with_the_reason() {
        refused(r#"{"schemaVersion":1,"fsLayers":[],"architecture":"amd64"}"#, "schema 1");
        refused(r#"{"schemaVersion":2}"#, "neither");
        refused(r#"{"manifests":[],"layers":[]}"#, "at once");
        refused(
            r#"{"config":{"mediaType":"application/vnd.cncf.helm.config.v1+json","digest":"x"}}"#,
            "helm",
        );
        refused(
            r#"{"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"x"}}"#,
            "broken digest",
        );
        refused("<html>", "no manifest");
        assert!(config(b"{}").unwrap_err().contains("no platform"));
        assert!(config(b"[").unwrap_err().contains("no image configuration"));
    }

    #[test]
    fn entries_that_describe_no_platform_are_passed_over() {
        let body = r#"{"manifests":[
            {"digest":"a"},
            {"digest":"b","platform":{"os":"unknown","architecture":"unknown"}},
            {"digest":"c","platform":{"os":"linux","architecture":"amd64"},
             "annotations":{"vnd.docker.reference.type":"attestation-manifest"}},
            {"digest":"d","platform":{"os":"linux","architecture":"bad name"}},
            {"digest":"e","platform":{"os":"linux","architecture":"aarch64","variant":"v8"}},
            {"digest":"f","platform":{"os":"windows","architecture":"amd64","os.version":"10.0.20348.1"}}]}"#;
        let Ok(Manifest::Index(children)) = manifest(body.as_bytes()) else { panic!("not an index") };
        let texts: Vec<_> = children
            .iter()
            .map(|child| match child {
                Child::Image(platform) => platform.to_string(),
                Child::Index(digest) => digest.to_string(),
            })
            .collect();
        assert_eq!(texts, ["linux/arm64", "windows/amd64 (10.0.20348.1)"]);
    }

    proptest::proptest! {
        #[test]
        fn no_answer_of_a_registry_panics(body in ".{0,200}") {
            let _ = manifest(body.as_bytes());
            let _ = config(body.as_bytes());
        }
    }
}
