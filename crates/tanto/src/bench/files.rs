//! Files on which to measure. Does not know what is measured.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The search for files ends after this time or with this many files: more would tell nothing new.
const SEARCH: Duration = Duration::from_secs(1);
pub const FILES: usize = 4096;

/// What lies in a directory and below it, that itself included.
pub struct Found {
    pub files: Vec<Vec<u8>>,
    pub directories: Vec<Vec<u8>>,
    /// Symbolic links that lead to something.
    pub links: Vec<Vec<u8>>,
}

/// Files and directories, those near the top first. What cannot be read but the top itself is passed over.
pub fn search(dir: &[u8]) -> io::Result<Found> {
    let begun = Instant::now();
    let mut found = Found { files: Vec::new(), directories: Vec::new(), links: Vec::new() };
    let mut ahead = VecDeque::from([PathBuf::from(OsStr::from_bytes(dir))]);
    while let Some(path) = ahead.pop_front() {
        let entries = match fs::read_dir(&path) {
            Err(error) if found.directories.is_empty() => return Err(error),
            other => other.into_iter().flatten().flatten(),
        };
        found.directories.push(path.into_os_string().into_vec());
        for entry in entries {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => ahead.push_back(entry.path()),
                Ok(kind) if kind.is_symlink() && fs::metadata(entry.path()).is_ok() => {
                    found.links.push(entry.path().into_os_string().into_vec());
                }
                Ok(kind) if kind.is_file() => found.files.push(entry.path().into_os_string().into_vec()),
                _ => {}
            }
            if found.files.len() >= FILES || begun.elapsed() > SEARCH {
                ahead.clear();
                break;
            }
        }
    }
    Ok(found)
}

/// One, one for each processor, and more than that if so asked.
pub fn thread_counts(cores: usize, factors: &[usize]) -> Vec<usize> {
    let mut counts = vec![1];
    counts.extend(factors.iter().map(|factor| factor * cores));
    counts.dedup();
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn files_directories_and_links_are_found() {
        let dir = Scratch::new("bench");
        dir.write("a/b/c", "");
        dir.write("d", "");
        std::os::unix::fs::symlink("d", dir.at("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.at("dangling")).unwrap();
        let found = search(&dir.bytes("")).unwrap();
        assert_eq!(found.files, [dir.bytes("d"), dir.bytes("a/b/c")]);
        assert_eq!(found.links, [dir.bytes("link")]);
        assert_eq!(found.directories, [dir.bytes(""), dir.bytes("a"), dir.bytes("a/b")]);
    }

    #[test]
    fn one_processor_has_no_row_twice() {
        assert_eq!(thread_counts(1, &[1, 4]), [1, 4]);
        assert_eq!(thread_counts(2, &[1, 4]), [1, 2, 8]);
        assert_eq!(thread_counts(1, &[1]), [1]);
    }
}
