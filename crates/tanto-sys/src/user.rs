//! Whose a file is. Does not know what others may do with it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// The user in whose name this process acts.
pub fn effective() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The user to whom `path` belongs; links are followed.
pub fn owner(path: &[u8]) -> io::Result<u32> {
    Ok(fs::metadata(OsStr::from_bytes(path))?.uid())
}

/// The numbers of the user of this name, and of its group.
pub fn lookup(name: &str) -> io::Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    let numbers = users.lines().find_map(|line| {
        let mut fields = line.strip_prefix(name)?.strip_prefix(':')?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    numbers.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no user '{name}'")))
}

/// Is what belongs to this user as good as our own? Whoever is root could have changed ours as well.
pub fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == effective()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn what_we_make_is_ours() {
        let dir = Scratch::new("user");
        assert_eq!(owner(&dir.bytes("")).unwrap(), effective());
        assert!(owner(&dir.bytes("none")).is_err());
    }

    #[test]
    fn users_have_names() {
        assert_eq!(lookup("root").unwrap(), (0, 0));
        assert!(["", "roo", "root:x", "no such user"].iter().all(|name| lookup(name).is_err()));
    }

    #[test]
    fn ourselves_and_root_are_trusted() {
        assert!(is_trusted(effective()) && is_trusted(0) && !is_trusted(effective() + 1));
    }
}
