//! A moment that separates earlier changes of files from later ones.
//!
//! The clock of file systems steps a few hundred times a second, so a change can have the same time as an earlier one. Since
//! Linux 6.13, a file that was observed gets the real time at its next change, and no later change gets an earlier time.

use std::fs::File;

use rustix::fs::{MemfdFlags, Timespec, Timestamps, UTIME_NOW, futimens, memfd_create};

use crate::fs::file_stamp::{FileStamp, SECOND, WHOLE_SECONDS, coarse_now, fine_now, wait_until_after};
use crate::fs::fingerprint::FileSystems;
use crate::fs::stat::Stat;

/// Changes before this moment have earlier change times; changes after it have this time or later ones.
#[derive(Clone, Copy, Debug)]
pub struct ChangeBoundary {
    /// For file systems whose times are in the order of changes.
    exact: i64,
    /// For others on this machine, whose clock can lag behind.
    coarse: i64,
}

impl ChangeBoundary {
    /// Returns a boundary. Waits for a tick if that is necessary for files of the file systems that were observed.
    pub fn now(systems: &FileSystems) -> ChangeBoundary {
        let began = fine_now();
        let exact = real_change_time().filter(|&time| time > began);
        if exact.is_none() || !systems.all_have_ordered_times() {
            wait_until_after(began);
        }
        let coarse = coarse_now();
        ChangeBoundary { exact: exact.unwrap_or(coarse), coarse }
    }

    /// Returns whether a file was last changed before the boundary; false if that is uncertain.
    pub fn follows_change(&self, path: &[u8], file: &Stat, systems: &FileSystems) -> bool {
        let boundary = if systems.has_ordered_times(path, file) { self.exact } else { self.coarse };
        let granule = if file.ctime % SECOND == 0 { WHOLE_SECONDS } else { 0 };
        file.ctime.saturating_add(granule) < boundary
    }

    /// Returns whether the clock was set back to a time before the boundary.
    pub fn is_in_future(&self) -> bool {
        self.exact > fine_now()
    }
}

/// Returns the time of a change that is made now, to a file that was observed before.
fn real_change_time() -> Option<i64> {
    let file = File::from(memfd_create(c"change-time", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL).ok()?);
    file.metadata().ok()?;
    const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    futimens(&file, &Timestamps { last_access: NOW, last_modification: NOW }).ok()?;
    Some(FileStamp::of(&file).ok()?.ctime_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::stat::stat;
    use tanto_testing::Scratch;

    #[test]
    fn earlier_and_later_changes_are_told_apart() {
        let dir = Scratch::new("boundary");
        let systems = FileSystems::default();
        let change = |name: &str| {
            dir.write(name, "");
            (dir.bytes(name), stat(&dir.bytes(name)).unwrap().unwrap())
        };
        for number in 0..200 {
            // New files, and one that was observed before.
            let new = number.to_string();
            let before = [change(&new), change("f")];
            let boundary = ChangeBoundary::now(&systems);
            let after = [change(&new), change("f"), change(&format!("{number}.new"))];
            let follows = |(path, file): &(Vec<u8>, Stat)| boundary.follows_change(path, file, &systems);
            assert!(before.iter().all(follows) && !after.iter().any(follows));
            assert!(!boundary.is_in_future());
        }
    }

    #[test]
    fn file_systems_with_other_clocks_are_waited_for() {
        let systems = FileSystems::default();
        systems.observe(b"/proc/self/stat").unwrap();
        for _ in 0..5 {
            let began = fine_now();
            assert!(ChangeBoundary::now(&systems).coarse > began);
        }
    }

    #[test]
    fn uncertain_changes_are_not_before() {
        let systems = FileSystems::default();
        let (path, file) = (b"/proc/self/stat", stat(b"/proc/self/stat").unwrap().unwrap());
        let moment = 7 * SECOND;
        let boundary = ChangeBoundary { exact: moment, coarse: moment - 5 };
        let at = |ctime| boundary.follows_change(path, &Stat { ctime, ..file }, &systems);
        assert!(at(moment - 6) && !at(moment - 5), "its file system has its own clock");
        assert!(at(moment - 3 * SECOND) && !at(moment - SECOND), "whole seconds");
        let future = ChangeBoundary { exact: i64::MAX, coarse: 0 };
        assert!(future.is_in_future());
    }
}
