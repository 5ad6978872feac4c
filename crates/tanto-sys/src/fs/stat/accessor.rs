//! Sequences of calls that determine whether a file exists and its attributes, for `tanto bench stat`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::{Stat, StatCall, fstatat, missing_is_none, open_dir};
use crate::fs::file::with_c_path;

/// A sequence of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accessor {
    /// One call for both.
    OneCall,
    /// First existence, then attributes.
    ExistenceFirst,
    /// Opens the parent directory of each file.
    ParentOpened,
    /// Keeps the parent directory open for consecutive files in it.
    ParentKept,
}

/// An open directory with its path.
type Parent = (Vec<u8>, OwnedFd);

impl Accessor {
    pub const ALL: [Accessor; 4] =
        [Accessor::OneCall, Accessor::ExistenceFirst, Accessor::ParentOpened, Accessor::ParentKept];

    /// Returns a description with the calls.
    pub fn name(self) -> &'static str {
        match self {
            Accessor::OneCall => "one call (fstatat)",
            Accessor::ExistenceFirst => "existence first (faccessat, fstatat)",
            Accessor::ParentOpened => "parent opened (openat, fstatat, close)",
            Accessor::ParentKept => "parent kept open (fstatat in it)",
        }
    }

    /// Stats all paths and returns the number of calls without errors. A missing file is no error.
    pub fn count(self, paths: &[&[u8]]) -> usize {
        let mut parent = None;
        paths.iter().filter(|path| self.stat(path, &mut parent).is_ok()).count()
    }

    fn stat(self, path: &[u8], parent: &mut Option<Parent>) -> io::Result<Option<Stat>> {
        match self {
            Accessor::OneCall => StatCall::Fstatat.stat(path),
            Accessor::ExistenceFirst => {
                match accessat(CWD, path, Access::EXISTS, AtFlags::empty()).map_err(io::Error::from) {
                    Ok(()) => StatCall::Fstatat.stat(path),
                    Err(error) => missing_is_none(Err(error)),
                }
            }
            Accessor::ParentOpened | Accessor::ParentKept => {
                let (dir, name) = split(path);
                let is_open = |(open, _): &Parent| self == Accessor::ParentKept && open == dir;
                if !parent.as_ref().is_some_and(is_open) {
                    *parent = match open_dir(dir) {
                        Ok(handle) => Some((dir.to_vec(), handle)),
                        Err(error) => return missing_is_none(Err(error)),
                    };
                }
                let dir = parent.as_ref().map_or(libc::AT_FDCWD, |(_, dir)| dir.as_raw_fd());
                // SAFETY: the name ends with a NUL and outlives the call.
                missing_is_none(with_c_path(name, |name| unsafe { fstatat(dir, name) }).flatten())
            }
        }
    }
}

/// Splits a path into directory and name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) => (b"/", &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b".", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn all_accessors_give_the_same_answers() {
        let dir = Scratch::new("accessors");
        dir.write("a/file", "12345");
        dir.write("b/file", "1");
        std::os::unix::fs::symlink("a/file", dir.at("link")).expect("made");
        std::os::unix::fs::symlink("nowhere", dir.at("dangling")).expect("made");
        let names = ["a/file", "a/none", "a", "b/file", "link", "dangling", "a/file/below"];
        let paths: Vec<Vec<u8>> = names.iter().map(|name| dir.bytes(name)).collect();
        let all = |accessor: Accessor| {
            let mut parent = None;
            paths.iter().map(|path| accessor.stat(path, &mut parent).ok().flatten()).collect::<Vec<_>>()
        };
        let expected = all(Accessor::OneCall);
        assert_eq!(
            expected.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, false, true, true, true, false, false]
        );
        for accessor in Accessor::ALL {
            assert_eq!(all(accessor), expected, "{accessor:?}");
        }
        let found: Vec<&[u8]> = paths[..6].iter().map(Vec::as_slice).collect();
        assert!(
            Accessor::ALL.iter().all(|accessor| accessor.count(&found) == 6),
            "missing files are missing for all accessors"
        );
    }

    #[test]
    fn paths_are_split() {
        for (path, parts) in [("a/b/c", ("a/b", "c")), ("c", (".", "c")), ("/c", ("/", "c"))] {
            let (dir, name) = split(path.as_bytes());
            assert_eq!((dir, name), (parts.0.as_bytes(), parts.1.as_bytes()));
        }
    }
}
