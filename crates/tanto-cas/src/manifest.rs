//! The manifest of a directory tree: one line for each file, symbolic link and empty directory.
//!
//! A line is `MODE DIGEST SIZE PATH`. The mode is `f` (a file), `x` (an executable file), `l` (a symbolic link, whose
//! target is the blob) or `d` (an empty directory, with the digest of no bytes). In paths, a newline is written `\n` and
//! a backslash `\\`. Lines are sorted by path, with `/` before all other bytes. A tree has exactly one manifest, so that
//! the digest of the manifest identifies the tree.

use std::cmp::Ordering;

use crate::{BlobInfo, Digest};

/// Longest path, in bytes.
pub const MAX_PATH: usize = 4_095;
/// Longest component of a path, in bytes.
const MAX_NAME: usize = 255;
/// Longest target of a symbolic link, in bytes.
pub const MAX_TARGET: u64 = 4_095;

/// The limits of a manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ManifestLimits {
    /// Length of the text, in bytes.
    pub text_bytes: usize,
    pub entries: usize,
    /// Size of all files, in bytes.
    pub total_bytes: u64,
}

impl Default for ManifestLimits {
    fn default() -> ManifestLimits {
        ManifestLimits { text_bytes: 512 << 20, entries: 2_000_000, total_bytes: 1 << 40 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeMode {
    File,
    Executable,
    Symlink,
    /// Directories with entries have no line.
    EmptyDir,
}

impl TreeMode {
    const ALL: [(TreeMode, u8); 4] =
        [(TreeMode::File, b'f'), (TreeMode::Executable, b'x'), (TreeMode::Symlink, b'l'), (TreeMode::EmptyDir, b'd')];

    fn letter(self) -> u8 {
        TreeMode::ALL.iter().find(|(mode, _)| *mode == self).map_or(b'?', |(_, letter)| *letter)
    }

    fn parse(text: &[u8]) -> Option<TreeMode> {
        TreeMode::ALL.iter().find(|(_, letter)| [*letter] == text).map(|(mode, _)| *mode)
    }

    /// Whether it is a file, executable or not.
    pub fn is_file(self) -> bool {
        matches!(self, TreeMode::File | TreeMode::Executable)
    }
}

/// A line of a manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeEntry {
    pub mode: TreeMode,
    pub digest: Digest,
    /// Of the file or of the target, in bytes.
    pub size: u64,
    /// Below the top of the tree.
    pub path: Vec<u8>,
}

impl TreeEntry {
    /// An empty directory.
    pub fn empty_dir(path: Vec<u8>) -> TreeEntry {
        TreeEntry { mode: TreeMode::EmptyDir, digest: Digest::of(b""), size: 0, path }
    }

    /// The blob with the content.
    pub fn blob(&self) -> BlobInfo {
        BlobInfo { digest: self.digest, size: self.size }
    }
}

/// Why a manifest is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("the manifest is longer than {0} bytes")]
    TextTooLong(usize),
    #[error("the manifest has more than {0} entries")]
    TooManyEntries(usize),
    #[error("the tree is larger than {0} bytes")]
    TooLarge(u64),
    #[error("line {line} of the manifest: {problem}")]
    Line { line: usize, problem: LineProblem },
}

/// Why a line of a manifest is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LineProblem {
    #[error("not of the form 'MODE DIGEST SIZE PATH'")]
    Form,
    #[error("unknown mode")]
    Mode,
    #[error("not a digest")]
    Digest,
    #[error("not a size")]
    Size,
    #[error("the path is empty, absolute, too long, or has a component '..', '.' or ''")]
    Path,
    #[error("the path is not after the one before")]
    Order,
    #[error("the path leads through a file, a symbolic link or an empty directory")]
    Below,
}

/// The entries of a tree, sorted by path.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Manifest {
    entries: Vec<TreeEntry>,
    total_bytes: u64,
}

