//! The digest of a file, together with the state that the file had when it was read.

use std::fs::File;
use std::io;
use std::path::Path;

use tanto_sys::fs::file::open_without_waiting;
use tanto_sys::fs::file_stamp::coarse_now;
use tanto_sys::fs::fingerprint::{FileState, FileSystems, Trust, wait_for_known_files};
use tanto_sys::fs::stat::{FileKind, Stat};

use crate::digest::read_some;
use crate::{ContentDigest, ContentHasher};

/// Longer files have no digest.
const MAX_BYTES: u64 = 4 << 30;

/// For a file of this size, it is cheaper to wait until it is no longer racy than to read it again.
const WAIT_BYTES: u64 = 16 << 20;

/// Bytes that are read at a time. Most sources fit.
const CHUNK: usize = 64 << 10;

/// The content of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileDigest {
    pub digest: ContentDigest,
    /// Before and after the file was read.
    pub state: FileState,
    /// The metadata behind the state.
    pub stat: Stat,
    /// What an equal fingerprint will mean.
    pub trust: Trust,
}

impl FileDigest {
    /// Reads a file. Returns `None` if it changed meanwhile, is not a regular file, or is longer than 4 GiB.
    pub fn of(path: &Path, systems: &FileSystems) -> io::Result<Option<FileDigest>> {
        let mut file = open_without_waiting(path)?;
        let before = Stat::of(&file)?;
        if before.kind != FileKind::File || before.size > MAX_BYTES {
            return Ok(None);
        }
        let (state, mut trust) = systems.describe(&file, &before, coarse_now());
        if before.size >= WAIT_BYTES && trust == Trust::Racy {
            wait_for_known_files();
            (_, trust) = systems.describe(&file, &before, coarse_now());
        }
        let digest = digest(&mut file, before.size)?;
        let is_same = Stat::of(&file)? == before;
        let found = digest.filter(|_| is_same);
        Ok(found.map(|digest| FileDigest { digest, state, stat: before, trust }))
    }
}

/// Returns `None` if the file is shorter than `size`.
fn digest(file: &mut File, size: u64) -> io::Result<Option<ContentDigest>> {
    let mut hasher = ContentHasher::default();
    let mut buffer = vec![0; size.clamp(1, CHUNK as u64) as usize];
    while hasher.size() < size {
        match read_some(file, &mut buffer)? {
            0 => return Ok(None),
            length => hasher.update(&buffer[..length]),
        }
    }
    Ok(Some(hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tanto_testing::Scratch;

    #[test]
    fn content_and_state_belong_together() {
        let dir = Scratch::new("file-digest");
        let path = dir.at("f");
        for content in [&b""[..], b"x", &[7; CHUNK], &[7; 3 * CHUNK + 1]] {
            fs::write(&path, content).unwrap();
            let systems = FileSystems::default();
            let found = FileDigest::of(&path, &systems).unwrap().unwrap();
            assert_eq!(found.digest, ContentDigest::of(content));
            assert_eq!(found.state, systems.state(&File::open(&path).unwrap()).unwrap());
            assert_eq!(found.trust, Trust::Racy, "it was written just now");
        }
    }

    #[test]
    fn a_long_file_that_was_just_written_is_known() {
        let dir = Scratch::new("file-digest-long");
        File::create(dir.at("f")).unwrap().set_len(WAIT_BYTES).unwrap();
        let found = FileDigest::of(&dir.at("f"), &FileSystems::default()).unwrap().unwrap();
        assert_eq!(found.trust, Trust::Known);
    }

    #[test]
    fn only_regular_files_have_a_digest() {
        let dir = Scratch::new("file-digest-kind");
        let systems = FileSystems::default();
        assert_eq!(FileDigest::of(&dir.at("."), &systems).unwrap(), None);
        assert_eq!(FileDigest::of(Path::new("/dev/null"), &systems).unwrap(), None);
        // Without a writer, a pipe blocks whoever opens it.
        let made = std::process::Command::new("mkfifo").arg(dir.at("pipe")).status().unwrap();
        assert!(made.success());
        assert_eq!(FileDigest::of(&dir.at("pipe"), &systems).unwrap(), None);
        assert_eq!(FileDigest::of(&dir.at("none"), &systems).unwrap_err().kind(), io::ErrorKind::NotFound);
        // `/proc` says that its files are empty.
        let found = FileDigest::of(Path::new("/proc/self/status"), &systems).unwrap();
        assert!(found.is_none_or(|found| found.trust == Trust::Never));
        let sparse = File::create(dir.at("sparse")).unwrap();
        sparse.set_len(MAX_BYTES + 1).unwrap();
        assert_eq!(FileDigest::of(&dir.at("sparse"), &systems).unwrap(), None);
    }

    #[test]
    fn a_file_that_shrinks_has_no_digest() {
        let dir = Scratch::new("file-digest-short");
        dir.write("f", "four");
        assert_eq!(digest(&mut File::open(dir.at("f")).unwrap(), 5).unwrap(), None);
    }
}
