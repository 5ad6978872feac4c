//! Compares the source files of packages with the lines of +BUILD_VERSION. Each file is read once.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use sha2::{Digest, Sha256};

use crate::package::digest::hex;

/// The size limit of source files, in bytes.
const MAX_BYTES: u64 = 64 << 20;
const IDENT: &[u8] = b"$NetBSD";
/// The digits of a SHA256.
const DIGITS: usize = 64;

/// Source files that were read; `None` for those that cannot be.
pub(super) struct SourceFiles {
    tree: PathBuf,
    files: HashMap<Vec<u8>, Option<SourceFile>, RandomState>,
}

struct SourceFile {
    /// `$NetBSD: ...$` of each line that has one.
    idents: Vec<Vec<u8>>,
    /// The SHA256 in hex; empty if there are idents, which are compared instead.
    digest: String,
}

impl SourceFiles {
    pub fn new(tree: &str) -> SourceFiles {
        SourceFiles { tree: tree.into(), files: HashMap::default() }
    }

    /// Checks a line `FILE: IDENT`, in which a file without idents has its digest instead. The error is the reason why
    /// the package is stale.
    pub fn check(&mut self, line: &[u8]) -> Result<(), String> {
        let line = line.trim_ascii();
        let Some(colon) = memchr::memchr(b':', line) else {
            return if line.is_empty() { Ok(()) } else { Err("its +BUILD_VERSION is malformed".into()) };
        };
        let (file, recorded) = (&line[..colon], line[colon + 1..].trim_ascii());
        let read = || SourceFile::read(&self.tree.join(tanto_sys::fs::file::path(file)));
        let name = || String::from_utf8_lossy(file);
        match self.files.entry_ref(file).or_insert_with(read) {
            None => Err(format!("{} is gone", name())),
            Some(now) if now.matches(recorded) => Ok(()),
            Some(_) => Err(format!("{} has changed", name())),
        }
    }
}

impl SourceFile {
    fn read(path: &Path) -> Option<SourceFile> {
        let content = content(path).ok()?;
        let lines = content.split(|&byte| byte == b'\n');
        let idents: Vec<Vec<u8>> = lines.filter_map(ident).map(<[u8]>::to_vec).collect();
        let digest = if idents.is_empty() { hex(&Sha256::digest(&content)) } else { String::new() };
        Some(SourceFile { idents, digest })
    }

    fn matches(&self, recorded: &[u8]) -> bool {
        match ident(recorded) {
            Some(recorded) => self.idents.iter().any(|it| it == recorded),
            None => recorded.len() == DIGITS && recorded.eq_ignore_ascii_case(self.digest.as_bytes()),
        }
    }
}

/// Reads a regular file up to the limit; a tree may contain a pipe.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let data = std::fs::metadata(path)?;
    if !data.is_file() || data.len() > MAX_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut content = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut content)?;
    Ok(content)
}

/// The last `$NetBSD...$` of a line.
fn ident(line: &[u8]) -> Option<&[u8]> {
    let ends = |at: usize| memchr::memchr(b'$', &line[at + IDENT.len()..]).map(|end| at + IDENT.len() + end + 1);
    memchr::memmem::rfind_iter(line, IDENT).find_map(|at| Some(&line[at..ends(at)?]))
}
