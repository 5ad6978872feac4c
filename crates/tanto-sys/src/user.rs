//! Users and owners of files.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// Returns the effective user id.
pub fn effective() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the permissions that new files do not get (`umask`).
pub fn file_mode_mask() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(mask.trim(), 8).ok()
}

/// Describes the users and groups of this process, and the permissions that new files do not get.
pub fn credentials() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_one = |line: &&str| ["Umask:", "Uid:", "Gid:", "Groups:"].iter().any(|name| line.starts_with(name));
    status.lines().filter(is_one).collect::<Vec<_>>().join("\n")
}

/// Returns the owner of `path`; follows symbolic links.
pub fn owner(path: &[u8]) -> io::Result<u32> {
    Ok(fs::metadata(OsStr::from_bytes(path))?.uid())
}

/// Returns the ids of a user and its group.
pub fn lookup(name: &str) -> io::Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    let numbers = users.lines().find_map(|line| {
        let mut fields = line.strip_prefix(name)?.strip_prefix(':')?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    numbers.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no user '{name}'")))
}

/// Returns whether files of this owner can be trusted: root's and our own.
pub fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == effective()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn created_files_belong_to_this_user() {
        let dir = Scratch::new("user");
        assert_eq!(owner(&dir.bytes("")).unwrap(), effective());
        assert!(owner(&dir.bytes("none")).is_err());
    }

    #[test]
    fn users_are_found_by_name() {
        assert_eq!(lookup("root").unwrap(), (0, 0));
        assert!(["", "roo", "root:x", "no such user"].iter().all(|name| lookup(name).is_err()));
    }

    #[test]
    fn this_user_and_root_are_trusted() {
        assert!(is_trusted(effective()) && is_trusted(0) && !is_trusted(effective() + 1));
    }
}
