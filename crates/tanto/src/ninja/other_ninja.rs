//! The other ninja in `PATH`: a new log gets the version that it writes, so that a user can go back to it.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tanto_sys::fs::{private_files, state_dir};

/// What does not say its version so soon is taken for no ninja.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest answer, and longest file in which one is remembered, in bytes.
const LONGEST: u64 = 8 << 10;

/// All programs of this name in these directories.
pub fn all_in(path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    let is_program =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    path.map(std::env::split_paths).into_iter().flatten().map(|dir| dir.join("ninja")).filter(is_program)
}

/// Is this program the running one?
pub fn is_this_program(path: &Path) -> bool {
    let own = std::env::current_exe().and_then(|path| path.canonicalize());
    own.is_ok_and(|own| path.canonicalize().is_ok_and(|path| path == own))
}

/// The version of the log that the first other ninja in `PATH` writes; `None` if there is none. It is asked once, and its
/// answer is remembered in the user's cache until the program changes.
pub(super) fn log_version(cache: Option<&Path>) -> Option<u32> {
    let ninja = all_in(std::env::var_os("PATH").as_deref()).find(|path| !is_this_program(path))?.canonicalize().ok()?;
    let stamp = stamp(&ninja, &fs::metadata(&ninja).ok()?);
    if let Some(version) = cache.and_then(|cache| remembered(cache, &stamp)) {
        return Some(version);
    }
    let version = log_of(&asked(&ninja)?)?;
    if let Some(cache) = cache {
        // Where it cannot be remembered, it is asked for the next new log as well.
        let _ = remember(cache, &stamp, version);
    }
    Some(version)
}

/// The log's version by the version of ninja, such as `1.11.1`.
fn log_of(version: &[u8]) -> Option<u32> {
    let mut parts = std::str::from_utf8(version).ok()?.trim_end().split('.').map(str::parse::<u32>);
    match (parts.next()?.ok()?, parts.next()?.ok()?) {
        (0, _) | (1, ..=11) => Some(5),
        (1, 12) => Some(6),
        _ => Some(7),
    }
}

/// What it prints as its version.
fn asked(ninja: &Path) -> Option<Vec<u8>> {
    // Of a socket one can read with a limit of time, whoever else may keep it open.
    let (mut ours, theirs) = UnixStream::pair().ok()?;
    let mut command = Command::new(ninja);
    command.arg("--version").stdin(Stdio::null()).stdout(OwnedFd::from(theirs)).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    drop(command);
    let text = first_line(&mut ours);
    let _ = child.kill();
    let _ = child.wait();
    text
}

fn first_line(from: &mut UnixStream) -> Option<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let mut text = Vec::new();
    let mut buffer = [0; 256];
    while !text.contains(&b'\n') {
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        from.set_read_timeout(Some(left)).ok()?;
        let length = from.read(&mut buffer).ok().filter(|length| *length > 0)?;
        text.extend_from_slice(&buffer[..length]);
        if text.len() as u64 > LONGEST {
            return None;
        }
    }
    Some(text.split(|&byte| byte == b'\n').next()?.to_vec())
}

/// What is the same as long as the program is.
fn stamp(path: &Path, data: &Metadata) -> Vec<u8> {
    let [seconds, changed] = [(data.mtime(), data.mtime_nsec()), (data.ctime(), data.ctime_nsec())];
    let numbers = format!("{} {} {} {seconds:?} {changed:?} ", data.dev(), data.ino(), data.size());
    [numbers.as_bytes(), path.as_os_str().as_bytes(), b"\n"].concat()
}

fn place(tanto: &Path) -> PathBuf {
    tanto.join("other-ninja")
}

fn remembered(cache: &Path, stamp: &[u8]) -> Option<u32> {
    let mut text = Vec::new();
    private_files::open(&place(&cache.join("tanto"))).ok()?.take(LONGEST).read_to_end(&mut text).ok()?;
    let version = std::str::from_utf8(text.strip_prefix(stamp)?).ok()?.trim_end().parse().ok()?;
    (5..=7).contains(&version).then_some(version)
}

fn remember(cache: &Path, stamp: &[u8], version: u32) -> std::io::Result<()> {
    let place = place(&state_dir::create_cache_dir(cache)?);
    let new = place.with_extension(format!("{}.new", std::process::id()));
    let written = private_files::create(&new)
        .and_then(|mut file| file.write_all(&[stamp, format!("{version}\n").as_bytes()].concat()));
    written.and_then(|()| fs::rename(&new, &place)).inspect_err(|_| drop(fs::remove_file(&new)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn each_version_has_its_log() {
        for (version, log) in
            [("1.8.2", 5), ("1.11.1\n", 5), ("1.12.1", 6), ("1.13.2.git", 7), ("1.14.0", 7), ("2.0", 7)]
        {
            assert_eq!(log_of(version.as_bytes()), Some(log), "{version}");
        }
        for other in ["", "ninja", "1", "1.x", "-1.2", "\u{e9}.1"] {
            assert_eq!(log_of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_program_is_asked_for_a_line() {
        let place = Scratch::new("other-ninja");
        let said = |text: &str| {
            place.program("ninja", format!("#!/bin/sh\n{text}\n"));
            asked(&place.at("ninja"))
        };
        assert_eq!(said("echo \"$#$1\"; echo more").as_deref(), Some(&b"1--version"[..]));
        assert_eq!(said("echo 1.11.1; exec sleep 1000").as_deref(), Some(&b"1.11.1"[..]));
        assert_eq!(said("exit 1"), None);
        assert_eq!(said("exec head -c 1000000 /dev/zero"), None);
        assert_eq!(asked(&place.at("none")), None);
    }

    #[test]
    fn an_answer_is_remembered_until_the_program_changes() {
        let place = Scratch::new("other-ninja-kept");
        let cache = place.path();
        remember(cache, b"stamp\n", 6).unwrap();
        assert_eq!([&b"stamp\n"[..], b"other\n", b""].map(|stamp| remembered(cache, stamp)), [Some(6), None, None]);
        remember(cache, b"stamp\n", 5).unwrap();
        assert_eq!(remembered(cache, b"stamp\n"), Some(5));
        place.write("tanto/other-ninja", "stamp\n8\n");
        assert_eq!(remembered(cache, b"stamp\n"), None);
    }
}
