//! One build at a time in a build directory: a second one waits for its turn, unless a job of the first started it.
//! Does not know what is built.
//!
//! The holder has a lock on the directory itself, so that nothing is written for it. Each job finds in its environment all
//! Tantos above it, with the directories that they have locked; where something has emptied that, the kernel's list of
//! locks and the chain of parent processes tell the same.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use tanto_sys::fs::lock;
use tanto_sys::process::pid_identity::ProcessId;

/// The environment variable that names the Tantos above a job, with blanks between: `PROCESS@DIRECTORY`, without the
/// second part where the directory is not locked.
pub const ANCESTORS: &str = "TANTO_ANCESTORS";

/// How long one waits before one says so.
const PATIENCE: Duration = Duration::from_secs(1);

/// A build's right to its directory; given back when dropped.
pub enum Turn {
    /// It has the lock.
    Mine(File),
    /// A build above this one has it, or whatever has started this one, and waits for this one.
    Ancestors,
    /// The directory cannot be locked: it cannot be read, or its file system has no locks for directories.
    Nobodys,
}

impl Turn {
    /// Waits for the turn in `builddir` (empty: the current directory). `waiting` is called once, with the holder's
    /// process number where it is known, if that takes over a second. The second value says that it had to wait:
    /// what was read before may have changed.
    pub fn take(builddir: &[u8], waiting: impl FnOnce(Option<u32>)) -> (Turn, bool) {
        let dir = if builddir.is_empty() { b"." } else { builddir };
        let Ok(file) = lock::open_dir(Path::new(OsStr::from_bytes(dir))) else { return (Turn::Nobodys, false) };
        match lock::try_lock_exclusive(&file) {
            Ok(true) => {}
            Ok(false)
                if lock::is_inherited(&file)
                    || is_held_above(&file, &std::env::var_os(ANCESTORS).unwrap_or_default()) =>
            {
                return (Turn::Ancestors, false);
            }
            Ok(false) => {
                let holder = || lock::holders(&file).ok()?.first().copied();
                return match lock::lock_exclusive(&file, PATIENCE, || waiting(holder())) {
                    Ok(()) => (Turn::Mine(file), true),
                    Err(_) => (Turn::Nobodys, true),
                };
            }
            Err(_) => return (Turn::Nobodys, false),
        }
        (Turn::Mine(file), false)
    }

    /// Nobody else builds in the directory.
    pub fn is_mine(&self) -> bool {
        matches!(self, Turn::Mine(_))
    }
}

/// The value of `ANCESTORS` for the jobs of this process.
pub fn for_jobs(turn: Option<&Turn>) -> OsString {
    let mut value = std::env::var_os(ANCESTORS).unwrap_or_default();
    if !value.is_empty() {
        value.push(" ");
    }
    // Without `/proc` there is no more to say of a process; nor can a job ask.
    value.push(ProcessId::current().map_or_else(|_| "?".to_owned(), |own| own.to_string()));
    if let Some(Turn::Mine(file)) = turn {
        value.push(OsString::from_vec([b"@", &directory(file)[..]].concat()));
    }
    value
}

/// What tells this directory from others while it is open.
fn directory(file: &File) -> Vec<u8> {
    let numbers = file.metadata().map(|data| format!("{:x}:{}", data.dev(), data.ino()));
    numbers.unwrap_or_default().into_bytes()
}

/// Is the lock held by a Tanto that waits for this process? `above` is the value of `ANCESTORS`.
fn is_held_above(file: &File, above: &OsStr) -> bool {
    let entries = || above.as_bytes().split(|&byte| byte == b' ').map(parts);
    let is_above = |pid: u32| match ProcessId::of(pid) {
        Some(process) => {
            let name = process.to_string();
            entries().any(|(one, _)| one == name.as_bytes()) || process.is_ancestor()
        }
        // Nothing is to be seen of a process of another user where `/proc` is mounted so.
        None => entries().any(|(one, _)| one.starts_with(format!("{pid}.").as_bytes())),
    };
    match lock::holders(file).unwrap_or_default().as_slice() {
        // It belongs to another PID namespace, or nothing tells.
        [] => entries().any(|(_, held)| held == Some(&directory(file)[..])),
        holders => holders.iter().copied().any(is_above),
    }
}

/// The process and the directory of an entry.
fn parts(entry: &[u8]) -> (&[u8], Option<&[u8]>) {
    match entry.iter().position(|&byte| byte == b'@') {
        Some(at) => (&entry[..at], Some(&entry[at + 1..])),
        None => (entry, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn locked(dir: &Path) -> File {
        let file = lock::open_dir(dir).unwrap();
        assert!(lock::try_lock_exclusive(&file).unwrap());
        file
    }

    #[test]
    fn the_holder_is_found_by_its_process_and_no_other_is() {
        let dir = Scratch::new("turn");
        let _held = locked(dir.path());
        let file = lock::open_dir(dir.path()).unwrap();
        let own = ProcessId::current().unwrap().to_string();
        let elsewhere = format!("{own}@1:2");
        for (above, expected) in
            [(own.as_str(), true), (&format!("1.2 {elsewhere} 3.4@x"), true), ("", false), ("1.2@1:2", false)]
        {
            assert_eq!(is_held_above(&file, OsStr::new(above)), expected, "{above}");
        }
        // A process that has ended had the lock; now it is another's.
        let ended = format!("1.2@{}", String::from_utf8(directory(&file)).unwrap());
        assert!(!is_held_above(&file, OsStr::new(&ended)));
    }

    #[test]
    fn a_holder_that_cannot_be_seen_is_found_by_its_directory() {
        let dir = Scratch::new("turn-unseen");
        // Nobody holds it now: nor does a list of locks show the holder in another PID namespace.
        let turn = Turn::take(&dir.bytes(""), |_| {}).0;
        assert!(turn.is_mine());
        let value = for_jobs(Some(&turn));
        drop(turn);
        let file = lock::open_dir(dir.path()).unwrap();
        assert!(is_held_above(&file, &value) && !is_held_above(&file, &for_jobs(None)));
    }
}
