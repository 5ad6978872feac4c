//! Files come from a directory that others could write to into one that all trust. Does not know what is in them.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use tanto_sys::{file, user};

/// What a transfer is called that may be gone on with.
const UNFINISHED: &str = ".pkgsrc.resume";

/// The files below a directory, as they are called from there, in order. Nothing else, and nothing behind links: who wrote
/// there may have left what leads elsewhere.
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
            } else if kind.is_file() && !name.as_os_str().to_string_lossy().ends_with(UNFINISHED) {
                files.push(name);
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// A file gets its place, if nobody has it already, and stays there even if the machine stops.
pub(super) fn publish(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(to).is_ok() {
        return Ok(());
    }
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    file::open_itself(from)?.sync_all()?;
    bring(from, to)
}

/// A file gets its place, whole or not at all, and is ours alone then.
pub(crate) fn bring(from: &Path, to: &Path) -> io::Result<()> {
    let mut content = file::open_itself(from)?;
    if !content.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    // One that has another name could be changed by it.
    if content.metadata()?.nlink() == 1 {
        if content.metadata()?.uid() != user::own() {
            fchown(&content, Some(user::own()), None)?;
        }
        content.set_permissions(Permissions::from_mode(0o644))?;
        match fs::rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            renamed => return renamed,
        }
    }
    file::replace(to, |out| io::copy(&mut content, out).map(drop))
}
