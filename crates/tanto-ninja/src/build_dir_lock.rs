//! The lock of a build directory, which allows one build at a time. A nested build, started by a job of the holder,
//! does not wait.
//!
//! The lock is on the directory itself, so that no file is created. Each job gets an environment variable with all
//! Tanto processes above it and the directories they have locked. If the variable was removed, the kernel's list of
//! locks and the chain of parent processes identify the holder.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use tanto_sys::fs::lock;
use tanto_sys::process::pid_identity::ProcessId;

/// Lists the Tanto processes above a job, separated by blanks: `PROCESS@DIRECTORY`, or `PROCESS` if it holds no lock.
pub const ANCESTORS: &str = "TANTO_ANCESTORS";

/// The waiting time before a message is printed.
const NOTICE_DELAY: Duration = Duration::from_secs(1);

/// The lock of a build directory; released when dropped.
pub enum BuildDirLock {
    Held(File),
    /// A build above this one, or the process that started this one, holds the lock and waits for this process.
    HeldByAncestor,
    /// The directory cannot be locked: it is unreadable, or its file system does not support locks.
    Unavailable,
}

impl BuildDirLock {
    /// Acquires the lock of `builddir` (empty: the current directory). If that takes longer than a second, calls
    /// `waiting` once with the holder's process id, if known. The second value tells whether it waited: then files read
    /// before may have changed.
    pub fn acquire(builddir: &[u8], waiting: impl FnOnce(Option<u32>)) -> (BuildDirLock, bool) {
        let dir = if builddir.is_empty() { b"." } else { builddir };
        let Ok(file) = lock::open_dir(Path::new(OsStr::from_bytes(dir))) else {
            return (BuildDirLock::Unavailable, false);
        };
        match lock::try_lock_exclusive(&file) {
            Ok(true) => {}
            Ok(false)
                if lock::is_inherited(&file)
                    || is_held_by_ancestor(&file, &std::env::var_os(ANCESTORS).unwrap_or_default()) =>
            {
                return (BuildDirLock::HeldByAncestor, false);
            }
            Ok(false) => {
                let holder = || lock::holders(&file).ok()?.first().copied();
                return match lock::lock_exclusive(&file, NOTICE_DELAY, || waiting(holder())) {
                    Ok(()) => (BuildDirLock::Held(file), true),
                    Err(_) => (BuildDirLock::Unavailable, true),
                };
            }
            Err(_) => return (BuildDirLock::Unavailable, false),
        }
        (BuildDirLock::Held(file), false)
    }

    pub fn is_held(&self) -> bool {
        matches!(self, BuildDirLock::Held(_))
    }
}

/// The value of `ANCESTORS` for jobs of this process.
pub fn ancestors_for_jobs(build_dir_lock: Option<&BuildDirLock>) -> OsString {
    let mut value = std::env::var_os(ANCESTORS).unwrap_or_default();
    if !value.is_empty() {
        value.push(" ");
    }
    // Without `/proc` the process cannot be identified, and a job cannot look for it either.
    value.push(ProcessId::current().map_or_else(|_| "?".to_owned(), |own| own.to_string()));
    if let Some(BuildDirLock::Held(file)) = build_dir_lock {
        value.push(OsString::from_vec([b"@", &directory(file)[..]].concat()));
    }
    value
}

/// Identifies the directory while it is open.
fn directory(file: &File) -> Vec<u8> {
    let numbers = file.metadata().map(|data| format!("{:x}:{}", data.dev(), data.ino()));
    numbers.unwrap_or_default().into_bytes()
}

/// Returns whether the holder is a Tanto process above this one. `above` is the value of `ANCESTORS`.
fn is_held_by_ancestor(file: &File, above: &OsStr) -> bool {
    let entries = || above.as_bytes().split(|&byte| byte == b' ').map(parts);
    let is_above = |pid: u32| match ProcessId::of(pid) {
        Some(process) => {
            let name = process.to_string();
            entries().any(|(one, _)| one == name.as_bytes()) || process.is_ancestor()
        }
        // `/proc` may hide processes of other users.
        None => entries().any(|(one, _)| one.starts_with(format!("{pid}.").as_bytes())),
    };
    match lock::holders(file).unwrap_or_default().as_slice() {
        // The holder is in another PID namespace, or unknown.
        [] => entries().any(|(_, held)| held == Some(&directory(file)[..])),
        holders => holders.iter().copied().any(is_above),
    }
}

/// Splits an entry into process and directory.
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
    fn holder_is_recognized_by_its_process() {
        let dir = Scratch::new("build_dir_lock");
        let _held = locked(dir.path());
        let file = lock::open_dir(dir.path()).unwrap();
        let own = ProcessId::current().unwrap().to_string();
        let elsewhere = format!("{own}@1:2");
        for (above, expected) in
            [(own.as_str(), true), (&format!("1.2 {elsewhere} 3.4@x"), true), ("", false), ("1.2@1:2", false)]
        {
            assert_eq!(is_held_by_ancestor(&file, OsStr::new(above)), expected, "{above}");
        }
        // The former holder's process has ended; another process holds the lock now.
        let ended = format!("1.2@{}", String::from_utf8(directory(&file)).unwrap());
        assert!(!is_held_by_ancestor(&file, OsStr::new(&ended)));
    }

    #[test]
    fn hidden_holder_is_recognized_by_its_directory() {
        let dir = Scratch::new("build_dir_lock-unseen");
        // Nobody holds the lock now, just as a holder in another PID namespace is not listed.
        let build_dir_lock = BuildDirLock::acquire(&dir.bytes(""), |_| {}).0;
        assert!(build_dir_lock.is_held());
        let value = ancestors_for_jobs(Some(&build_dir_lock));
        drop(build_dir_lock);
        let file = lock::open_dir(dir.path()).unwrap();
        assert!(is_held_by_ancestor(&file, &value) && !is_held_by_ancestor(&file, &ancestors_for_jobs(None)));
    }
}
