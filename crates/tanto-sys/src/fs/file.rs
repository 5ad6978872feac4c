//! Operations on files whose paths are bytes.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Access, AtFlags, CWD, MemfdFlags, accessat, memfd_create};
use rustix::process::{Resource, getrlimit};

use crate::error::call_error;
use crate::fs::stat::mtime;

/// Creates a file in memory, which has no path. It is closed on `exec`.
pub fn in_memory(content: &[u8]) -> io::Result<fs::File> {
    let mut file = fs::File::from(memfd_create(c"tanto", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    Ok(file)
}

pub fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Longest path, with its NUL, that is copied to the stack.
pub(crate) const SHORT: usize = 512;

/// Calls `f` with the path as a C string. Fails with `InvalidInput` if the path contains a NUL.
#[inline]
pub(crate) fn with_c_path<T>(path: &[u8], f: impl FnOnce(*const libc::c_char) -> T) -> io::Result<T> {
    if path.len() >= SHORT {
        let path = CString::new(path)?;
        return Ok(f(path.as_ptr()));
    }
    if path.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "path contains a NUL byte"));
    }
    let mut buffer = [MaybeUninit::uninit(); SHORT];
    buffer[..path.len()].write_copy_of_slice(path);
    buffer[path.len()].write(0);
    Ok(f(buffer.as_ptr().cast()))
}

/// Fails if this process may not write to the file or directory.
pub fn check_writable(path: &[u8]) -> io::Result<()> {
    Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?)
}

/// Returns the umask; `None` if the kernel does not show it (before 4.7). Calling `umask(2)` would change it for other
/// threads for a moment.
pub fn umask() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(mask.trim(), 8).ok()
}

/// Longest file that `read` accepts, in bytes.
const MAX_LENGTH: u64 = 1 << 30;

/// Reads a whole file. Fails with `too_large` if it is longer than 1 GiB.
pub fn read(path: &[u8]) -> io::Result<Vec<u8>> {
    let file = fs::File::open(self::path(path))?;
    let expected = file.metadata()?.len();
    let mut content = Vec::with_capacity(expected.min(MAX_LENGTH) as usize);
    // A device or a pipe has no length, and a file may grow.
    if expected <= MAX_LENGTH {
        file.take(MAX_LENGTH + 1).read_to_end(&mut content)?;
    }
    if expected.max(content.len() as u64) > MAX_LENGTH { Err(too_large()) } else { Ok(content) }
}

/// Reads a whole file into memory allocated by `buffer`. Fails with `too_large` if it is longer than `limit` bytes.
pub fn read_into<'a>(
    path: &[u8],
    limit: u64,
    mut buffer: impl FnMut(usize) -> &'a mut [u8],
) -> io::Result<&'a mut [u8]> {
    let mut file = fs::File::open(self::path(path))?;
    let expected = file.metadata()?.len();
    if expected > limit {
        return Err(too_large());
    }
    let content = buffer(expected as usize);
    let length = fill(&mut file, content)?;
    if length < content.len() {
        return Ok(&mut content[..length]);
    }
    // A pipe has no length, and a file may grow.
    let mut rest = Vec::new();
    file.take(limit - expected + 1).read_to_end(&mut rest)?;
    match (rest.len(), expected + rest.len() as u64) {
        (0, _) => Ok(content),
        (_, whole) if whole > limit => Err(too_large()),
        (_, whole) => {
            let grown = buffer(whole as usize);
            grown[..length].copy_from_slice(content);
            grown[length..].copy_from_slice(&rest);
            Ok(grown)
        }
    }
}

/// Opens a file for reading without waiting: a pipe without a writer would block. Reading does not change the access time
/// of a file of this user, which would cost the file system a write.
pub fn open_without_waiting(path: &Path) -> io::Result<fs::File> {
    let open = |flags| fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | flags).open(path);
    match open(libc::O_NOATIME) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => open(0),
        opened => opened,
    }
}

