//! Files that only this user can write, such as those below `.tanto/`.
//!
//! They record commands and their output, and Tanto trusts their contents. Files that other users could write are
//! ignored.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::fs::file;
use crate::user;

/// Creates the state directory, excluded from version control.
pub fn create_state_dir(top: &Path) -> io::Result<()> {
    // Only for a new directory: the user may have removed the file.
    if create_dir(top)? { fs::write(top.join(".gitignore"), "*\n") } else { Ok(()) }
}

/// Creates a directory that only this user can access; returns false if it exists.
pub fn create_dir(dir: &Path) -> io::Result<bool> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        made => made.map(|()| true),
    }
}

/// Returns whether only this user can write to `dir`, a directory in `top`.
pub fn is_private_dir(top: &Path, dir: &Path) -> bool {
    let is_trusted = |data: Metadata| user::is_trusted(data.uid());
    fs::metadata(top).is_ok_and(is_trusted) && fs::symlink_metadata(dir).is_ok_and(|dir| is_ours(&dir))
}

/// Creates a file for writing. Fails if it exists.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a file for reading. Fails with `PermissionDenied` if other users can write it.
pub fn open(path: &Path) -> io::Result<File> {
    let file = file::open_no_follow(path)?;
    let data = file.metadata()?;
    if data.is_file() && is_ours(&data) { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Opens a file for writing at its end. Fails with `PermissionDenied` if other users can write it.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let data = file.metadata()?;
    if data.is_file() && is_ours(&data) { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Returns whether only this user can write it.
fn is_ours(data: &Metadata) -> bool {
    user::is_trusted(data.uid()) && data.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tanto_testing::Scratch;

    #[test]
    fn a_directory_is_created_once_for_its_owner() {
        let place = Scratch::new("own");
        let top = place.at(".tanto");
        create_state_dir(&top).unwrap();
        assert_eq!(fs::metadata(&top).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::read_to_string(top.join(".gitignore")).unwrap(), "*\n");
        fs::remove_file(top.join(".gitignore")).unwrap();
        create_state_dir(&top).unwrap();
        assert!(!top.join(".gitignore").exists(), "a removed .gitignore is not created again");
        assert!(!create_dir(&top).unwrap());
        assert!(create_dir(&place.at("no/dir")).is_err());
    }

    #[test]
    fn files_writable_by_others_are_not_private() {
        let place = Scratch::new("own-safe");
        let (top, dir) = (place.at("t"), place.at("t/d"));
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_private_dir(&top, &dir) && !is_private_dir(&top, &place.at("t/none")));
        let file = place.at("t/f");
        create(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert!(create(&file).is_err() && open(&file).is_ok() && open(&dir).is_err());
        assert!(open_to_append(&file).is_ok() && open_to_append(&dir).is_err());
        for path in [&dir, &file] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o772)).unwrap();
        }
        assert!(!is_private_dir(&top, &dir) && open(&file).is_err() && open_to_append(&file).is_err());
        std::os::unix::fs::symlink("d", place.at("t/l")).unwrap();
        assert!(!is_private_dir(&top, &place.at("t/l")));
    }
}
