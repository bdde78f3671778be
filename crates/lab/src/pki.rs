//! The lab's certificates: one CA, one serving pair for everything on 127.0.0.1, a client pair for each user, and the
//! key that signs ServiceAccount tokens. Made anew for each lab, in milliseconds.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::layout::write_private;

/// A certificate and its key, both PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The CA, and the files that the control plane reads.
pub(crate) struct Pki {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// The CA's certificate, PEM.
    pub(crate) ca: String,
}

impl Pki {
    /// Makes the CA, the serving pair and the token key, and writes them to `dir`.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("failed to create {}", dir.display()))?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "podwright-lab");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let ca = params.self_signed(&key)?.pem();
        let pki = Self { dir: dir.to_owned(), issuer: Issuer::new(params, key), ca };
        write_private(&pki.ca_file(), &pki.ca)?;

        let serving = pki.serving()?;
        write_private(&pki.serving_certificate(), &serving.certificate)?;
        write_private(&pki.serving_key(), &serving.key)?;

        let tokens = KeyPair::generate()?;
        write_private(&pki.token_key(), &tokens.serialize_pem())?;
        write_private(&pki.token_public_key(), &tokens.public_key_pem())?;
        Ok(pki)
    }

    /// A client pair for `user`, a member of `group` if one is given.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Result<Pair> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    fn serving(&self) -> Result<Pair> {
        let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut params = CertificateParams::new(names.map(str::to_owned))?;
        params.distinguished_name.push(DnType::CommonName, "podwright-lab serving");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Result<Pair> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Pair { certificate, key: key.serialize_pem() })
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub(crate) fn serving_certificate(&self) -> PathBuf {
        self.dir.join("serving.crt")
    }

    pub(crate) fn serving_key(&self) -> PathBuf {
        self.dir.join("serving.key")
    }

    pub(crate) fn token_key(&self) -> PathBuf {
        self.dir.join("tokens.key")
    }

    pub(crate) fn token_public_key(&self) -> PathBuf {
        self.dir.join("tokens.pub")
    }
}
