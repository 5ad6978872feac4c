//! What a command printed: in memory, and past a limit in a file. Does not know what it says.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// So much of a command's output is held in memory and shown whole, in bytes. Higher costs memory for every command
/// that prints as much; lower cuts what somebody may want to read on the screen.
const MOST_IN_MEMORY: usize = 16 << 20;
/// Of more than that, so much is shown of its beginning, and of its end, in bytes.
const SHOWN: usize = 256 << 10;
/// So many files with such output are kept in the directory.
const FILES_KEPT: usize = 10;

/// What one command has printed so far.
#[derive(Default)]
pub(super) struct Output {
    /// All of it or, once there is `rest`, its beginning.
    bytes: Vec<u8>,
    rest: Option<Rest>,
}

/// What goes on where memory ends.
struct Rest {
    /// The file with all of it, or why there is none.
    file: Result<(File, PathBuf), io::Error>,
    /// Of what came after the beginning, at least the last `SHOWN` bytes, at most twice as many.
    end: Vec<u8>,
    /// Bytes that are in neither beginning nor end.
    left_out: u64,
}

impl Output {
    /// Takes what the command printed next. `dir` is for the files, and made when the first is.
    pub(super) fn push(&mut self, bytes: &[u8], dir: Option<&Path>) {
        if self.rest.is_none() && self.bytes.len() + bytes.len() <= MOST_IN_MEMORY {
            return self.bytes.extend_from_slice(bytes);
        }
        self.rest.get_or_insert_with(|| Rest::begin(&mut self.bytes, dir)).push(bytes);
    }

    /// Has all of it been kept for `into_shown`?
    pub(super) fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// What there is to show: all of it, or its beginning and end with a line between that says where the whole is.
    pub(super) fn into_shown(self) -> Vec<u8> {
        let mut shown = self.bytes;
        if let Some(rest) = self.rest {
            let from = rest.end.len().saturating_sub(SHOWN);
            let left_out = rest.left_out + from as u64;
            let place = match &rest.file {
                Ok((_, path)) => [b"all of it is in ", path.as_os_str().as_bytes()].concat(),
                Err(why) => [b"it is lost: ", &tanto_sys::error::text(why)[..]].concat(),
            };
            shown.extend_from_slice(format!("\n[... {left_out} bytes are not shown; ").as_bytes());
            shown.extend_from_slice(&place);
            shown.extend_from_slice(b" ...]\n");
            shown.extend_from_slice(&rest.end[from..]);
        }
        shown
    }
}

impl Rest {
    /// Takes all that was printed, and leaves its beginning.
    fn begin(bytes: &mut Vec<u8>, dir: Option<&Path>) -> Rest {
        let end = bytes.split_off(SHOWN);
        let file = dir.ok_or_else(|| io::ErrorKind::Unsupported.into()).and_then(create);
        let mut rest = Rest { file, end: Vec::new(), left_out: 0 };
        rest.write(bytes);
        rest.push(&end);
        bytes.shrink_to_fit();
        rest
    }

    fn push(&mut self, bytes: &[u8]) {
        self.write(bytes);
        self.end.extend_from_slice(bytes);
        if self.end.len() > 2 * SHOWN {
            let surplus = self.end.len() - SHOWN;
            self.end.drain(..surplus);
            self.left_out += surplus as u64;
        }
    }

    /// A file that cannot be written to its end is worth nothing to a reader who takes it for whole.
    fn write(&mut self, bytes: &[u8]) {
        let Ok((file, path)) = &mut self.file else { return };
        if let Err(error) = file.write_all(bytes) {
            let _ = fs::remove_file(path);
            self.file = Err(error);
        }
    }
}

/// A new file, which only its owner may read. The oldest of those of former builds go.
fn create(dir: &Path) -> io::Result<(File, PathBuf)> {
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