/// Opens a file of an untrusted directory for reading: does not follow a symbolic link and never blocks.
pub fn open_no_follow(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Reads until the buffer is full or the file ends; returns the number of bytes.
fn fill(file: &mut fs::File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Returns the largest file that this process may write, in bytes (`ulimit -f`). A write beyond it raises SIGXFSZ.
pub fn max_file_size() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// Replaces the content of a file by renaming a new file, so that readers see the old or the new content, also after a
/// crash of this process (after a power loss only if `fill` syncs). Writes directly to anything but a regular file
/// (`/dev/stdout`).
pub fn write_atomically(path: &Path, fill: impl FnOnce(&mut fs::File) -> io::Result<()>) -> io::Result<()> {
    if path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir()) {
        return fill(&mut fs::File::options().write(true).open(path)?);
    }
    let temp_path = temp_path(path);
    let written = fs::File::create(&temp_path).and_then(|mut file| fill(&mut file));
    written.and_then(|()| fs::rename(&temp_path, path)).inspect_err(|_| {
        let _ = fs::remove_file(&temp_path);
    })
}

/// Creates an unnamed file for reading and writing in the file system of `dir`, or in the directory for temporary files
/// if `dir` does not support that.
pub fn unnamed_temp_file(dir: &Path) -> io::Result<fs::File> {
    let options = || {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        options
    };
    if let Ok(file) = options().custom_flags(libc::O_TMPFILE).open(dir) {
        return Ok(file);
    }
    let path = std::env::temp_dir();
    options().custom_flags(libc::O_TMPFILE).open(&path).or_else(|_| {
        let path = path.join(format!("tanto-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
        let file = options().create_new(true).open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    })
}

/// Makes the names of temporary files of this process unique.
static COUNTER: AtomicU32 = AtomicU32::new(0);

/// Checks that `write_atomically` could write to the path, by creating its temporary file.
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(data) if data.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(data) if !data.is_file() => return fs::File::options().write(true).open(path).map(drop),
        _ => {}
    }
    let temp_path = temp_path(path);
    fs::File::create(&temp_path)?;
    fs::remove_file(&temp_path)
}

fn temp_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    name.into()
}

/// A file that refuses to grow beyond `max_file_size`.
#[derive(Debug)]
pub struct LimitedFile {
    file: fs::File,
    buffer: u64,
}

impl LimitedFile {
    /// Wraps an empty file.
    pub fn new(file: fs::File) -> LimitedFile {
        LimitedFile { file, buffer: max_file_size() }
    }
}

impl Write for LimitedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.buffer {
            return Err(too_large());
        }
        let written = self.file.write(bytes)?;
        self.buffer -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The error for a file that exceeds a limit.
pub fn too_large() -> io::Error {
    io::Error::from_raw_os_error(libc::EFBIG)
}

pub fn write(path: &[u8], content: &[u8]) -> io::Result<()> {
    fs::write(self::path(path), content)
}

/// Creates the parent directories of `path`. The error contains the path of the directory.
pub fn create_parents(path: &[u8]) -> io::Result<()> {
    let Some(parent) = parent(path) else { return Ok(()) };
    if mtime(parent).map_err(|e| call_error("stat", Some(parent), e))? != 0 {
        return Ok(());
    }
    create_parents(parent)?;
    match fs::create_dir(self::path(parent)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(call_error("mkdir", Some(parent), error)),
        _ => Ok(()),
    }
}

/// Returns everything before the last run of slashes; `None` if that is empty.
fn parent(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|&b| b == b'/')?;
    let end = path[..slash].iter().rposition(|&b| b != b'/')?;
    Some(&path[..=end])
}

/// Removes a file or an empty directory; returns false if it does not exist. The error contains the path.
pub fn remove(path: &[u8]) -> io::Result<bool> {
    let removed = match fs::remove_file(self::path(path)) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => fs::remove_dir(self::path(path)),
        removed => removed,
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(error),
        removed => removed.map(|()| true).map_err(|error| call_error("remove", Some(path), error)),
    }
}

pub fn rename(from: &[u8], to: &[u8]) -> io::Result<()> {
    fs::rename(path(from), path(to))
}

