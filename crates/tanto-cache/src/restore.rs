//! Writes the result of an action as its command would have.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tanto_cas::{ContentDigest, Digest, FileDigest, RecentDigests};
use tanto_sys::fs::fingerprint::FileSystems;
use tanto_sys::fs::new_file::NewFile;
use tanto_sys::fs::stat::Stat;

use crate::cache_dir::CacheDir;
use crate::entry::StoredOutput;
use crate::places::Places;

/// A result to write.
#[derive(Clone, Debug)]
pub(crate) struct Restoration {
    pub(crate) outputs: Vec<(PathBuf, StoredOutput)>,
    pub(crate) depfile: Option<(PathBuf, Digest)>,
    /// The depfile is not written, but returned.
    pub(crate) returns_depfile: bool,
    pub(crate) text: Option<Digest>,
    /// Replace the placeholders in the depfile and the text.
    pub(crate) places: Places,
    /// The mtime of the outputs: an input that is changed later is newer.
    pub(crate) mtime: i64,
}

/// Notes the digests of restored files, so that they need not be read again.
pub(crate) struct Written {
    pub(crate) systems: FileSystems,
    pub(crate) recent: RecentDigests,
}

impl Written {
    /// Notes a file that has just got its name, and whose mtime was set before.
    fn note(&self, file: &File, digest: ContentDigest, mtime: i64) {
        // A later write sets another mtime, because this one is in the past.
        let Some(stat) = Stat::of(file).ok().filter(|stat| stat.mtime == mtime && mtime < stat.ctime) else { return };
        let (state, trust) = self.systems.describe(file, &stat, stat.ctime);
        self.recent.note(FileDigest { digest, state, stat, trust });
    }
}

/// The text that the command would have printed, and its depfile if that was not written.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) text: Vec<u8>,
    pub(crate) depfile: Option<Vec<u8>>,
}

impl Restoration {
    /// Writes everything. All blobs are verified before anything is replaced. Returns `None` if the command has to run.
    pub(crate) fn run(&self, cache: &CacheDir, written: &Written) -> Option<Restored> {
        let read = |digest: &Digest| cache.read_blob(digest);
        let depfile = match &self.depfile {
            Some((path, digest)) => Some((path.as_path(), self.places.show_in_text(&read(digest)?))),
            None => None,
        };
        let text = match &self.text {
            Some(digest) => self.places.show_in_text(&read(digest)?),
            None => Vec::new(),
        };
        let depfile = match depfile {
            Some((path, content)) => Some((path, Target::of(path)?, content)),
            None => None,
        };
        let outputs = self.outputs.iter().map(|(path, output)| NewOutput::create(path, output, cache));
        for new in outputs.collect::<Option<Vec<_>>>()? {
            let digest = new.digest;
            let file = new.publish(self.mtime).ok()?;
            written.note(&file, digest, self.mtime);
        }
        match depfile {
            Some((path, target, content)) if !self.returns_depfile => {
                write_depfile(path, target, &content).ok()?;
                Some(Restored { text, depfile: None })
            }
            Some((path, place, content)) => {
                // An older run may have left one.
                let _ = place.clear(path);
                Some(Restored { text, depfile: Some(content) })
            }
            None => Some(Restored { text, depfile: None }),
        }
    }
}

/// What is at the path of a new file.
#[derive(Clone, Copy)]
enum Target {
    Free,
    /// There is a file.
    Taken,
}

impl Target {
    /// `None`: it must not be used. A command writes through a symbolic link, and fails at a directory.
    fn of(path: &Path) -> Option<Target> {
        match fs::symlink_metadata(path) {
            Ok(data) => data.is_file().then_some(Target::Taken),
            Err(error) => (error.kind() == io::ErrorKind::NotFound).then_some(Target::Free),
        }
    }

    /// Removes the file. Replacing it by `rename` makes some file systems write the new one to the disk.
    fn clear(self, path: &Path) -> io::Result<()> {
        match self {
            Target::Free => Ok(()),
            Target::Taken => match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }
}

/// A new file, complete and verified, that will replace an output.
struct NewOutput<'r> {
    path: &'r Path,
    target: Target,
    file: NewFile,
    digest: ContentDigest,
}

impl NewOutput<'_> {
    fn create<'r>(path: &'r Path, output: &StoredOutput, cache: &CacheDir) -> Option<NewOutput<'r>> {
        let target = Target::of(path)?;
        let mut file = NewFile::create(path, if output.is_executable { 0o777 } else { 0o666 }).ok()?;
        cache.copy_output(output, file.file())?;
        Some(NewOutput { path, target, file, digest: output.content })
    }

    /// Links of the old file keep the old content.
    fn publish(mut self, mtime: i64) -> io::Result<File> {
        let mtime = UNIX_EPOCH + Duration::from_nanos(u64::try_from(mtime).unwrap_or(0));
        self.file.file().set_modified(mtime)?;
        self.target.clear(self.path)?;
        self.file.publish(self.path)
    }
}

/// Usually, the depfile is read and removed next.
fn write_depfile(path: &Path, target: Target, content: &[u8]) -> io::Result<()> {
    target.clear(path)?;
    OpenOptions::new().write(true).create_new(true).mode(0o666).open(path)?.write_all(content)
}