impl Manifest {
    /// Sorts and checks entries. Errors have the line that an entry would have.
    pub fn new(mut entries: Vec<TreeEntry>, limits: &ManifestLimits) -> Result<Manifest, ManifestError> {
        entries.sort_unstable_by(|a, b| path_order(&a.path, &b.path));
        let mut manifest = Manifest::default();
        entries.into_iter().try_for_each(|entry| manifest.push(entry, limits))?;
        Ok(manifest)
    }

    /// Parses the text of a manifest. Refuses everything that `text` does not write.
    pub fn parse(text: &[u8], limits: &ManifestLimits) -> Result<Manifest, ManifestError> {
        if text.len() > limits.text_bytes {
            return Err(ManifestError::TextTooLong(limits.text_bytes));
        }
        let mut manifest = Manifest::default();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let number = manifest.entries.len() + 1;
            let entry = parse_line(line).map_err(|problem| ManifestError::Line { line: number, problem })?;
            manifest.push(entry, limits)?;
        }
        Ok(manifest)
    }

    fn push(&mut self, entry: TreeEntry, limits: &ManifestLimits) -> Result<(), ManifestError> {
        let line = self.entries.len() + 1;
        check(self.entries.last(), &entry).map_err(|problem| ManifestError::Line { line, problem })?;
        if line > limits.entries {
            return Err(ManifestError::TooManyEntries(limits.entries));
        }
        self.total_bytes = self.total_bytes.saturating_add(entry.size);
        if self.total_bytes > limits.total_bytes {
            return Err(ManifestError::TooLarge(limits.total_bytes));
        }
        self.entries.push(entry);
        Ok(())
    }

    pub fn entries(&self) -> &[TreeEntry] {
        &self.entries
    }

    /// Size of all files, in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The blobs with the contents. A blob appears as often as it occurs in the tree.
    pub fn blobs(&self) -> impl Iterator<Item = BlobInfo> + '_ {
        self.entries.iter().filter(|entry| entry.mode != TreeMode::EmptyDir).map(TreeEntry::blob)
    }

    /// The entries that another manifest has too.
    pub fn in_common<'a>(&'a self, other: &'a Manifest) -> impl Iterator<Item = &'a TreeEntry> {
        let mut others = other.entries.iter().peekable();
        self.entries.iter().filter(move |entry| {
            while others.next_if(|it| path_order(&it.path, &entry.path) == Ordering::Less).is_some() {}
            others.peek() == Some(entry)
        })
    }

    /// The text: the blob that represents the tree.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.entries.len() * 112);
        for entry in &self.entries {
            text.push(entry.mode.letter());
            text.extend_from_slice(format!(" {} {} ", entry.digest, entry.size).as_bytes());
            escape(&entry.path, &mut text);
            text.push(b'\n');
        }
        text
    }

    /// The digest of the text.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.text())
    }
}

/// The order of paths in a manifest: everything below a directory follows it directly.
pub fn path_order(a: &[u8], b: &[u8]) -> Ordering {
    let rank = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    a.iter().map(rank).cmp(b.iter().map(rank))
}

/// Whether a path consists of names alone.
fn is_plain(path: &[u8]) -> bool {
    let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && name.len() <= MAX_NAME && !name.contains(&b'\0');
    path.len() <= MAX_PATH && path.split(|byte| *byte == b'/').all(is_name)
}

fn check(previous: Option<&TreeEntry>, entry: &TreeEntry) -> Result<(), LineProblem> {
    if !is_plain(&entry.path) {
        return Err(LineProblem::Path);
    }
    match entry.mode {
        TreeMode::EmptyDir if entry.size != 0 => return Err(LineProblem::Size),
        TreeMode::EmptyDir if entry.digest != Digest::of(b"") => return Err(LineProblem::Digest),
        TreeMode::Symlink if entry.size == 0 || entry.size > MAX_TARGET => return Err(LineProblem::Size),
        _ => {}
    }
    let Some(previous) = previous else { return Ok(()) };
    if path_order(&previous.path, &entry.path) != Ordering::Less {
        return Err(LineProblem::Order);
    }
    // In this order, the first path below another one follows it directly.
    let is_below = entry.path.strip_prefix(&previous.path[..]).is_some_and(|rest| rest.starts_with(b"/"));
    if is_below { Err(LineProblem::Below) } else { Ok(()) }
}

