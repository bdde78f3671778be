use podwright_core::image::{Algorithm, Digest};
use sha2::{Digest as _, Sha256, Sha384, Sha512};

/// Whether these are the bytes that the digest names.
pub(crate) fn matches(digest: &Digest, bytes: &[u8]) -> bool {
    let digits = match digest.algorithm() {
        Algorithm::Sha256 => hexadecimal(&Sha256::digest(bytes)),
        Algorithm::Sha384 => hexadecimal(&Sha384::digest(bytes)),
        Algorithm::Sha512 => hexadecimal(&Sha512::digest(bytes)),
    };
    digits == digest.digits()
}

/// The digest of these bytes, as registries compute it.
pub(crate) fn of(bytes: &[u8]) -> Option<Digest> {
    format!("{}:{}", Algorithm::Sha256, hexadecimal(&Sha256::digest(bytes))).parse().ok()
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_finds_a_changed_byte() {
        let known = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(b"abc").unwrap().as_str(), known);
        let long = "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                    2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";
        let middle = "sha384:cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed\
                      8086072ba1e7cc2358baeca134c825a7";
        for digest in [known, long, middle] {
            let digest = digest.parse().unwrap();
            assert!(matches(&digest, b"abc"));
            assert!(!matches(&digest, b"abd"));
        }
    }
}
