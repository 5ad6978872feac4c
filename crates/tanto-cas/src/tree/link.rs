//! Makes a directory that shares unchanged files with another one.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use tanto_sys::machine::cpu;
use tanto_sys::threads::map_parallel;

use super::apply::DIR_MODE;
use super::error::called;
use super::{ScanOptions, TreeError};
use crate::Manifest;
use crate::manifest::{TreeEntry, TreeMode};

/// Entries that a thread takes at a time.
const BATCH: usize = 256;

/// Makes the new directory `to` of the files and links that `from`, which is equal to `before`, has in common with
/// `wanted`, as hard links. Returns the manifest of the new directory: it lacks files that cannot be linked. Call `apply`
/// for the rest. Nothing may write to the files of either directory afterwards.
pub fn link(
    from: &Path,
    before: &Manifest,
    to: &Path,
    wanted: &Manifest,
    options: &ScanOptions,
) -> Result<Manifest, TreeError> {
    called("mkdir", to.as_os_str().as_bytes(), fs::create_dir(to))?;
    let common = before.in_common(wanted).filter(|entry| entry.mode != TreeMode::EmptyDir);
    let common: Vec<&TreeEntry> = common.collect();
    let batches = common.chunks(BATCH).collect();
    let link_all = |batch: &[&TreeEntry]| batch.iter().filter(|it| is_linked(from, to, it)).copied().cloned().collect();
    let linked: Vec<Vec<TreeEntry>> = map_parallel(options.threads.limit(cpu::count()), batches, link_all);
    Ok(Manifest::new(linked.into_iter().flatten().collect(), &options.limits)?)
}

fn is_linked(from: &Path, to: &Path, entry: &TreeEntry) -> bool {
    let path = Path::new(OsStr::from_bytes(&entry.path));
    let (from, to) = (from.join(path), to.join(path));
    match fs::hard_link(&from, &to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = to.parent().map_or(Ok(()), |dir| DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir));
            parent.and_then(|()| fs::hard_link(&from, &to)).is_ok()
        }
        linked => linked.is_ok(),
    }
}
