//! The files that packages were made from: whether they are as a package's +BUILD_VERSION says. A file is read once. Does
//! not know which package asks.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use sha2::{Digest, Sha256};

/// So much of a file is read; more is no file that somebody wrote for a package.
const LONGEST: u64 = 64 << 20;
const IDENT: &[u8] = b"$NetBSD";
/// The digits of a SHA256.
const DIGITS: usize = 64;

/// Those that were asked for.
pub(super) struct Files {
    tree: PathBuf,
    seen: HashMap<Vec<u8>, Option<Seen>, RandomState>,
}

/// What was read.
struct Seen {
    /// `$NetBSD: ...$`, one for each line that has one.
    idents: Vec<Vec<u8>>,
    /// Of all that it holds, in hex.
    digest: Vec<u8>,
}

impl Files {
    pub fn new(tree: &str) -> Files {
        Files { tree: tree.into(), seen: HashMap::default() }
    }

    /// Whether a line `FILE: IDENT` still holds; if not, why. The ident is what stands in the file, or its digest where
    /// nothing of the kind does.
    pub fn hold(&mut self, line: &[u8]) -> Result<(), String> {
        let line = line.trim_ascii();
        let Some(colon) = memchr::memchr(b':', line) else {
            return if line.is_empty() { Ok(()) } else { Err("its +BUILD_VERSION makes no sense".into()) };
        };
        let (file, recorded) = (&line[..colon], line[colon + 1..].trim_ascii());
        let seen =
            self.seen.entry_ref(file).or_insert_with(|| Seen::read(&self.tree.join(tanto_sys::fs::file::path(file))));
        let name = || String::from_utf8_lossy(file);
        match seen {
            None => Err(format!("{} is gone", name())),
            Some(seen) if seen.is(recorded) => Ok(()),
            Some(_) => Err(format!("{} has changed", name())),
        }
    }
}

impl Seen {
    fn read(path: &Path) -> Option<Seen> {
        let content = content(path).ok()?;
        let lines = content.split(|&byte| byte == b'\n');
        let idents: Vec<Vec<u8>> = lines.filter_map(ident).map(<[u8]>::to_vec).collect();
        // A file that has idents is never told by its digest.
        let digest = if idents.is_empty() { hex(&Sha256::digest(&content)) } else { Vec::new() };
        Some(Seen { idents, digest })
    }

    fn is(&self, recorded: &[u8]) -> bool {
        match ident(recorded) {
            Some(recorded) => self.idents.iter().any(|it| it == recorded),
            None => recorded.len() == DIGITS && recorded.eq_ignore_ascii_case(&self.digest),
        }
    }
}

/// No more than there can be, and nothing but files: what lies in a tree may be a pipe.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let data = std::fs::metadata(path)?;
    if !data.is_file() || data.len() > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut content = Vec::new();
    File::open(path)?.take(LONGEST).read_to_end(&mut content)?;
    Ok(content)
}

/// The last `$NetBSD...$` of a line.
fn ident(line: &[u8]) -> Option<&[u8]> {
    let ends = |at: usize| memchr::memchr(b'$', &line[at + IDENT.len()..]).map(|end| at + IDENT.len() + end + 1);
    memchr::memmem::rfind_iter(line, IDENT).find_map(|at| Some(&line[at..ends(at)?]))
}

fn hex(digest: &[u8]) -> Vec<u8> {
    digest.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}
