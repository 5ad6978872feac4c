//! Kinds of file systems, and what their timestamps mean.

use std::os::fd::AsFd;

use rustix::fs::fstatfs;

/// A kind of file system whose times are set by the kernel of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FsKind {
    /// As in `linux/magic.h`.
    magic: i64,
    pub(super) id: FsId,
    pub(super) change_times: ChangeTimes,
}

/// What the id of a file system identifies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FsId {
    /// The disk, also after a reboot.
    Disk,
    /// Nothing that lasts.
    Unknown,
}

/// The change times of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChangeTimes {
    /// Not set at each change.
    Unreliable,
    /// Set at each change.
    Reliable,
    /// Since Linux 6.13, no change gets an earlier time than one before it on any file system of this kind. Others read the
    /// clock themselves.
    Ordered,
}

const KINDS: [FsKind; 14] = {
    use ChangeTimes::{Ordered, Reliable, Unreliable};
    use FsId::{Disk, Unknown};
    [
        kind(0xef53, Disk, Ordered),            // ext2 to ext4
        kind(0x5846_5342, Disk, Ordered),       // XFS
        kind(0x9123_683e, Disk, Ordered),       // btrfs
        kind(0xf2f5_2010, Disk, Ordered),       // F2FS
        kind(0xca45_1a4e, Disk, Reliable),      // bcachefs
        kind(0x2fc1_2fc1, Disk, Reliable),      // ZFS
        kind(0x0102_1994, Unknown, Ordered),    // tmpfs
        kind(0x8584_58f6, Unknown, Reliable),   // ramfs
        kind(0x794c_7630, Unknown, Reliable),   // overlayfs
        kind(0x4d44, Unknown, Unreliable),      // FAT
        kind(0x2011_bab0, Unknown, Unreliable), // exFAT
        kind(0x5265_4973, Unknown, Unreliable), // ReiserFS
        kind(0x3153_464a, Unknown, Unreliable), // JFS
        kind(0x482b, Unknown, Unreliable),      // HFS+
    ]
};

const fn kind(magic: i64, id: FsId, change_times: ChangeTimes) -> FsKind {
    FsKind { magic, id, change_times }
}

impl FsKind {
    /// Returns the kind of a file's file system; `None` if it is unknown or another machine may set its times.
    pub(super) fn of(file: impl AsFd) -> Option<FsKind> {
        FsKind::with_magic(fstatfs(file).ok()?.f_type)
    }

    /// The same by the magic number.
    pub(super) fn with_magic(magic: i64) -> Option<FsKind> {
        KINDS.into_iter().find(|kind| kind.magic == magic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn kinds_are_found_by_their_numbers() {
        let mut magics = KINDS.map(|kind| kind.magic);
        magics.sort_unstable();
        assert!(magics.is_sorted_by(|a, b| a < b), "one kind for each number");
        assert_eq!(FsKind::of(File::open("/proc/self/stat").unwrap()), None);
        let memory = rustix::fs::memfd_create(c"kind", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(FsKind::of(memory), Some(kind(0x0102_1994, FsId::Unknown, ChangeTimes::Ordered)));
    }
}
