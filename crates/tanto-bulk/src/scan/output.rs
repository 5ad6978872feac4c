//! What a directory's scan has printed becomes records. Does not know what they say.

use crate::records;

const NAME: &[u8] = b"PKGNAME=";

/// The records with PKG_LOCATION behind each PKGNAME; an error is a text for the log.
pub(super) fn complete(location: &str, output: &[u8]) -> Result<Vec<u8>, String> {
    let line = [b"PKG_LOCATION=", location.as_bytes(), b"\n"].concat();
    let mut text = Vec::with_capacity(output.len() + 2 * line.len());
    for it in output.split_inclusive(|&byte| byte == b'\n') {
        text.extend_from_slice(it);
        if it.starts_with(NAME) && it.ends_with(b"\n") {
            text.extend_from_slice(&line);
        }
    }
    match records::read(&text) {
        Ok(records) if records.is_empty() => Err("it printed no record".into()),
        Ok(_) => Ok(text),
        Err(bad) => Err(format!("what it printed is no record: line {}: {}", bad.line, bad.why.told())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_gets_its_location() {
        let text = complete("a/b", b"PKGNAME=one-1\nX=\nPKGNAME=two-1\n").unwrap();
        assert_eq!(text, b"PKGNAME=one-1\nPKG_LOCATION=a/b\nX=\nPKGNAME=two-1\nPKG_LOCATION=a/b\n");
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for bad in ["", "warning\nPKGNAME=one-1\n", "PKGNAME=one-1\nX=", "PKGNAME=a b-1\n", "PKGNAME=one-1"] {
            assert!(complete("a/b", bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
