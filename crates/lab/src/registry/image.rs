use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{
    Method, Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, LOCATION},
};
use http_body_util::Full;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::LocalRegistry;
use super::http::{HttpClient, ask, client};

/// An image to be made: `image("app").platforms(["linux/amd64"])`. It has no layers; nobody runs it.
#[must_use]
pub fn image(repository: &str) -> ImageBuilder {
    ImageBuilder {
        repository: repository.to_owned(),
        tag: "latest".to_owned(),
        platforms: vec!["linux/amd64".to_owned()],
        docker: false,
        shape: Shape::Index,
        attested: false,
        unnamed: false,
        revision: String::new(),
    }
}

/// See [`image`].
#[derive(Debug, Clone)]
pub struct ImageBuilder {
    repository: String,
    tag: String,
    platforms: Vec<String>,
    docker: bool,
    shape: Shape,
    attested: bool,
    unnamed: bool,
    revision: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Index,
    Single,
    Nested(usize),
}

/// An image in a registry.
#[derive(Debug, Clone)]
pub struct Pushed {
    /// Host and port of the registry.
    pub registry: String,
    /// The repository in it.
    pub repository: String,
    /// The tag.
    pub tag: String,
    /// The digest of what the tag means.
    pub digest: String,
}

impl ImageBuilder {
    /// The platforms that it is for, as `os/architecture` or `os/architecture/variant`.
    #[must_use]
    pub fn platforms<'a>(mut self, platforms: impl IntoIterator<Item = &'a str>) -> Self {
        self.platforms = platforms.into_iter().map(str::to_owned).collect();
        self
    }

    /// One manifest for one platform, without an index.
    #[must_use]
    pub fn single(mut self, platform: &str) -> Self {
        self.shape = Shape::Single;
        self.platforms = vec![platform.to_owned()];
        self
    }

    /// An index that lies so deep in other indexes.
    #[must_use]
    pub fn nested(mut self, depth: usize) -> Self {
        self.shape = Shape::Nested(depth);
        self
    }

    /// Docker's media types (a manifest list, v2 manifests) instead of OCI's.
    #[must_use]
    pub fn docker(mut self) -> Self {
        self.docker = true;
        self
    }

    /// With a build attestation beside each image.
    #[must_use]
    pub fn attested(mut self) -> Self {
        self.attested = true;
        self
    }

    /// An index (or configuration) that does not say which platforms its images are for.
    #[must_use]
    pub fn unnamed(mut self) -> Self {
        self.unnamed = true;
        self
    }

    /// The tag; `latest` without this.
    #[must_use]
    pub fn tag(mut self, tag: &str) -> Self {
        tag.clone_into(&mut self.tag);
        self
    }

    /// Something that makes its digest another one.
    #[must_use]
    pub fn revision(mut self, revision: &str) -> Self {
        revision.clone_into(&mut self.revision);
        self
    }

    /// Makes it and pushes it.
    pub async fn push(&self, registry: &LocalRegistry) -> Result<Pushed> {
        let repository = self.repository.clone();
        let authorization = registry.authorization(&repository)?;
        let base = format!("http://{}", registry.address());
        let push = Push { base, repository, authorization, client: client() };
        let mut children = Vec::new();
        for platform in &self.platforms {
            let child = self.manifest(&push, platform, false).await?;
            children.push(child);
            if self.attested {
                children.push(self.manifest(&push, platform, true).await?);
            }
        }
        let digest = match (self.shape, &children[..]) {
            (Shape::Single, [(body, media_type, _), ..]) => {
                push.manifest(&self.tag, body, media_type).await?
            }
            _ => self.index(&push, children).await?,
        };
        let (registry, repository) = (registry.address(), self.repository.clone());
        Ok(Pushed { registry, repository, tag: self.tag.clone(), digest })
    }

    /// One image: its manifest, the manifest's type, and its entry for an index.
    async fn manifest(
        &self,
        push: &Push,
        platform: &str,
        attestation: bool,
    ) -> Result<(Vec<u8>, &'static str, Value)> {
        let (manifest_type, config_type) = if self.docker {
            (
                "application/vnd.docker.distribution.manifest.v2+json",
                "application/vnd.docker.container.image.v1+json",
            )
        } else {
            ("application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.config.v1+json")
        };
        let described = if attestation { described("unknown/unknown") } else { described(platform) };
        let mut config = json!({"rootfs": {"type": "layers", "diff_ids": []}, "config": {"Labels": {
            "image": self.repository, "tag": self.tag, "revision": self.revision, "for": platform,
        }}});
        if !self.unnamed {
            merge(&mut config, &described);
        }
        let config = config.to_string().into_bytes();
        let config_digest = push.blob(&config).await?;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": manifest_type, "layers": [],
            "config": {"mediaType": config_type, "digest": config_digest, "size": config.len()},
        });
        let manifest = manifest.to_string().into_bytes();
        let digest = push.manifest(&digest_of(&manifest), &manifest, manifest_type).await?;
        let mut entry = json!({"mediaType": manifest_type, "digest": digest, "size": manifest.len()});
        if !self.unnamed {
            entry["platform"] = described;
        }
        if attestation {
            entry["annotations"] = json!({"vnd.docker.reference.type": "attestation-manifest"});
        }
        Ok((manifest, manifest_type, entry))
    }

    async fn index(&self, push: &Push, children: Vec<(Vec<u8>, &'static str, Value)>) -> Result<String> {
        let index_type = if self.docker {
            "application/vnd.docker.distribution.manifest.list.v2+json"
        } else {
            "application/vnd.oci.image.index.v1+json"
        };
        let mut entries: Vec<Value> = children.into_iter().map(|(_, _, entry)| entry).collect();
        let depth = if let Shape::Nested(depth) = self.shape { depth } else { 0 };
        for _ in 0..depth {
            let inner =
                json!({"schemaVersion": 2, "mediaType": index_type, "manifests": entries}).to_string();
            let digest = push.manifest(&digest_of(inner.as_bytes()), inner.as_bytes(), index_type).await?;
            entries = vec![json!({"mediaType": index_type, "digest": digest, "size": inner.len()})];
        }
        let index = json!({"schemaVersion": 2, "mediaType": index_type, "manifests": entries}).to_string();
        push.manifest(&self.tag, index.as_bytes(), index_type).await
    }
}

