//! Copies and removes directory trees.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::Path;

use crate::error::call_error;

/// Copies the files, directories and symbolic links of a directory, with permissions and owners. Creates `to` if it
/// does not exist, replaces existing files, and skips files that cannot be read.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    create_like(from, to)?;
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        entries => in_call("opendir", from, entries)?,
    };
    for entry in entries {
        let entry = in_call("readdir", from, entry)?;
        copy_one(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Copies the directories and symbolic links directly in a directory, without the contents of the directories.
pub fn copy_outline(from: &Path, to: &Path) -> io::Result<()> {
    create_like(from, to)?;
    for entry in in_call("opendir", from, fs::read_dir(from))? {
        let (from, to) = in_call("readdir", from, entry).map(|it| (it.path(), to.join(it.file_name())))?;
        // It may have been removed meanwhile.
        let Ok(data) = fs::symlink_metadata(&from) else { continue };
        if data.is_dir() {
            create_like(&from, &to)?;
        } else if data.is_symlink() {
            copy_one(&from, &to)?;
        }
    }
    Ok(())
}

fn create_like(from: &Path, to: &Path) -> io::Result<()> {
    if !to.is_dir() {
        in_call("mkdir", to, fs::create_dir(to))?;
    }
    copy_mode(from, to)
}

fn copy_one(from: &Path, to: &Path) -> io::Result<()> {
    let data = in_call("stat", from, fs::symlink_metadata(from))?;
    let kind = data.file_type();
    if kind.is_dir() {
        return copy(from, to);
    }
    if kind.is_socket() || kind.is_fifo() || kind.is_block_device() || kind.is_char_device() {
        return Ok(());
    }
    if fs::symlink_metadata(to).is_ok() {
        in_call("unlink", to, fs::remove_file(to))?;
    }
    if kind.is_symlink() {
        in_call("symlink", to, symlink(fs::read_link(from)?, to))?;
    } else {
        match fs::copy(from, to) {
            // Files that this user cannot read are left out.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            copied => in_call("copy", from, copied)?,
        };
    }
    copy_owner(&data, to)
}

/// Copies permissions and owner of a directory.
pub fn copy_mode(from: &Path, to: &Path) -> io::Result<()> {
    let data = in_call("stat", from, fs::metadata(from))?;
    copy_owner(&data, to)?;
    in_call("chmod", to, fs::set_permissions(to, fs::Permissions::from_mode(data.mode() & 0o7777)))
}

/// Copies the owner. A user that has no id in this user namespace is replaced by the current one.
fn copy_owner(data: &Metadata, path: &Path) -> io::Result<()> {
    match lchown(path, Some(data.uid()), Some(data.gid())) {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) => {
            Err(call_error("chown", Some(path.as_os_str().as_bytes()), error))
        }
        _ => Ok(()),
    }
}

/// Returns the disk usage of a directory in KiB, like `du -skx`: files with several links count once. Ignores files
/// that vanish or cannot be read.
pub fn disk_usage_kib(dir: &Path) -> u64 {
    let Ok(data) = fs::symlink_metadata(dir) else { return 0 };
    let (disk, mut blocks) = (data.dev(), data.blocks());
    let (mut open, mut known) = (vec![dir.to_owned()], HashSet::new());
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(data) = entry.metadata() else { continue };
            if data.dev() != disk || data.nlink() > 1 && !data.is_dir() && !known.insert(data.ino()) {
                continue;
            }
            blocks += data.blocks();
            if data.is_dir() {
                open.push(entry.path());
            }
        }
    }
    blocks.div_ceil(2)
}

/// Removes a directory tree if it exists.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => in_call("rm", path, Err(error)),
        _ => Ok(()),
    }
}

fn in_call<T>(call: &'static str, about: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| call_error(call, Some(about.as_os_str().as_bytes()), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn disk_usage_matches_du() {
        let place = Scratch::new("tree-size");
        place.write("top/a/b/large", "x".repeat(3 << 20));
        place.write("top/small", "x");
        fs::hard_link(place.at("top/a/b/large"), place.at("top/again")).unwrap();
        symlink("a", place.at("top/link")).unwrap();
        symlink(place.path(), place.at("top/up")).unwrap();
        let du = std::process::Command::new("du").arg("-skx").arg(place.at("top")).output().unwrap();
        let expected = String::from_utf8(du.stdout).unwrap();
        let expected: u64 = expected.split_ascii_whitespace().next().unwrap().parse().unwrap();
        assert_eq!(disk_usage_kib(&place.at("top")), expected);
        assert!((3 << 10..6 << 10).contains(&expected));
        assert_eq!(disk_usage_kib(&place.at("none")), 0);
    }

    #[test]
    fn an_outline_contains_no_files() {
        let place = Scratch::new("tree-outline");
        place.write("from/a/b/file", "one");
        place.write("from/other", "two");
        symlink("a", place.at("from/link")).unwrap();
        fs::set_permissions(place.at("from/a"), fs::Permissions::from_mode(0o2771)).unwrap();
        copy_outline(&place.at("from"), &place.at("to")).unwrap();
        copy_outline(&place.at("from"), &place.at("to")).unwrap();
        assert_eq!(fs::metadata(place.at("to/a")).unwrap().mode() & 0o7777, 0o2771);
        assert_eq!(fs::read_link(place.at("to/link")).unwrap(), Path::new("a"));
        assert!(!place.at("to/a/b").exists() && !place.at("to/other").exists());
    }

    #[test]
    fn a_copy_is_like_the_original() {
        let place = Scratch::new("tree");
        place.write("from/a/file", "one");
        place.write("from/other", "two");
        symlink("a/file", place.at("from/link")).unwrap();
        fs::set_permissions(place.at("from/a"), fs::Permissions::from_mode(0o751)).unwrap();
        fs::set_permissions(place.at("from/a/file"), fs::Permissions::from_mode(0o640)).unwrap();
        place.write("to/other", "older");
        place.write("to/more", "stays");
        copy(&place.at("from"), &place.at("to")).unwrap();
        let text = |path: &str| fs::read_to_string(place.at(path)).unwrap();
        assert_eq!([text("to/a/file"), text("to/other"), text("to/more")], ["one", "two", "stays"]);
        assert_eq!(fs::read_link(place.at("to/link")).unwrap(), Path::new("a/file"));
        let mode = |path: &str| fs::metadata(place.at(path)).unwrap().mode() & 0o777;
        assert_eq!((mode("to/a"), mode("to/a/file")), (0o751, 0o640));
        copy(&place.at("from"), &place.at("to")).unwrap();
        remove(&place.at("to")).unwrap();
        remove(&place.at("to")).unwrap();
        assert!(!place.at("to").exists() && place.at("from/link").exists());
        assert!(copy(&place.at("none"), &place.at("to")).is_err());
    }
}
