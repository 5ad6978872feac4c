//! Moves files from directories where others can write into trusted ones, atomically.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use tanto_sys::fs::{file, lock};
use tanto_sys::user;

use super::urls;

/// The suffix of a transfer that can be resumed.
const UNFINISHED: &str = ".pkgsrc.resume";

/// Returns the regular files below a directory, as sorted relative paths. Does not follow links, which an untrusted
/// process could have planted.
pub(super) fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, mut open) = (Vec::new(), vec![PathBuf::new()]);
    if !fs::symlink_metadata(dir)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    while let Some(within) = open.pop() {
        for entry in fs::read_dir(dir.join(&within))? {
            let entry = entry?;
            let (name, kind) = (within.join(entry.file_name()), entry.file_type()?);
            if kind.is_dir() {
                open.push(name);
            } else if kind.is_file()
                && !urls::is_script_or_list(&name)
                && !name.as_os_str().to_string_lossy().ends_with(UNFINISHED)
            {
                files.push(name);
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Moves a file to its place durably, unless that exists.
pub(crate) fn publish(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(to).is_ok() {
        return Ok(());
    }
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    move_file(from, to, true).map(drop)
}

/// Moves a file to its place atomically, and makes it ours alone; `durable`: durably. While the returned file is open,
/// `leftovers` does not return the new one.
pub(crate) fn move_file(from: &Path, to: &Path, durable: bool) -> io::Result<File> {
    let mut content = file::open_no_follow(from)?;
    let data = content.metadata()?;
    if !data.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    // A file with another hard link could be changed through that.
    if data.nlink() == 1 {
        if data.uid() != user::effective() {
            fchown(&content, Some(user::effective()), None)?;
        }
        content.set_permissions(Permissions::from_mode(READABLE))?;
        // If a writer holds the lock, this continues without it.
        lock::try_lock_exclusive(&content)?;
        if durable {
            content.sync_all()?;
        }
        match fs::rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            renamed => return renamed.map(|()| content),
        }
    }
    copy(&mut content, to, durable)
}

/// Copies a file from another file system, or one that others could change.
fn copy(content: &mut File, to: &Path, durable: bool) -> io::Result<File> {
    let mut copied = NewFile::create(to.with_file_name(temp_name(&std::process::id().to_string())))?;
    io::copy(content, &mut copied.file)?;
    copied.publish(to, durable)
}

/// The mode of files that others may read.
const READABLE: u32 = 0o644;

/// A file under a temporary name. It is removed unless it is published.
pub(crate) struct NewFile {
    /// It has a lock.
    pub file: File,
    path: TempPath,
}

impl NewFile {
    /// Creates an empty file. `path` ends with a `temp_name`.
    pub fn create(path: PathBuf) -> io::Result<NewFile> {
        Ok(NewFile { file: claim(&path)?, path: TempPath(Some(path)) })
    }

    /// Makes the file readable, and moves it to its place; `durable`: its content is on the disk before. While the returned
    /// file is open, `leftovers` does not return the new one.
    pub fn publish(self, to: &Path, durable: bool) -> io::Result<File> {
        self.file.set_permissions(Permissions::from_mode(READABLE))?;
        if durable {
            self.file.sync_all()?;
        }
        self.path.rename(to)?;
        Ok(self.file)
    }
}

/// The path of a file that is removed, unless it gets another name.
struct TempPath(Option<PathBuf>);

impl TempPath {
    fn rename(mut self, to: &Path) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |path| fs::rename(path, to))?;
        self.0 = None;
        Ok(())
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // If it cannot be removed now, the next preparation does.
            let _ = fs::remove_file(path);
        }
    }
}

/// Creates an empty file with a lock that lasts while it is open. Fails if another process holds the lock.
pub(super) fn claim(path: &Path) -> io::Result<File> {
    loop {
        let claimed = lock::open_lock_file(path)?;
        if !lock::try_lock_exclusive(&claimed)? {
            return Err(io::Error::other("another process is writing it"));
        }
        // Another process may have removed it as a leftover before the lock.
        let data = claimed.metadata()?;
        if fs::symlink_metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == (data.dev(), data.ino())) {
            claimed.set_len(0)?;
            return Ok(claimed);
        }
    }
}

const PREFIX: &str = ".tanto-";
const SUFFIX: &str = ".new";

/// Returns the name of a temporary file; `id` is unique in its directory.
pub(crate) fn temp_name(id: &str) -> String {
    format!("{PREFIX}{id}{SUFFIX}")
}

/// Returns temporary files of killed processes in a directory tree, locked while they are open.
pub fn leftovers(dir: &Path) -> Vec<(PathBuf, File)> {
    let (mut left, mut open) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = open.pop() {
        // Unreadable directories contain no files of ours.
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let (Ok(kind), name) = (entry.file_type(), entry.file_name()) else { continue };
            let name = name.as_encoded_bytes();
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() && name.starts_with(PREFIX.as_bytes()) && name.ends_with(SUFFIX.as_bytes()) {
                left.extend(lock_if_left(entry.path()));
            }
        }
    }
    left.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    left
}

fn lock_if_left(path: PathBuf) -> Option<(PathBuf, File)> {
    let file = file::open_no_follow(&path).ok()?;
    lock::try_lock_exclusive(&file).ok()?.then_some((path, file))
}
