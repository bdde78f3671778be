//! What a template is known by.

mod go_json;
mod go_quantity;
mod types;

use md5::{Digest as _, Md5};
use serde_json::Value;

use go_json::{Form, Writer};

/// What a template is known by: the digest that other programs compare, and one by which we tell whether two templates mean
/// the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    /// The MD5 of the template as the Go controller writes it: the annotation `templatehash`. Fields that the Go controller's
    /// types do not know and therefore lose would leave it unchanged, and with it the pods: they are digested as well.
    pub hash: String,
    /// Equal for two templates if and only if they mean the same: amounts count and not how they are written, and what is
    /// unset is what the definition's defaults make of it.
    pub identity: String,
}

impl Fingerprint {
    /// The fingerprint of a pod template. Its `metadata.name` does not count: no pod gets it.
    #[must_use]
    pub fn of(template: &Value) -> Self {
        Self { hash: digest(template, Form::Go), identity: digest(template, Form::Meaning) }
    }
}

fn digest(template: &Value, form: Form) -> String {
    md5_hex(Writer::write(template, form).as_bytes())
}

/// Lower-case hexadecimal MD5, for those digests that others compute too.
pub(super) fn md5_hex(bytes: &[u8]) -> String {
    format!("{:032x}", digest_number(bytes))
}

/// Some characters out of which Kubernetes makes random suffixes: no vowels, and nothing that looks like another.
pub(super) fn safe_suffix(bytes: &[u8], length: usize) -> String {
    const SAFE: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut number = digest_number(bytes);
    (0..length)
        .map(|_| {
            let at = usize::try_from(number % 27).unwrap_or(0);
            number /= 27;
            char::from(SAFE[at])
        })
        .collect()
}

fn digest_number(bytes: &[u8]) -> u128 {
    u128::from_be_bytes(Md5::digest(bytes).into())
}

#[cfg(test)]
mod tests;
