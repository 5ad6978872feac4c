//! Finds files to measure on.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The search ends after this time or this number of files; more would not change the result.
const MAX_TIME: Duration = Duration::from_secs(1);
pub const MAX_FILES: usize = 4096;

/// The content of a directory tree, including its root.
pub struct Found {
    pub files: Vec<Vec<u8>>,
    pub directories: Vec<Vec<u8>>,
    /// Symbolic links with an existing target.
    pub links: Vec<Vec<u8>>,
}

/// Searches breadth first. Skips unreadable directories except the root.
pub fn search(dir: &Path) -> io::Result<Found> {
    let started = Instant::now();
    let mut found = Found { files: Vec::new(), directories: Vec::new(), links: Vec::new() };
    let mut queue = VecDeque::from([dir.to_owned()]);
    while let Some(path) = queue.pop_front() {
        let entries = match fs::read_dir(&path) {
            Err(error) if found.directories.is_empty() => return Err(error),
            other => other.into_iter().flatten().flatten(),
        };
        found.directories.push(path.into_os_string().into_vec());
        for entry in entries {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => queue.push_back(entry.path()),
                Ok(kind) if kind.is_symlink() && fs::metadata(entry.path()).is_ok() => {
                    found.links.push(entry.path().into_os_string().into_vec());
                }
                Ok(kind) if kind.is_file() => found.files.push(entry.path().into_os_string().into_vec()),
                _ => {}
            }
            if found.files.len() >= MAX_FILES || started.elapsed() > MAX_TIME {
                queue.clear();
                break;
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn files_directories_and_links_are_found() {
        let dir = Scratch::new("bench-search");
        dir.write("a/b/c", "");
        dir.write("d", "");
        std::os::unix::fs::symlink("d", dir.at("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.at("dangling")).unwrap();
        let found = search(dir.path()).unwrap();
        assert_eq!(found.files, [dir.bytes("d"), dir.bytes("a/b/c")]);
        assert_eq!(found.links, [dir.bytes("link")]);
        assert_eq!(
            found.directories,
            [dir.path().as_os_str().as_encoded_bytes().to_vec(), dir.bytes("a"), dir.bytes("a/b")]
        );
    }
}
