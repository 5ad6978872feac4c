//! Fingerprints of files: a number that changes whenever the content does, as far as metadata can show it.
//!
//! A fingerprint covers the device, the inode, the size, both times, and the identity of the file system. File systems
//! on disks are identified by their own id, which survives a reboot. All others are identified by their mount in this boot:
//! images that were made by the same tool can have equal ids, inodes and times.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, StatxFlags, Timespec, Timestamps, UTIME_OMIT, fstatfs, fstatvfs, open, statx, utimensat,
};

use crate::fs::file;
use crate::fs::file_stamp::{SECOND, WHOLE_SECONDS, coarse_resolution, fine_now, wait_until_after};
use crate::fs::fs_kind::{ChangeTimes, FsId, FsKind};
use crate::fs::stat::{FileKind, Stat, stat};
use crate::process::pid_identity::boot_id;
use crate::user;

/// Equal fingerprints of a path mean equal content if the file system sets change times and the file was not changed
/// twice within one tick of its clock: see `Trust`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    /// Of a file that is missing or could not be examined.
    pub const NONE: Fingerprint = Fingerprint(0);
}

/// What one `stat` tells about a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileState {
    /// 0 if the file is missing, `UNKNOWN_MTIME` after an error.
    pub mtime: i64,
    pub fingerprint: Fingerprint,
}

impl FileState {
    /// Returns whether the times of the file have fractions of a second, so that its file system stores them.
    pub fn has_fine_times(&self) -> bool {
        self.mtime % SECOND != 0
    }
}

/// What an equal fingerprint means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// The content is the same.
    Known,
    /// The file had just been changed when it was read: another change in the same tick could have the same times.
    Racy,
    /// The file system does not promise to set the change time.
    Never,
}

/// The file systems that were seen, by device. Create a new value for each scan: mounts can change between two scans.
#[derive(Default, Debug)]
pub struct FileSystems {
    known: RwLock<Vec<FileSystem>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FileSystem {
    device: u64,
    /// Of the file system, if it is on a disk.
    durable_id: Option<u64>,
    mount_id: u64,
    change_times: ChangeTimes,
}

/// Observes several files: most neighbours of a sorted list are on the same file system.
pub(crate) struct Observer<'s> {
    systems: &'s FileSystems,
    /// That of the last file.
    last: Option<FileSystem>,
}

/// Two ticks of the slowest clock.
const MAX_TICKS: i64 = SECOND / 50;

/// `STATX_MNT_ID_UNIQUE`, since Linux 6.8: an id that is not used again before the next boot.
const UNIQUE_MOUNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x4000);

impl FileSystems {
    /// Returns the state of a file; that of a missing file is the default.
    pub fn observe(&self, path: &[u8]) -> io::Result<FileState> {
        Ok(stat(path)?.map_or_else(FileState::default, |found| self.state_of(path, &found)))
    }

