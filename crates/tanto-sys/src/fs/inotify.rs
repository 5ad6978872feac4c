//! Reports changes in directories (inotify).

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// The sysctl that limits the watches of a user.
pub const WATCHES_SYSCTL: &str = "fs.inotify.max_user_watches";
/// The sysctl that limits the instances of `Inotify` of a user.
pub const INSTANCES_SYSCTL: &str = "fs.inotify.max_user_instances";

/// Changes of the content of an entry, and of the path of the directory.
const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);
/// The directory is no longer watched or has another path.
const GONE: u32 = libc::IN_DELETE_SELF | libc::IN_MOVE_SELF | libc::IN_UNMOUNT | libc::IN_IGNORED;
/// Size of an event without its name, in bytes: descriptor, mask, cookie and length of the name.
const HEAD: usize = 16;

/// A watched directory. An `Inotify` never reuses an id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WatchId(i32);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// An entry of the directory was created, removed, renamed or written, or its attributes changed.
    Entry(WatchId, Vec<u8>),
    /// The directory was removed, renamed or unmounted.
    Directory(WatchId),
    /// The kernel's queue overflowed: changes may be missing.
    Overflow,
}

/// A set of watched directories. Watches do not prevent unmounting.
#[derive(Debug)]
pub struct Inotify(File);

impl Inotify {
    /// Creates an empty set.
    pub fn new() -> io::Result<Inotify> {
        Ok(Inotify(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?.into()))
    }

    /// Watches a directory. A directory that is watched already keeps its id.
    pub fn watch(&self, dir: &Path) -> io::Result<WatchId> {
        Ok(WatchId(inotify::add_watch(&self.0, dir, EVENTS | WatchFlags::ONLYDIR)?))
    }

    /// Stops watching a directory. Earlier changes may still be reported.
    pub fn forget(&self, watch: WatchId) {
        // The watch may have ended by itself.
        let _ = inotify::remove_watch(&self.0, watch.0);
    }

    /// Returns the changes since the last call. Never blocks.
    pub fn changes(&self) -> io::Result<Vec<Change>> {
        let mut buffer = [0; 64 << 10];
        let mut changes = Vec::new();
        loop {
            match (&self.0).read(&mut buffer) {
                Ok(length) => parse(&buffer[..length], &mut changes),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(changes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsRawFd for Inotify {
    /// Readable when there are changes.
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Parses whole events, each with a name padded by NULs.
fn parse(mut events: &[u8], changes: &mut Vec<Change>) {
    let word = |event: &[u8], at: usize| event[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
    while events.len() >= HEAD {
        let (mask, length) = (word(events, 4), word(events, 12) as usize);
        let watch = WatchId(word(events, 0).cast_signed());
        let (event, rest) = events.split_at((HEAD + length).min(events.len()));
        let name = event[HEAD..].split(|&byte| byte == 0).next().unwrap_or_default();
        match mask {
            mask if mask & libc::IN_Q_OVERFLOW != 0 => changes.push(Change::Overflow),
            mask if mask & GONE != 0 => changes.push(Change::Directory(watch)),
            // An attribute of the directory itself changed.
            _ if name.is_empty() => {}
            _ => changes.push(Change::Entry(watch, name.to_vec())),
        }
        events = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tanto_testing::Scratch;

    /// Returns the names of changed entries, without immediate repetitions.
    fn names(inotify: &Inotify, watch: WatchId) -> Vec<String> {
        let name = |change| match change {
            Change::Entry(of, name) if of == watch => String::from_utf8(name).ok(),
            _ => None,
        };
        let mut names: Vec<String> = inotify.changes().unwrap().into_iter().filter_map(name).collect();
        names.dedup();
        names
    }

    #[test]
    fn changed_entries_are_named() {
        let dir = Scratch::new("inotify");
        dir.write("old", "");
        let inotify = Inotify::new().unwrap();
        let watch = inotify.watch(dir.path()).unwrap();
        assert_eq!(inotify.watch(&dir.at(".")).unwrap(), watch, "it has another path");
        assert!(inotify.changes().unwrap().is_empty());
        dir.write("new", "text");
        fs::rename(dir.at("old"), dir.at("other")).unwrap();
        fs::remove_file(dir.at("new")).unwrap();
        assert_eq!(names(&inotify, watch), ["new", "old", "other", "new"]);
        fs::File::open(dir.at("other")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(names(&inotify, watch), ["other"]);
        inotify.forget(watch);
        dir.write("new", "");
        assert_eq!(inotify.changes().unwrap(), [Change::Directory(watch)]);
    }

    #[test]
    fn removed_and_renamed_directories_are_reported() {
        let dir = Scratch::new("inotify-gone");
        let inotify = Inotify::new().unwrap();
        for name in ["removed", "renamed"] {
            fs::create_dir(dir.at(name)).unwrap();
        }
        let removed = inotify.watch(&dir.at("removed")).unwrap();
        let renamed = inotify.watch(&dir.at("renamed")).unwrap();
        fs::remove_dir(dir.at("removed")).unwrap();
        fs::rename(dir.at("renamed"), dir.at("elsewhere")).unwrap();
        let changes = inotify.changes().unwrap();
        assert!([removed, renamed].into_iter().all(|watch| changes.contains(&Change::Directory(watch))));
        assert_eq!(inotify.watch(&dir.at("removed")).unwrap_err().kind(), ErrorKind::NotFound);
        dir.write("file", "");
        assert_eq!(inotify.watch(&dir.at("file")).unwrap_err().kind(), ErrorKind::NotADirectory);
    }

    #[test]
    fn an_overflow_is_a_change() {
        let mut event = [0_u8; HEAD + 16];
        event[..4].copy_from_slice(&(-1_i32).to_ne_bytes());
        event[4..8].copy_from_slice(&libc::IN_Q_OVERFLOW.to_ne_bytes());
        event[12..16].copy_from_slice(&16_u32.to_ne_bytes());
        let mut changes = Vec::new();
        parse(&[&event[..], &event[..]].concat(), &mut changes);
        assert_eq!(changes, [Change::Overflow, Change::Overflow]);
        parse(&event[..HEAD - 1], &mut changes);
        assert_eq!(changes.len(), 2, "half an event is none");
    }
}
