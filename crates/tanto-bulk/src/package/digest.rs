//! Digests in hexadecimal.

use std::io::{self, Read};

use sha2::{Digest, Sha512};

/// Returns the SHA512 of all bytes of a reader, in hex.
pub fn sha512(from: &mut impl Read) -> io::Result<String> {
    let mut digest = Sha512::new();
    let mut room = vec![0; 1 << 16];
    loop {
        match from.read(&mut room) {
            Ok(0) => return Ok(hex(&digest.finalize())),
            Ok(length) => digest.update(&room[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Lowercase hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_written_in_hex() {
        assert!(sha512(&mut &b"abc"[..]).unwrap().starts_with("ddaf35a193617abacc417349ae204131"));
    }
}
