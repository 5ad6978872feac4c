//! Scans of package directories by clients.

use serde::{Deserialize, Serialize};

use crate::{ConnectionId, Digest, InstanceId, MessageError, limit, name};

/// Most directories that a client gets at a time.
pub const MAX_BATCH: usize = 256;
/// Longest results of a batch, in bytes.
pub const MAX_SCAN_RESULTS: usize = 64 << 20;
/// Longest path of a file of MAKECONF.
const MAX_PATH: usize = 4_095;

/// Reports the last directories, and asks for others. The answer may take as long as `wait_ms`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScanRequest {
    /// The scan that the description of the build has named.
    pub scan: ConnectionId,
    /// Of this process.
    pub instance: InstanceId,
    /// Counts the requests of the instance. A repeated number gets the same answer.
    pub number: u64,
    /// Directories at a time.
    pub slots: u32,
    pub wait_ms: u64,
    /// The path of the file of MAKECONF, as makefiles see it; empty: there is none.
    #[serde(default)]
    pub makeconf: String,
    /// A blob with the results of the last answer's directories, as `encode_results` makes it.
    #[serde(default)]
    pub results: Option<Digest>,
}

#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScanAnswer {
    /// The directories to scan, as `category/directory`; none: ask again.
    pub directories: Vec<String>,
    /// The records need the settings of packages too (`TANTO_OPTIONS`).
    #[serde(default)]
    pub options: bool,
}

/// The result of a directory that was scanned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScannedDirectory {
    pub location: String,
    pub wall_ms: u64,
    /// The output of `make pbulk-index`.
    pub output: Vec<u8>,
}

impl ScanRequest {
    pub(crate) fn check(&self) -> Result<(), MessageError> {
        limit("makeconf", self.makeconf.len(), MAX_PATH)
    }
}

impl ScanAnswer {
    pub(crate) fn check(&self) -> Result<(), MessageError> {
        limit("directories", self.directories.len(), MAX_BATCH)?;
        self.directories.iter().try_for_each(|directory| name("directories", directory, true))
    }
}

/// Returns the text of results: for each, a line `SIZE MILLISECONDS DIRECTORY`, and then the output of that size.
pub fn encode_results(results: &[ScannedDirectory]) -> Vec<u8> {
    let mut text = Vec::new();
    for ScannedDirectory { location, wall_ms, output } in results {
        text.extend_from_slice(format!("{} {wall_ms} {location}\n", output.len()).as_bytes());
        text.extend_from_slice(output);
    }
    text
}

/// Parses the text of results.
pub fn decode_results(mut text: &[u8]) -> Result<Vec<ScannedDirectory>, MessageError> {
    limit("results", text.len(), MAX_SCAN_RESULTS)?;
    let malformed = || MessageError::Malformed("expected 'SIZE MILLISECONDS DIRECTORY', and an output".to_owned());
    let mut results = Vec::new();
    while !text.is_empty() {
        limit("results", results.len() + 1, MAX_BATCH)?;
        let end = text.iter().position(|&byte| byte == b'\n').ok_or_else(malformed)?;
        let line = std::str::from_utf8(&text[..end]).map_err(|_| malformed())?;
        let mut words = line.splitn(3, ' ');
        let (Some(size), Some(wall_ms), Some(location)) = (words.next(), words.next(), words.next()) else {
            return Err(malformed());
        };
        let (size, wall_ms) = (size.parse::<usize>(), wall_ms.parse());
        let (Ok(size), Ok(wall_ms)) = (size, wall_ms) else { return Err(malformed()) };
        name("directory", location, true)?;
        let output = text[end + 1..].get(..size).ok_or_else(malformed)?;
        results.push(ScannedDirectory { location: location.to_owned(), wall_ms, output: output.to_vec() });
        text = &text[end + 1 + size..];
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(location: &str, output: &[u8]) -> ScannedDirectory {
        ScannedDirectory { location: location.to_owned(), wall_ms: 7, output: output.to_vec() }
    }

    #[test]
    fn results_are_decoded_as_they_were_encoded() {
        let results = [result("a/b", b"PKGNAME=one-1\n\xff\n"), result("a/c", b""), result("d/e-f", b"1 2 a/b\n")];
        let text = encode_results(&results);
        assert_eq!(decode_results(&text).as_deref(), Ok(&results[..]));
        assert_eq!(decode_results(b""), Ok(Vec::new()));
        for end in 1..text.len() {
            assert!(decode_results(&text[..end]).map_or(0, |some| some.len()) < results.len(), "{end}");
        }
    }

    #[test]
    fn malformed_results_are_refused() {
        for bad in [
            "x",
            "1 2\n",
            "2 7 a/b\nx",
            "-1 7 a/b\n",
            "0 x a/b\n",
            "0 7 ../b\n",
            "0 7 /b\n",
            "99999999999999999999 7 a/b\n",
        ] {
            assert!(decode_results(bad.as_bytes()).is_err(), "{bad}");
        }
        let many = encode_results(&vec![result("a/b", b""); MAX_BATCH + 1]);
        assert_eq!(decode_results(&many), Err(MessageError::Limit { field: "results" }));
    }
}