fn parse_line(line: &[u8]) -> Result<TreeEntry, LineProblem> {
    let line = line.strip_suffix(b"\n").ok_or(LineProblem::Form)?;
    let mut fields = line.splitn(4, |byte| *byte == b' ');
    let mut field = || fields.next().ok_or(LineProblem::Form);
    let mode = TreeMode::parse(field()?).ok_or(LineProblem::Mode)?;
    let digest = Digest::parse(field()?).map_err(|_| LineProblem::Digest)?;
    let size = parse_size(field()?).ok_or(LineProblem::Size)?;
    let path = unescape(field()?).ok_or(LineProblem::Path)?;
    Ok(TreeEntry { mode, digest, size, path })
}

/// Parses a decimal number as it is written: without leading zeros or a sign.
pub(crate) fn parse_size(text: &[u8]) -> Option<u64> {
    let is_canonical = text == b"0" || text.first().is_some_and(|digit| (b'1'..=b'9').contains(digit));
    std::str::from_utf8(text).ok().filter(|_| is_canonical)?.parse().ok()
}

fn escape(path: &[u8], text: &mut Vec<u8>) {
    for &byte in path {
        match byte {
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\\' => text.extend_from_slice(b"\\\\"),
            _ => text.push(byte),
        }
    }
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        path.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'\\' => b'\\',
                _ => return None,
            },
            _ => byte,
        });
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Random;

    fn entry(mode: TreeMode, path: &[u8]) -> TreeEntry {
        match mode {
            TreeMode::EmptyDir => TreeEntry::empty_dir(path.to_vec()),
            _ => TreeEntry { mode, digest: Digest::of(path), size: path.len() as u64, path: path.to_vec() },
        }
    }

    fn parse(text: &str) -> Result<Manifest, ManifestError> {
        Manifest::parse(text.as_bytes(), &ManifestLimits::default())
    }

    #[test]
    fn text_is_canonical() {
        let paths: [&[u8]; 8] = [b"a-b", b"a/z", b"a/b/c", b"a.c", b"b\nc", b"b\\n", b"\xff", b"with space/x y"];
        let entries = paths.map(|path| entry(TreeMode::File, path)).to_vec();
        let manifest = Manifest::new(entries, &ManifestLimits::default()).unwrap();
        let sorted: [&[u8]; 8] = [b"a/b/c", b"a/z", b"a-b", b"a.c", b"b\nc", b"b\\n", b"with space/x y", b"\xff"];
        assert!(manifest.entries().iter().map(|it| &it.path[..]).eq(sorted));
        let text = manifest.text();
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 8);
        assert_eq!(Manifest::parse(&text, &ManifestLimits::default()), Ok(manifest.clone()));
        assert_eq!(manifest.digest(), Digest::of(&text));
        assert_eq!(manifest.total_bytes(), sorted.iter().map(|path| path.len() as u64).sum::<u64>());
    }

    #[test]
    fn other_texts_are_refused() {
        let (digest, empty) = (Digest::of(b"x"), Digest::of(b""));
        let line = |text: &str| text.replace('D', &digest.to_string()).replace('E', &empty.to_string());
        let problem = |text: &str| match parse(&line(text)) {
            Err(ManifestError::Line { line, problem }) => (line, problem),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(parse("").unwrap(), Manifest::default());
        parse(&line("f D 1 a/b\nl D 1 a/c\nd E 0 b\nx D 1 c\n")).unwrap();
        for (text, number, expected) in [
            ("f D 1 a", 1, LineProblem::Form),
            ("f D 1\n", 1, LineProblem::Form),
            ("\n", 1, LineProblem::Mode),
            ("g D 1 a\n", 1, LineProblem::Mode),
            ("ff D 1 a\n", 1, LineProblem::Mode),
            ("f 00 1 a\n", 1, LineProblem::Digest),
            ("f D 01 a\n", 1, LineProblem::Size),
            ("f D +1 a\n", 1, LineProblem::Size),
            ("f D -1 a\n", 1, LineProblem::Size),
            ("f D 99999999999999999999 a\n", 1, LineProblem::Size),
            ("d E 1 a\n", 1, LineProblem::Size),
            ("d D 0 a\n", 1, LineProblem::Digest),
            ("l D 0 a\n", 1, LineProblem::Size),
            ("l D 4096 a\n", 1, LineProblem::Size),
            ("f D 1 \n", 1, LineProblem::Path),
            ("f D 1 /a\n", 1, LineProblem::Path),
            ("f D 1 a/\n", 1, LineProblem::Path),
            ("f D 1 a//b\n", 1, LineProblem::Path),
            ("f D 1 ..\n", 1, LineProblem::Path),
            ("f D 1 a/../b\n", 1, LineProblem::Path),
            ("f D 1 ./b\n", 1, LineProblem::Path),
            ("f D 1 a\\x\n", 1, LineProblem::Path),
            ("f D 1 a\\\n", 1, LineProblem::Path),
            ("f D 1 a\0\n", 1, LineProblem::Path),
            ("f D 1 a\nf D 1 a\n", 2, LineProblem::Order),
            ("f D 1 b\nf D 1 a\n", 2, LineProblem::Order),
            ("f D 1 a-\nf D 1 a/b\n", 2, LineProblem::Order),
            ("l D 1 a\nf D 1 a/b\n", 2, LineProblem::Below),
            ("f D 1 a\nf D 1 a/b/c\n", 2, LineProblem::Below),
            ("d E 0 a\nf D 1 a/b\n", 2, LineProblem::Below),
        ] {
            assert_eq!(problem(text), (number, expected), "{text:?}");
        }
        assert_eq!(problem(&format!("f D 1 {}\n", "a".repeat(256))).1, LineProblem::Path);
        assert_eq!(problem(&format!("f D 1 {}b\n", "a/".repeat(2_048))).1, LineProblem::Path);
    }

    #[test]
    fn limits_apply() {
        let entries = || [&b"a"[..], b"bb"].map(|path| entry(TreeMode::File, path)).to_vec();
        let all = ManifestLimits { text_bytes: 144, entries: 2, total_bytes: 3 };
        let text = Manifest::new(entries(), &all).unwrap().text();
        assert!(Manifest::parse(&text, &ManifestLimits { text_bytes: text.len(), ..all }).is_ok());
        for (limits, error) in [
            (ManifestLimits { text_bytes: 9, ..all }, ManifestError::TextTooLong(9)),
            (ManifestLimits { text_bytes: 999, entries: 1, ..all }, ManifestError::TooManyEntries(1)),
            (ManifestLimits { text_bytes: 999, total_bytes: 2, ..all }, ManifestError::TooLarge(2)),
        ] {
            assert_eq!(Manifest::parse(&text, &limits), Err(error));
        }
    }

    #[test]
    fn random_trees_survive() {
        for seed in tanto_testing::seeds(300) {
            let mut random = Random::new(seed);
            let mut entries = Vec::new();
            for _ in 0..random.below(30) {
                let parts = (0..=random.below(3)).map(|_| *random.pick(&["a", "b-", "-", "\n", "\\", "c d", "é"]));
                let path = parts.collect::<Vec<_>>().join("/").into_bytes();
                entries.push(entry(random.pick(&TreeMode::ALL).0, &path));
            }
            let count = entries.len();
            // Conflicting entries are refused.
            let Ok(manifest) = Manifest::new(entries, &ManifestLimits::default()) else { continue };
            assert_eq!(manifest.entries().len(), count);
            let again = Manifest::parse(&manifest.text(), &ManifestLimits::default());
            assert_eq!(again, Ok(manifest), "seed {seed}");
        }
    }
}
