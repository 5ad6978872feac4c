//! What a command printed: in memory, and past a limit in a file without a name.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use tanto_sys::fs::file::{self, LimitedFile};

use crate::job;
use crate::spilled::Spilled;
use crate::writer::{Stream, Writer};

/// So much of a command's output is held in memory, in bytes. Higher costs memory for every command that prints as much;
/// lower writes more output to a disk before it is shown.
const MOST_IN_MEMORY: usize = 16 << 20;
/// Of more than that, so much of its beginning and of its end stays in memory, in bytes.
const ENDS: usize = 256 << 10;

/// Where output goes that is too large for memory.
pub(super) struct Overflow {
    /// The files are on this directory's file system.
    pub(super) dir: PathBuf,
    /// Writes them.
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
struct Spill {
    stream: Stream,
    /// The same file, from the thread that has opened it.
    file: Arc<OnceLock<File>>,
}

/// What goes on where memory ends.
struct Rest {
    /// The file with all of it, or why there is none; nothing where none is wanted.
    file: Option<io::Result<Spill>>,
    /// So many bytes are kept of its beginning, and of its end.
    ends: usize,
    /// Of what came after the beginning, at least the last `ends` bytes, at most twice as many.
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
            self.rest = Some(Rest::begin(&mut self.bytes, ENDS.min(self.most / 2), overflow));
        }
    }

    /// How many bytes were printed.
    pub(super) fn total(&self) -> u64 {
        self.total
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

    /// The end of what was printed until now, at most `most` bytes.
    pub(super) fn last(&self, most: usize) -> &[u8] {
        let end = self.rest.as_ref().map_or(&self.bytes, |rest| &rest.end);
        &end[end.len().saturating_sub(most)..]
    }

    /// What there is: all of it or its beginning and end, with a line between that says how much is missing, and how much
    /// of it that is. Waits until the file is written.
    pub(super) fn into_kept(self) -> (Vec<u8>, job::Capture) {
        let Some(rest) = self.rest else { return (self.bytes, job::Capture::Complete) };
        let from = rest.end.len().saturating_sub(rest.ends);
        let left_out = rest.left_out + from as u64;
        let (kept, place) = match rest.file.map(|file| file.and_then(Spill::end)) {
            Some(Ok(spilled)) => (job::Capture::Spilled(spilled), b"not shown".to_vec()),
            Some(Err(why)) => {
                (job::Capture::Truncated, [b"not shown; it is lost: ", &tanto_sys::error::text(&why)[..]].concat())
            }
            None => (job::Capture::Truncated, b"left out".to_vec()),
        };
        let between = [format!("\n[... {left_out} bytes are ").as_bytes(), &place, b" ...]\n"].concat();
        ([&self.bytes, &between[..], &rest.end[from..]].concat(), kept)
    }
}

impl Rest {
    /// Takes all that was printed, and leaves its beginning.
    fn begin(bytes: &mut Vec<u8>, ends: usize, overflow: Option<&Overflow>) -> Rest {
        let end = bytes.split_off(ends);
        let mut rest = Rest { file: overflow.map(Spill::begin), ends, end: Vec::new(), left_out: 0 };
        rest.write(bytes);
        rest.push(&end);
        bytes.shrink_to_fit();
        rest
    }

    fn push(&mut self, bytes: &[u8]) {
        self.write(bytes);
        self.end.extend_from_slice(bytes);
        if self.end.len() > 2 * self.ends {
            let surplus = self.end.len() - self.ends;
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

impl Spill {
    fn begin(overflow: &Overflow) -> io::Result<Spill> {
        let file = Arc::new(OnceLock::new());
        let (dir, opened) = (overflow.dir.clone(), Arc::clone(&file));
        let open = move || {
            let file = file::unnamed_temp_file(&dir)?;
            // No other thread sets it.
            let _ = opened.set(file.try_clone()?);
            Ok(LimitedFile::new(file))
        };
        Ok(Spill { stream: overflow.writer.begin(open)?, file })
    }

    /// Waits until all is written. Half of it would be taken for the whole.
    fn end(self) -> io::Result<Spilled> {
        self.stream.end(Vec::new())?;
        let file = self.file.get().ok_or(io::ErrorKind::NotFound)?;
        Spilled::new(file.try_clone()?)
    }
}

#[cfg(test)]
mod tests;