/// Returns whether this process may write a file, or create files in a directory.
pub fn may_write(path: &Path) -> bool {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::text;
    use std::fs::FileTimes;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, UNIX_EPOCH};
    use tanto_testing::Scratch;

    #[test]
    fn reading_does_not_change_the_access_time() {
        let dir = Scratch::new("read-access-time");
        dir.write("f", "content");
        let old = UNIX_EPOCH + Duration::from_secs(1);
        fs::File::options()
            .write(true)
            .open(dir.at("f"))
            .unwrap()
            .set_times(FileTimes::new().set_accessed(old))
            .unwrap();
        let mut content = String::new();
        open_without_waiting(&dir.at("f")).unwrap().read_to_string(&mut content).unwrap();
        assert_eq!((content.as_str(), fs::metadata(dir.at("f")).unwrap().accessed().unwrap()), ("content", old));
    }

    #[test]
    fn read_into_fills_the_given_buffer() {
        let dir = Scratch::new("read-into");
        let buffer = |length| Box::leak(vec![0; length].into_boxed_slice());
        let path = dir.bytes("a");
        write(&path, b"four").unwrap();
        assert_eq!(read_into(&path, 4, buffer).unwrap(), b"four");
        assert_eq!(text(&read_into(&path, 3, buffer).unwrap_err()), b"File too large");
        assert_eq!(text(&read_into(&dir.bytes("no"), 3, buffer).unwrap_err()), b"No such file or directory");
        assert_eq!(text(&read_into(&dir.bytes("."), 1 << 20, buffer).unwrap_err()), b"Is a directory");
        // Its length is reported as 0.
        assert!(!read_into(b"/proc/self/stat", 1 << 20, buffer).unwrap().is_empty());
        assert_eq!(text(&read_into(b"/proc/self/stat", 3, buffer).unwrap_err()), b"File too large");
    }

    #[test]
    fn the_parent_ends_before_the_slashes() {
        for (path, expected) in [("a/b", "a"), ("a//b", "a"), ("/a/b", "/a"), ("a/b/", "a/b"), ("../x", "..")] {
            assert_eq!(parent(path.as_bytes()), Some(expected.as_bytes()), "{path}");
        }
        for path in ["a", "", "/", "/a", "//a"] {
            assert_eq!(parent(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn parents_are_created_once() {
        let dir = Scratch::new("parents");
        create_parents(&dir.bytes("a/b//c/file")).unwrap();
        assert!(dir.at("a/b/c").is_dir() && !dir.at("a/b/c/file").exists());
        create_parents(&dir.bytes("a/b/c/other")).unwrap();
        create_parents(b"here").unwrap();
    }

    #[test]
    fn an_error_names_the_parent() {
        let dir = Scratch::new("parents-file");
        write(&dir.bytes("f"), b"").unwrap();
        // As in ninja, a file in the place of a directory counts as existing; only creating something below it fails.
        create_parents(&dir.bytes("f/x")).unwrap();
        let mut expected = b"mkdir(".to_vec();
        expected.extend_from_slice(&dir.bytes("f/x"));
        expected.extend_from_slice(b"): Not a directory");
        assert_eq!(text(&create_parents(&dir.bytes("f/x/y")).unwrap_err()), expected);
    }

    #[test]
    fn content_is_written_read_and_replaced() {
        let dir = Scratch::new("content");
        let (f, g) = (dir.bytes("f"), dir.bytes("g"));
        write(&f, b"long content").unwrap();
        write(&f, b"\xff\0").unwrap();
        assert_eq!(read(&f).unwrap(), b"\xff\0");
        assert_eq!(read(&g).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(text(&read(&dir.bytes(".")).unwrap_err()), b"Is a directory");
        rename(&f, &g).unwrap();
        assert_eq!(read(&g).unwrap(), b"\xff\0");
    }

    #[test]
    fn a_file_beyond_the_limit_is_refused() {
        let dir = Scratch::new("too-large");
        fs::File::create(dir.at("f")).unwrap().set_len(MAX_LENGTH + 1).unwrap();
        assert_eq!(text(&read(&dir.bytes("f")).unwrap_err()), b"File too large");
    }

    #[test]
    fn remove_reports_whether_the_file_existed() {
        let dir = Scratch::new("remove");
        write(&dir.bytes("f"), b"").unwrap();
        fs::set_permissions(dir.at("f"), fs::Permissions::from_mode(0o400)).unwrap();
        fs::create_dir_all(dir.at("d/e")).unwrap();
        assert!(remove(&dir.bytes("f")).unwrap());
        assert!(!remove(&dir.bytes("f")).unwrap());
        assert!(remove(&dir.bytes("d/e")).unwrap());
        fs::create_dir(dir.at("d/e")).unwrap();
        let error = text(&remove(&dir.bytes("d")).unwrap_err());
        assert!(error.starts_with(b"remove(") && error.ends_with(b"/d): Directory not empty"));
    }
}
