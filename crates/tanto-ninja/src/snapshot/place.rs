//! Where snapshots lie: `.tanto/snapshots/` in the directory of the build. Does not know what is in them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tanto_sys::file::open_itself;
use tanto_sys::{lock, own};

/// Snapshots in one directory. Fewer, and who builds with many manifests by turns loads some of them each time; more,
/// and what nobody needs any more takes room on the disk.
const MOST: usize = 8;

/// The end of the name of one that is being written.
const UNFINISHED: &str = "new";

/// The place of one snapshot.
#[derive(Clone)]
pub(super) struct Place {
    /// `.tanto`
    top: PathBuf,
    /// `.tanto/snapshots`
    dir: PathBuf,
    file: PathBuf,
}

impl Place {
    pub(super) fn new(dir: &[u8], name: &str) -> Place {
        let top = Path::new(OsStr::from_bytes(dir)).join(".tanto");
        let dir = top.join("snapshots");
        Place { file: dir.join(name), top, dir }
    }

    /// The file, if it is there and only we can have written it.
    pub(super) fn open(&self) -> Option<File> {
        own::open(&self.file).ok().filter(|_| self.is_safe())
    }

    /// May nobody else put something into the directory?
    fn is_safe(&self) -> bool {
        own::is_safe(&self.top, &self.dir)
    }

    pub(super) fn remove(&self) {
        // One that cannot be removed is not used again by this run, and found out again by the next.
        let _ = fs::remove_file(&self.file);
    }

    /// Has `write` fill a new file, which takes the place of the old one if that says so.
    pub(super) fn write(&self, write: impl FnOnce(&File) -> io::Result<bool>) -> io::Result<()> {
        self.make()?;
        if !self.is_safe() {
            return Ok(());
        }
        self.tidy();
        let name = self.file.with_extension(format!("{}.{UNFINISHED}", std::process::id()));
        let written = create(&name).and_then(|file| finish(&file, write));
        if written.as_ref().is_ok_and(|wanted| *wanted) {
            return fs::rename(&name, &self.file);
        }
        let _ = fs::remove_file(&name);
        written.map(|_| ())
    }

    fn make(&self) -> io::Result<()> {
        own::make_top(&self.top)?;
        own::make(&self.dir).map(|_| ())
    }

    /// Removes the oldest snapshots that are too many with one more, and what killed runs left.
    fn tidy(&self) {
        let mut others = Vec::new();
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path == self.file {
            } else if path.extension().is_some_and(|end| end == UNFINISHED) {
                remove_if_left(&path);
            } else {
                let time = entry.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
                others.push((time, path));
            }
        }
        others.sort();
        let too_many = (others.len() + 1).saturating_sub(MOST);
        others.iter().take(too_many).for_each(|(_, path)| drop(fs::remove_file(path)));
    }
}

fn create(path: &Path) -> io::Result<File> {
    let file = own::create(path)?;
    // Tells others that somebody is at work.
    let _ = lock::try_exclusive(&file);
    Ok(file)
}

fn finish(file: &File, write: impl FnOnce(&File) -> io::Result<bool>) -> io::Result<bool> {
    let wanted = write(file)?;
    file.sync_data()?;
    Ok(wanted)
}

fn remove_if_left(path: &Path) {
    if open_itself(path).is_ok_and(|file| lock::try_exclusive(&file).unwrap_or(false)) {
        let _ = fs::remove_file(path);
    }
}
