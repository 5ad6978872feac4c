//! The directory entries to watch for a set of files.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Entry names by directory.
#[derive(Default, Debug)]
pub struct WatchPaths(pub BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>);

impl WatchPaths {
    /// The entries of these files and of the targets of symbolic links.
    pub fn of(files: &[Vec<u8>]) -> WatchPaths {
        let mut places = WatchPaths::default();
        for file in files {
            places.add(file);
            let path = Path::new(OsStr::from_bytes(file));
            if fs::read_link(path).is_ok()
                && let Ok(target) = fs::canonicalize(path)
            {
                places.add(&target.into_os_string().into_vec());
            }
        }
        places
    }

    /// Adds a file and its parent directories, since any of them may be replaced or created.
    fn add(&mut self, path: &[u8]) {
        let mut path = path;
        loop {
            let (dir, name) = split(path);
            if matches!(name, b"" | b"." | b"..") {
                return;
            }
            let is_known = self.0.contains_key(dir);
            self.0.entry(dir.to_vec()).or_default().insert(name.to_vec());
            if is_known {
                return;
            }
            path = dir;
        }
    }
}

/// Splits a path into directory and name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        None => (b".", path),
        Some(0) => (b"/", &path[1..]),
        Some(slash) => (&path[..slash], &path[slash + 1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    /// Formats each directory as `DIR: NAME...`.
    fn places(files: &[&str]) -> Vec<String> {
        let files: Vec<Vec<u8>> = files.iter().map(|file| file.as_bytes().to_vec()).collect();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let names = |names: BTreeSet<Vec<u8>>| names.iter().map(|name| text(name)).collect::<Vec<_>>().join(" ");
        WatchPaths::of(&files).0.into_iter().map(|(dir, all)| format!("{}: {}", text(&dir), names(all))).collect()
    }

    #[test]
    fn parent_directories_are_watched() {
        assert_eq!(
            places(&["a.c", "src/b.c", "src/x/c.c", "src/x/d.c"]),
            [".: a.c src", "src: b.c x", "src/x: c.c d.c"]
        );
        assert_eq!(places(&["/usr/include/x.h"]), ["/: usr", "/usr: include", "/usr/include: x.h"]);
        assert_eq!(places(&["../../src/a.c", ".."]), ["../..: src", "../../src: a.c"]);
    }

    #[test]
    fn targets_of_links_are_watched() {
        let dir = Scratch::new("places");
        dir.write("real", "");
        let link = dir.at("link");
        std::os::unix::fs::symlink("real", &link).unwrap();
        let found = places(&[link.to_str().unwrap()]);
        assert!(found.last().unwrap().ends_with(": link real"), "{found:?}");
    }
}
