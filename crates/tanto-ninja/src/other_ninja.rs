//! Finds another ninja in `PATH`, whose log version a new log gets, so that the user can go back to it.

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

/// The time limit for printing the version.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum length in bytes of the version and of the cache file.
const MAX_LENGTH: u64 = 8 << 10;

/// All executables named `ninja` in these directories.
pub fn all_in(path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    let is_program =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    path.map(std::env::split_paths).into_iter().flatten().map(|dir| dir.join("ninja")).filter(is_program)
}

pub fn is_this_program(path: &Path) -> bool {
    let own = std::env::current_exe().and_then(|path| path.canonicalize());
    own.is_ok_and(|own| path.canonicalize().is_ok_and(|path| path == own))
}

/// The log version of the first other ninja in `PATH`; `None` if there is none. Cached in the user's cache directory
/// until the program changes.
pub fn log_version(cache: Option<&Path>) -> Option<u32> {
    let ninja = all_in(std::env::var_os("PATH").as_deref()).find(|path| !is_this_program(path))?.canonicalize().ok()?;
    let stamp = stamp(&ninja, &fs::metadata(&ninja).ok()?);
    if let Some(version) = cache.and_then(|cache| read_cache(cache, &stamp)) {
        return Some(version);
    }
    let version = log_version_of(&query_version(&ninja)?)?;
    if let Some(cache) = cache {
        // After an error, the next build asks again.
        let _ = write_cache(cache, &stamp, version);
    }
    Some(version)
}

/// The log version of a ninja version such as `1.11.1`.
fn log_version_of(version: &[u8]) -> Option<u32> {
    let mut parts = std::str::from_utf8(version).ok()?.trim_end().split('.').map(str::parse::<u32>);
    match (parts.next()?.ok()?, parts.next()?.ok()?) {
        (0, _) | (1, ..=11) => Some(5),
        (1, 12) => Some(6),
        _ => Some(7),
    }
}

/// Runs `ninja --version`.
fn query_version(ninja: &Path) -> Option<Vec<u8>> {
    // A socket has a read timeout, even if another process keeps it open.
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
    let until = Instant::now() + TIMEOUT;
    let mut text = Vec::new();
    let mut buffer = [0; 256];
    while !text.contains(&b'\n') {
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        from.set_read_timeout(Some(left)).ok()?;
        let length = from.read(&mut buffer).ok().filter(|length| *length > 0)?;
        text.extend_from_slice(&buffer[..length]);
        if text.len() as u64 > MAX_LENGTH {
            return None;
        }
    }
    Some(text.split(|&byte| byte == b'\n').next()?.to_vec())
}

/// Changes when the program changes.
fn stamp(path: &Path, data: &Metadata) -> Vec<u8> {
    let [seconds, changed] = [(data.mtime(), data.mtime_nsec()), (data.ctime(), data.ctime_nsec())];
    let numbers = format!("{} {} {} {seconds:?} {changed:?} ", data.dev(), data.ino(), data.size());
    [numbers.as_bytes(), path.as_os_str().as_bytes(), b"\n"].concat()
}

fn cache_file(tanto: &Path) -> PathBuf {
    tanto.join("other-ninja")
}

fn read_cache(cache: &Path, stamp: &[u8]) -> Option<u32> {
    let mut text = Vec::new();
    private_files::open(&cache_file(&cache.join("tanto"))).ok()?.take(MAX_LENGTH).read_to_end(&mut text).ok()?;
    let version = std::str::from_utf8(text.strip_prefix(stamp)?).ok()?.trim_end().parse().ok()?;
    (5..=7).contains(&version).then_some(version)
}

fn write_cache(cache: &Path, stamp: &[u8], version: u32) -> std::io::Result<()> {
    let place = cache_file(&state_dir::create_cache_dir(cache)?);
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
    fn log_version_follows_from_the_ninja_version() {
        for (version, log) in
            [("1.8.2", 5), ("1.11.1\n", 5), ("1.12.1", 6), ("1.13.2.git", 7), ("1.14.0", 7), ("2.0", 7)]
        {
            assert_eq!(log_version_of(version.as_bytes()), Some(log), "{version}");
        }
        for other in ["", "ninja", "1", "1.x", "-1.2", "\u{e9}.1"] {
            assert_eq!(log_version_of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn version_query_reads_one_line() {
        let place = Scratch::new("other-ninja");
        let version = |text: &str| {
            place.program("ninja", format!("#!/bin/sh\n{text}\n"));
            query_version(&place.at("ninja"))
        };
        assert_eq!(version("echo \"$#$1\"; echo more").as_deref(), Some(&b"1--version"[..]));
        assert_eq!(version("echo 1.11.1; exec sleep 1000").as_deref(), Some(&b"1.11.1"[..]));
        assert_eq!(version("exit 1"), None);
        assert_eq!(version("exec head -c 1000000 /dev/zero"), None);
        assert_eq!(query_version(&place.at("none")), None);
    }

    #[test]
    fn version_is_cached_until_the_program_changes() {
        let place = Scratch::new("other-ninja-kept");
        let cache = place.path();
        write_cache(cache, b"stamp\n", 6).unwrap();
        assert_eq!([&b"stamp\n"[..], b"other\n", b""].map(|stamp| read_cache(cache, stamp)), [Some(6), None, None]);
        write_cache(cache, b"stamp\n", 5).unwrap();
        assert_eq!(read_cache(cache, b"stamp\n"), Some(5));
        place.write("tanto/other-ninja", "stamp\n8\n");
        assert_eq!(read_cache(cache, b"stamp\n"), None);
    }
}