    /// Returns the state of a file whose metadata was read just now.
    pub fn state_of(&self, path: &[u8], found: &Stat) -> FileState {
        let open = || open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from);
        Observer::new(self).state_of(found, open)
    }

    /// Returns whether a file that was observed is on a file system with an id of its own, which other disks and images do not
    /// have.
    pub fn is_on_disk(&self, found: &Stat) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().any(|it| it.device == found.device && it.durable_id.is_some())
    }

    /// Returns whether the file system of a file sets change times, so that a change of content changes the fingerprint.
    pub fn sets_change_times(&self, path: &[u8]) -> bool {
        let file_system = stat(path).ok().flatten().and_then(|found| self.file_system_at(path, &found));
        file_system.is_some_and(|it| it.change_times != ChangeTimes::Unreliable)
    }

    /// Returns whether the file with this metadata is on a file system whose times are in the order of changes, since Linux
    /// 6.13.
    pub(super) fn has_ordered_times(&self, path: &[u8], found: &Stat) -> bool {
        self.file_system_at(path, found).is_some_and(|it| it.change_times == ChangeTimes::Ordered)
    }

    /// Returns whether all file systems that were observed are of this kind.
    pub(super) fn all_have_ordered_times(&self) -> bool {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .all(|it| it.change_times == ChangeTimes::Ordered)
    }

    fn file_system_at(&self, path: &[u8], found: &Stat) -> Option<FileSystem> {
        self.file_system(found, || open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from))
    }

    /// Sets the mtime of a file. Fails if it is a symbolic link, not regular, of another user, has several links, or
    /// has another fingerprint than `expected`. Returns the new state.
    pub fn renew(&self, path: &[u8], expected: Fingerprint, mtime: i64) -> io::Result<FileState> {
        let before = fs::symlink_metadata(file::path(path))?;
        let observe = |data: &Metadata| {
            let open = || open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
            let state = Observer::new(self).state_of(&Stat::of_metadata(data)?, || open().map_err(io::Error::from));
            Ok::<_, io::Error>(state)
        };
        if !is_own(&before) || observe(&before)?.fingerprint != expected {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mtime = Timespec { tv_sec: mtime.div_euclid(SECOND), tv_nsec: mtime.rem_euclid(SECOND) };
        const OMIT: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let times = Timestamps { last_access: OMIT, last_modification: mtime };
        utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        let after = fs::symlink_metadata(file::path(path))?;
        let is_same = |part: fn(&Metadata) -> u64| part(&before) == part(&after);
        if !is_same(MetadataExt::ino) || !is_same(MetadataExt::dev) || !is_same(MetadataExt::size) || !is_own(&after) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        observe(&after)
    }

    /// Returns whether `renew` may set the mtime of this file.
    pub fn may_renew(path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|data| is_own(&data))
    }

    /// Returns the state of an open file.
    pub fn state(&self, file: &File) -> io::Result<FileState> {
        let stat = Stat::of(file)?;
        Ok(Observer::new(self).state_of(&stat, || Ok(file.as_fd())))
    }

    /// Returns the state of an open file with this metadata, and what equal fingerprints will mean if its content is read
    /// after `began`, a value of `coarse_now`.
    pub fn describe(&self, file: &File, stat: &Stat, began: i64) -> (FileState, Trust) {
        let mut observer = Observer::new(self);
        let state = observer.state_of(stat, || Ok(file.as_fd()));
        if !observer.last.is_some_and(|it| it.change_times != ChangeTimes::Unreliable) {
            return (state, Trust::Never);
        }
        let granule = if stat.ctime % SECOND == 0 { WHOLE_SECONDS } else { ticks() };
        let is_racy = stat.ctime >= began.saturating_sub(granule);
        (state, if is_racy { Trust::Racy } else { Trust::Known })
    }

    fn file_system<Fd: AsFd>(&self, stat: &Stat, open: impl FnOnce() -> io::Result<Fd>) -> Option<FileSystem> {
        let find = |known: &[FileSystem]| known.iter().copied().find(|it| it.device == stat.device);
        if let Some(found) = find(&self.known.read().unwrap_or_else(PoisonError::into_inner)) {
            return Some(found);
        }
        let new = open().and_then(|file| FileSystem::of(stat.device, file.as_fd())).ok()?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been first, through another mount.
        Some(find(&known).unwrap_or_else(|| {
            known.push(new);
            new
        }))
    }
}

impl<'s> Observer<'s> {
    pub(crate) fn new(systems: &'s FileSystems) -> Observer<'s> {
        Observer { systems, last: None }
    }

    /// `open` opens the file; it is called for the first file of each device.
    pub(crate) fn state_of<Fd: AsFd>(&mut self, stat: &Stat, open: impl FnOnce() -> io::Result<Fd>) -> FileState {
        if self.last.is_none_or(|it| it.device != stat.device) {
            self.last = self.systems.file_system(stat, open);
        }
        let fingerprint = self.last.map_or(Fingerprint::NONE, |file_system| file_system.fingerprint(stat));
        FileState { mtime: stat.mtime, fingerprint }
    }
}

/// Waits until files that were changed or renewed before this call are no longer racy.
pub fn wait_for_known_files() {
    wait_until_known(fine_now());
}

/// Waits until files that were last changed at this time, a value of `fine_now`, are no longer racy.
pub fn wait_until_known(changed: i64) {
    wait_until_after(changed.saturating_add(ticks()));
}

/// Returns how long after its last change a file is no longer racy on most file systems.
pub fn time_until_known() -> Duration {
    Duration::from_nanos(2 * ticks().unsigned_abs())
}

/// Returns two ticks of the clock of file systems, in nanoseconds: two changes that are further apart have different times.
fn ticks() -> i64 {
    static TICKS: OnceLock<i64> = OnceLock::new();
    *TICKS.get_or_init(|| (2 * coarse_resolution()).clamp(1, MAX_TICKS))
}

/// Returns whether this is a regular file of this user without other names, which could be in another build directory.
fn is_own(data: &Metadata) -> bool {
    data.is_file() && data.nlink() == 1 && data.uid() == user::effective()
}

impl FileSystem {
    fn of(device: u64, file: BorrowedFd<'_>) -> io::Result<FileSystem> {
        let magic = fstatfs(file)?.f_type;
        let kind = FsKind::with_magic(magic);
        let id = mix(fstatvfs(file)?.f_fsid, magic.cast_unsigned());
        Ok(FileSystem {
            device,
            durable_id: kind.filter(|kind| kind.id == FsId::Disk).map(|_| id),
            mount_id: mix(mix(id, boot()), mix(device, mount_id(file))),
            change_times: kind.map_or(ChangeTimes::Unreliable, |kind| kind.change_times),
        })
    }