impl Pushed {
    /// Its name by tag.
    #[must_use]
    pub fn by_tag(&self) -> String {
        format!("{}/{}:{}", self.registry, self.repository, self.tag)
    }

    /// Its name by digest.
    #[must_use]
    pub fn by_digest(&self) -> String {
        format!("{}/{}@{}", self.registry, self.repository, self.digest)
    }

    /// The same image by another address: a proxy before the registry, a mirror.
    #[must_use]
    pub fn at(&self, registry: &str) -> Self {
        Self { registry: registry.to_owned(), ..self.clone() }
    }
}

/// The distribution API, as far as pushing goes.
struct Push {
    base: String,
    repository: String,
    authorization: Option<String>,
    client: HttpClient,
}

impl Push {
    async fn blob(&self, bytes: &[u8]) -> Result<String> {
        let digest = digest_of(bytes);
        let start = format!("{}/v2/{}/blobs/uploads/", self.base, self.repository);
        let begun =
            self.send(Method::POST, &start, &[], "application/octet-stream", StatusCode::ACCEPTED).await?;
        let location =
            begun.headers().get(LOCATION).and_then(|value| value.to_str().ok()).context("no upload")?;
        let absolute =
            if location.starts_with('/') { format!("{}{location}", self.base) } else { location.to_owned() };
        let separator = if absolute.contains('?') { '&' } else { '?' };
        let target = format!("{absolute}{separator}digest={digest}");
        self.send(Method::PUT, &target, bytes, "application/octet-stream", StatusCode::CREATED).await?;
        Ok(digest)
    }

    async fn manifest(&self, name: &str, bytes: &[u8], media_type: &str) -> Result<String> {
        let target = format!("{}/v2/{}/manifests/{name}", self.base, self.repository);
        self.send(Method::PUT, &target, bytes, media_type, StatusCode::CREATED).await?;
        Ok(digest_of(bytes))
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        body: &[u8],
        media_type: &str,
        expected: StatusCode,
    ) -> Result<http::Response<Bytes>> {
        let mut request = Request::builder().method(&method).uri(url).header(CONTENT_TYPE, media_type);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body)))?;
        let response = ask(&self.client, request).await?;
        let (status, said) = (response.status(), String::from_utf8_lossy(response.body()).into_owned());
        ensure!(status == expected, "{method} {url}: {status} instead of {expected}: {said}");
        Ok(response)
    }
}

fn described(platform: &str) -> Value {
    let mut parts = platform.split('/');
    let (os, architecture) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut described = json!({"os": os, "architecture": architecture});
    if let Some(variant) = parts.next() {
        described["variant"] = json!(variant);
    }
    described
}

fn merge(into: &mut Value, from: &Value) {
    if let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) {
        into.extend(from.clone());
    }
}

fn digest_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
