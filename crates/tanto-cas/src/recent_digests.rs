//! Digests of files that one part of a program has read or written, for another part that needs them shortly after.

use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tanto_sys::fs::stat::Stat;

use crate::FileDigest;

/// Shared by its clones.
#[derive(Clone, Default, Debug)]
pub struct RecentDigests(Arc<Mutex<ByInode>>);

/// By device and inode.
type ByInode = HashMap<(u64, u64), FileDigest, RandomState>;

impl RecentDigests {
    pub fn note(&self, found: FileDigest) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert((found.stat.device, found.stat.inode), found);
    }

    /// Returns the digest of a file if all of its metadata is as it was then.
    pub fn find(&self, stat: &Stat) -> Option<FileDigest> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(stat.device, stat.inode)).filter(|found| found.stat == *stat).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use tanto_sys::fs::fingerprint::{FileSystems, wait_for_known_files};
    use tanto_testing::Scratch;

    #[test]
    fn only_an_unchanged_file_is_found() {
        let dir = Scratch::new("recent-digests");
        dir.write("f", "one");
        dir.write("g", "one");
        wait_for_known_files();
        let stat = |name: &str| Stat::of(&File::open(dir.at(name)).unwrap()).unwrap();
        let found = FileDigest::of(&dir.at("f"), &FileSystems::default()).unwrap().unwrap();
        let recent = RecentDigests::default();
        recent.clone().note(found);
        assert_eq!(recent.find(&stat("f")), Some(found));
        assert_eq!(recent.find(&stat("g")), None);
        let mtime = fs::metadata(dir.at("f")).unwrap().modified().unwrap();
        dir.write("f", "two");
        File::options().write(true).open(dir.at("f")).unwrap().set_modified(mtime).unwrap();
        assert_eq!(recent.find(&stat("f")), None);
    }
}