    fn fingerprint(&self, stat: &Stat) -> Fingerprint {
        // Tools that make images set all times to one whole second.
        let id = self.durable_id.filter(|_| stat.ctime % SECOND != 0).unwrap_or(self.mount_id);
        let times = mix(stat.mtime.cast_unsigned(), stat.ctime.cast_unsigned());
        let kind = u64::from(stat.kind != FileKind::File);
        Fingerprint(mix(mix(id, stat.inode), mix(times, mix(stat.size, kind))).max(1))
    }
}

/// Returns a number of this boot: the ids of mounts begin anew at each.
fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| boot_id().bytes().fold(0, |number, byte| mix(number, byte.into())))
}

/// Returns the id of the mount; 0 if the kernel has none (before 5.8).
fn mount_id(file: BorrowedFd<'_>) -> u64 {
    let ask = |wanted| {
        let found = statx(file, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
        (found.stx_mask & wanted.bits() != 0).then_some(found.stx_mnt_id)
    };
    ask(UNIQUE_MOUNT_ID).or_else(|| ask(StatxFlags::MNT_ID)).unwrap_or(0)
}

/// Mixes two numbers; the order counts.
fn mix(a: u64, b: u64) -> u64 {
    const KEYS: [u64; 2] = [0x6a09_e667_f3bc_c908, 0xbb67_ae85_84ca_a73b];
    let product = u128::from(a ^ KEYS[0]) * u128::from(b.rotate_left(32) ^ KEYS[1]);
    // A product can lose bits of its factors, so both are added.
    (product as u64 ^ (product >> 64) as u64).wrapping_add(a).wrapping_add(b.rotate_left(17))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::file_stamp::coarse_now;
    use std::fs::{hard_link, rename};
    use std::os::unix::fs::symlink;
    use std::time::UNIX_EPOCH;
    use tanto_testing::Scratch;

    fn state(path: &std::path::Path) -> FileState {
        FileSystems::default().state(&File::open(path).unwrap()).unwrap()
    }

    #[test]
    fn every_part_counts() {
        let stat =
            Stat { kind: FileKind::File, size: 1, mtime: 2, ctime: 3, device: 4, inode: 5, is_executable: false };
        let disk = FileSystem { device: 4, durable_id: Some(6), mount_id: 9, change_times: ChangeTimes::Ordered };
        let others = [
            disk.fingerprint(&Stat { kind: FileKind::Directory, ..stat }),
            disk.fingerprint(&Stat { size: 2, ..stat }),
            disk.fingerprint(&Stat { mtime: 3, ..stat }),
            disk.fingerprint(&Stat { ctime: 2, ..stat }),
            disk.fingerprint(&Stat { mtime: 3, ctime: 2, ..stat }),
            disk.fingerprint(&Stat { inode: 1, size: 5, ..stat }),
            FileSystem { durable_id: Some(7), ..disk }.fingerprint(&stat),
            FileSystem { durable_id: None, ..disk }.fingerprint(&stat),
        ];
        let mut all: Vec<u64> = others.iter().map(|it| it.0).chain([disk.fingerprint(&stat).0]).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), others.len() + 1);
        assert!(!all.contains(&0));
    }

    #[test]
    fn whole_seconds_are_tied_to_the_mount() {
        let disk = FileSystem { device: 4, durable_id: Some(6), mount_id: 7, change_times: ChangeTimes::Ordered };
        let remounted = FileSystem { mount_id: 8, ..disk };
        let stat =
            |ctime| Stat { kind: FileKind::File, size: 1, mtime: 2, ctime, device: 4, inode: 5, is_executable: false };
        assert_eq!(disk.fingerprint(&stat(SECOND + 1)), remounted.fingerprint(&stat(SECOND + 1)));
        assert_ne!(disk.fingerprint(&stat(SECOND)), remounted.fingerprint(&stat(SECOND)));
    }

    #[test]
    fn another_file_with_the_same_times_and_size_differs() {
        let dir = Scratch::new("fingerprint");
        let time = UNIX_EPOCH + Duration::new(5, 7);
        for name in ["a", "b"] {
            dir.write(name, name);
            File::options().write(true).open(dir.at(name)).unwrap().set_modified(time).unwrap();
        }
        let before = state(&dir.at("a"));
        assert_eq!(state(&dir.at("a")), before);
        rename(dir.at("b"), dir.at("a")).unwrap();
        assert_eq!(state(&dir.at("a")).mtime, before.mtime);
        assert_ne!(state(&dir.at("a")).fingerprint, before.fingerprint);
        let before = state(&dir.at("a"));
        hard_link(dir.at("a"), dir.at("c")).unwrap();
        assert_eq!(state(&dir.at("c")), state(&dir.at("a")));
        fs::write(dir.at("a"), "x").unwrap();
        File::options().write(true).open(dir.at("a")).unwrap().set_modified(time).unwrap();
        assert_eq!(state(&dir.at("a")).mtime, before.mtime);
        assert_ne!(state(&dir.at("a")).fingerprint, before.fingerprint, "the change time differs");
    }

    #[test]
    fn only_own_files_that_did_not_change_are_renewed() {
        let dir = Scratch::new("fingerprint-renew");
        let systems = FileSystems::default();
        dir.write("f", "four");
        let before = systems.observe(&dir.bytes("f")).unwrap();
        assert_eq!(before, state(&dir.at("f")));
        let after = systems.renew(&dir.bytes("f"), before.fingerprint, 5 * SECOND + 7).unwrap();
        assert_eq!((after.mtime, after), (5 * SECOND + 7, systems.observe(&dir.bytes("f")).unwrap()));
        assert!(systems.renew(&dir.bytes("f"), before.fingerprint, 6 * SECOND).is_err(), "it has changed");
        symlink("f", dir.at("link")).unwrap();
        assert!(systems.renew(&dir.bytes("link"), after.fingerprint, 6 * SECOND).is_err());
        assert!(FileSystems::may_renew(&dir.at("f")) && !FileSystems::may_renew(&dir.at("link")));
        hard_link(dir.at("f"), dir.at("other")).unwrap();
        assert!(!FileSystems::may_renew(&dir.at("f")) && !FileSystems::may_renew(&dir.at(".")));
        let linked = systems.observe(&dir.bytes("f")).unwrap();
        assert!(systems.renew(&dir.bytes("f"), linked.fingerprint, 6 * SECOND).is_err());
        assert_eq!(systems.observe(&dir.bytes("none")).unwrap(), FileState::default());
    }

    #[test]
    fn files_become_known_after_two_ticks() {
        let dir = Scratch::new("fingerprint-known");
        assert!((1..=MAX_TICKS).contains(&ticks()));
        let wait_again = || wait_until_known(fine_now());
        for wait in [&wait_for_known_files as &dyn Fn(), &wait_again] {
            dir.write("f", "");
            wait();
            let file = File::open(dir.at("f")).unwrap();
            let stat = Stat::of(&file).unwrap();
            assert_eq!(FileSystems::default().describe(&file, &stat, coarse_now()).1, Trust::Known);
        }
    }

    #[test]
    fn fresh_files_are_racy_and_virtual_ones_are_never_trusted() {
        let dir = Scratch::new("fingerprint-trust");
        dir.write("f", "");
        let trust = |path: &std::path::Path, began| {
            let file = File::open(path).unwrap();
            FileSystems::default().describe(&file, &Stat::of(&file).unwrap(), began).1
        };
        let ctime = Stat::of(&File::open(dir.at("f")).unwrap()).unwrap().ctime;
        assert_eq!(trust(&dir.at("f"), ctime), Trust::Racy);
        assert_eq!(trust(&dir.at("f"), ctime + WHOLE_SECONDS + 1), Trust::Known);
        assert_eq!(trust("/proc/self/stat".as_ref(), i64::MAX), Trust::Never);
        let systems = FileSystems::default();
        assert!(systems.sets_change_times(&dir.bytes("f")) && !systems.sets_change_times(b"/proc/self/stat"));
        assert!(!systems.sets_change_times(&dir.bytes("none")));
    }
}
