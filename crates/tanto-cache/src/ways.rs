//! Checks the directories and symbolic links on the way to an input: if one has changed while a command ran, the command
//! may have read another file.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use tanto_sys::fs::file;

use crate::observer::Map;

/// Symbolic links in a row.
const MAX_LINKS: usize = 40;

/// Checked directories and links of one run.
pub(crate) struct Ways<'r> {
    /// The clock of file systems before the command started.
    began: i64,
    cwd: &'r [u8],
    known: Map<Box<[u8]>, Node>,
}

/// A directory, a file or a link.
#[derive(Clone, Debug)]
struct Node {
    /// It has not changed since the command started.
    is_old: bool,
    target: Option<Vec<u8>>,
}

impl Ways<'_> {
    pub(crate) fn new(began: i64, cwd: &[u8]) -> Ways<'_> {
        Ways { began, cwd, known: Map::default() }
    }

    /// Returns whether no directory on the way to a file was changed. A directory that was replaced could contain other files
    /// with old times. The working directory and those above it are not replaced.
    pub(crate) fn has_old_dirs(&mut self, path: &[u8]) -> bool {
        prefixes(path).all(|dir| self.is_above_cwd(dir) || self.node(dir).is_old)
    }

    /// Returns whether no symbolic link on the way to a file was changed, and the file is no such link itself.
    pub(crate) fn has_old_links(&mut self, path: &[u8]) -> bool {
        self.has_old_links_within(path, MAX_LINKS)
    }

    fn has_old_links_within(&mut self, path: &[u8], most: usize) -> bool {
        prefixes(path).chain([path]).all(|part| {
            let Node { is_old, target } = self.node(part);
            let Some(target) = target else { return true };
            is_old && most > 0 && self.has_old_links_within(&target, most - 1)
        })
    }

    fn node(&mut self, path: &[u8]) -> Node {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let node = Node::of(path, self.began);
        self.known.insert(path.into(), node.clone());
        node
    }

    fn is_above_cwd(&self, dir: &[u8]) -> bool {
        self.cwd.strip_prefix(dir).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    }
}

impl Node {
    fn of(path: &[u8], began: i64) -> Node {
        let Ok(data) = fs::symlink_metadata(file::path(path)) else { return Node { is_old: false, target: None } };
        let ctime = data.ctime().saturating_mul(1_000_000_000).saturating_add(data.ctime_nsec());
        let target = data.is_symlink().then(|| {
            let target = fs::read_link(file::path(path)).unwrap_or_default();
            let dir = path.rsplitn(2, |&byte| byte == b'/').nth(1).unwrap_or_default();
            let target = target.as_os_str().as_bytes();
            if target.starts_with(b"/") { target.to_vec() } else { [dir, b"/", target].concat() }
        });
        Node { is_old: ctime < began, target }
    }
}

/// The directories on the way to a path.
fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|&(at, &byte)| byte == b'/' && at > 0).map(|(at, _)| at);
    slashes.map(|at| without_dots(&path[..at])).filter(|dir| !dir.is_empty())
}

/// `/a/.` is `/a`.
fn without_dots(mut dir: &[u8]) -> &[u8] {
    while let Some(shorter) = dir.strip_suffix(b"/.") {
        dir = shorter;
    }
    dir
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tanto_sys::fs::file_stamp::coarse_now;
    use tanto_sys::fs::fingerprint::wait_for_known_files;
    use tanto_testing::Scratch;

    /// Whether the directories and the links on the way to `name` are old after a change.
    fn after(name: &str, change: impl FnOnce(&Scratch)) -> (bool, bool) {
        let dir = Scratch::new("cache-ways");
        for file in ["one/f", "two/f"] {
            dir.write(file, "");
        }
        symlink("one", dir.at("link")).unwrap();
        symlink("link/f", dir.at("file")).unwrap();
        wait_for_known_files();
        let began = coarse_now();
        change(&dir);
        let cwd = dir.bytes("");
        let mut ways = Ways::new(began, &cwd[..cwd.len() - 1]);
        (ways.has_old_dirs(&dir.bytes(name)), ways.has_old_links(&dir.bytes(name)))
    }

    #[test]
    fn changes_on_the_way_are_seen() {
        let retarget = |dir: &Scratch| {
            fs::remove_file(dir.at("link")).unwrap();
            symlink("two", dir.at("link")).unwrap();
        };
        assert_eq!(after("one/f", |_| {}), (true, true));
        assert_eq!(after("file", |_| {}), (true, true));
        assert_eq!(after("one/f", retarget), (true, true));
        assert!(!after("link/f", retarget).1);
        assert!(!after("file", retarget).1);
        assert!(!after("one/../link/f", retarget).1);
        let swap = |dir: &Scratch| {
            fs::rename(dir.at("one"), dir.at("old")).unwrap();
            fs::rename(dir.at("two"), dir.at("one")).unwrap();
        };
        assert!(!after("one/f", swap).0);
        assert!(after("./one/.././one/f", |_| {}).0);
    }

    #[test]
    fn links_in_a_circle_end() {
        let dir = Scratch::new("cache-ways-circle");
        symlink("b", dir.at("a")).unwrap();
        symlink("a", dir.at("b")).unwrap();
        assert!(!Ways::new(i64::MAX, b"/").has_old_links(&dir.bytes("a/f")));
    }
}
