//! What a command printed: in memory, and past a limit in a file. Does not know what it says.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use tanto_sys::file::Limited;

use crate::writer::{Stream, Writer};

/// So much of a command's output is held in memory and shown whole, in bytes. Higher costs memory for every command
/// that prints as much; lower cuts what somebody may want to read on the screen.
const MOST_IN_MEMORY: usize = 16 << 20;
/// Of more than that, so much is shown of its beginning, and of its end, in bytes.
const SHOWN: usize = 256 << 10;
/// So many files with such output are kept in the directory.
const FILES_KEPT: usize = 10;

/// Where output goes that is too large for memory.
pub(super) struct Overflow {
    /// Made when there is some.
    pub(super) dir: PathBuf,
    /// Who writes it there.
    pub(super) writer: Rc<Writer>,
}

/// What one command has printed so far.
pub(super) struct Output {
    /// All of it or, once there is `rest`, its beginning.
    bytes: Vec<u8>,
    rest: Option<Rest>,
    /// So many bytes are held in memory.
    most: usize,
    /// How much it was altogether.
    total: u64,
}

/// A file with output, being written.
struct Kept {
    stream: Stream,
    /// Where it is, from the thread that has made it.
    path: Arc<OnceLock<PathBuf>>,
}

/// What goes on where memory ends.
struct Rest {
    /// The file with all of it, or why there is none; nothing where none is wanted.
    file: Option<io::Result<Kept>>,
    /// So many bytes are shown of its beginning, and of its end.
    shown: usize,
    /// Of what came after the beginning, at least the last `shown` bytes, at most twice as many.
    end: Vec<u8>,
    /// Bytes that are in neither beginning nor end.
    left_out: u64,
}

impl Output {
    /// Nothing yet. Of more than so many bytes, if that is said, the middle is left out.
    pub(super) fn new(most: Option<u64>) -> Output {
        let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(MOST_IN_MEMORY);
        Output { bytes: Vec::new(), rest: None, most: most.min(MOST_IN_MEMORY), total: 0 }
    }

    /// Takes what the command printed next.
    pub(super) fn push(&mut self, bytes: &[u8], overflow: Option<&Overflow>) {
        self.total += bytes.len() as u64;
        if let Some(rest) = &mut self.rest {
            return rest.push(bytes);
        }
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > self.most {
            self.rest = Some(Rest::begin(&mut self.bytes, SHOWN.min(self.most / 2), overflow));
        }
    }

    /// How many bytes were printed.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Has all of it been kept for `into_shown`?
    pub(super) fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// What was printed until now: all of it, or its beginning and end with a line between that says how much is missing.
    pub(super) fn so_far(&self) -> Vec<u8> {
        let mut shown = self.bytes.clone();
        if let Some(rest) = &self.rest {
            shown.extend_from_slice(format!("\n[... {} bytes are not shown ...]\n", rest.left_out).as_bytes());
            shown.extend_from_slice(&rest.end);
        }
        shown
    }

    /// What there is to show: all of it, or its beginning and end with a line between that says where the whole is. Waits
    /// until that is known.
    pub(super) fn into_shown(self) -> Vec<u8> {
        let mut shown = self.bytes;
        if let Some(rest) = self.rest {
            let from = rest.end.len().saturating_sub(rest.shown);
            let left_out = rest.left_out + from as u64;
            let place = match rest.file.map(|file| file.and_then(Kept::end)) {
                Some(Ok(path)) => [b"not shown; all of it is in ", path.as_os_str().as_bytes()].concat(),
                Some(Err(why)) => [b"not shown; it is lost: ", &tanto_sys::error::text(&why)[..]].concat(),
                None => b"left out".to_vec(),
            };
            shown.extend_from_slice(format!("\n[... {left_out} bytes are ").as_bytes());
            shown.extend_from_slice(&place);
            shown.extend_from_slice(b" ...]\n");
            shown.extend_from_slice(&rest.end[from..]);
        }
        shown
    }
}

impl Rest {
    /// Takes all that was printed, and leaves its beginning.
    fn begin(bytes: &mut Vec<u8>, shown: usize, overflow: Option<&Overflow>) -> Rest {
        let end = bytes.split_off(shown);
        let mut rest = Rest { file: overflow.map(Kept::begin), shown, end: Vec::new(), left_out: 0 };
        rest.write(bytes);
        rest.push(&end);
        bytes.shrink_to_fit();
        rest
    }

    fn push(&mut self, bytes: &[u8]) {
        self.write(bytes);
        self.end.extend_from_slice(bytes);
        if self.end.len() > 2 * self.shown {
            let surplus = self.end.len() - self.shown;
            self.end.drain(..surplus);
            self.left_out += surplus as u64;
        }
    }

    fn write(&self, bytes: &[u8]) {
        if let Some(Ok(file)) = &self.file {
            file.stream.append(bytes);
        }
    }
}

impl Kept {
    fn begin(overflow: &Overflow) -> io::Result<Kept> {
        let path = Arc::new(OnceLock::new());
        let (dir, made) = (overflow.dir.clone(), Arc::clone(&path));
        let open = move || {
            let (file, path) = create(&dir)?;
            // Nobody else sets it.
            let _ = made.set(path);
            Ok(Limited::new(file))
        };
        Ok(Kept { stream: overflow.writer.begin(open)?, path })
    }

    /// Waits until it is whole. A file that cannot be written to its end is worth nothing to a reader who takes it for
    /// whole.
    fn end(self) -> io::Result<PathBuf> {
        let ended = self.stream.end(Vec::new());
        let path = self.path.get().cloned().unwrap_or_default();
        if ended.is_err() {
            let _ = fs::remove_file(&path);
        }
        ended.map(|()| path)
    }
}

/// A new file, which only its owner may read. The oldest of those of former builds go.
fn create(dir: &Path) -> io::Result<(fs::File, PathBuf)> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    remove_oldest(dir);
    let mut number = 0;
    loop {
        let path = dir.join(format!("{}-{number}.txt", std::process::id()));
        match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            file => return Ok((file?, path)),
        }
    }
}

fn remove_oldest(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let age = |path: &PathBuf| fs::metadata(path).and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort_by_cached_key(age);
    for file in files.iter().rev().skip(FILES_KEPT - 1) {
        // One that cannot be removed is one file too many.
        let _ = fs::remove_file(file);
    }
}

#[cfg(test)]
mod tests;
