//! `--same`: checks that files are identical after each run.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_sys::bytes::checksum;

use crate::error::cause;

const CHUNK_BYTES: usize = 1 << 20;

pub struct OutputCheck {
    paths: Vec<PathBuf>,
    /// The name of the first run and the checksums after it.
    first: Option<(String, Vec<u64>)>,
}

impl OutputCheck {
    pub fn new(paths: &[PathBuf]) -> OutputCheck {
        OutputCheck { paths: paths.to_vec(), first: None }
    }

    /// Compares the files after `run` with those after the first run. The error is a message.
    pub fn check(&mut self, run: &str) -> Result<(), String> {
        let mut sums = Vec::new();
        for path in &self.paths {
            let sum = checksum_of(path)
                .map_err(|error| format!("--same: reading {} after {run}: {}", path.display(), cause(&error)))?;
            sums.push(sum);
        }
        let Some((first, before)) = &self.first else {
            self.first = Some((run.to_owned(), sums));
            return Ok(());
        };
        match self.paths.iter().zip(before.iter().zip(&sums)).find(|(_, (before, now))| before != now) {
            Some((path, _)) => Err(format!("--same: {} differs between {first} and {run}", path.display())),
            None => Ok(()),
        }
    }
}

/// Returns the checksum of a file's content, or of all names and contents below a directory.
fn checksum_of(path: &Path) -> io::Result<u64> {
    if !path.is_dir() {
        return checksum_of_file(path);
    }
    let mut entries = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable();
    let mut all = Vec::new();
    for name in entries {
        let below = path.join(&name);
        let kind = fs::symlink_metadata(&below)?.file_type();
        let sum = match () {
            () if kind.is_symlink() => checksum::of(fs::read_link(&below)?.as_os_str().as_bytes()).sum,
            () if kind.is_dir() || kind.is_file() => checksum_of(&below)?,
            // Pipes and sockets have no content.
            () => 0,
        };
        all.extend(checksum::of(name.as_bytes()).sum.to_le_bytes());
        all.extend(sum.to_le_bytes());
    }
    Ok(checksum::of(&all).sum)
}

fn checksum_of_file(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let (mut piece, mut all) = (Vec::new(), Vec::new());
    while file.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut piece)? > 0 {
        all.extend(checksum::of(&piece).sum.to_le_bytes());
        piece.clear();
    }
    Ok(checksum::of(&all).sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn changed_files_are_found() {
        let dir = Scratch::new("compare-outputs");
        dir.write("out/a/x", "1");
        dir.write("y", "2");
        let mut outputs = OutputCheck::new(&[dir.at("y"), dir.at("out")]);
        assert_eq!(outputs.check("run 1 of A"), Ok(()));
        assert_eq!(outputs.check("run 1 of B"), Ok(()));
        dir.write("out/a/x", "3");
        let why = outputs.check("run 2 of A").expect_err("changed");
        assert!(why.ends_with("/out differs between run 1 of A and run 2 of A"), "{why}");
        fs::rename(dir.at("out/a/x"), dir.at("out/a/z")).expect("renamed");
        dir.write("out/a/z", "1");
        assert!(outputs.check("run 2 of B").is_err(), "a name is a difference");
    }

    #[test]
    fn missing_files_are_errors() {
        let mut outputs = OutputCheck::new(&["/nonexistent".into()]);
        let expected = "--same: reading /nonexistent after run 1 of A: No such file or directory";
        assert_eq!(outputs.check("run 1 of A"), Err(expected.into()));
    }

    #[test]
    fn large_files_are_read_in_chunks() {
        let dir = Scratch::new("compare-large");
        dir.write("x", "a".repeat(CHUNK_BYTES + 1));
        dir.write("y", "a".repeat(CHUNK_BYTES) + "b");
        assert_ne!(checksum_of(&dir.at("x")).expect("read"), checksum_of(&dir.at("y")).expect("read"));
        assert_eq!(checksum_of(&dir.at("x")).expect("read"), checksum_of(&dir.at("x")).expect("read"));
    }
}
