//! Output of a command: in memory or, beyond a limit, in an unnamed file.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use tanto_sys::fs::file::{self, LimitedFile};

use crate::job;
use crate::spilled::Spilled;
use crate::writer::{Stream, Writer};

/// Bytes in memory. More costs memory for every command that prints as much; less writes more output to a disk.
const MOST_IN_MEMORY: usize = 16 << 20;
/// Bytes of the beginning and of the end of larger output that stay in memory.
const ENDS: usize = 256 << 10;

/// Destination of output that is too large for memory.
pub(super) struct Overflow {
    pub(super) dir: PathBuf,
    pub(super) writer: Rc<Writer>,
}

/// Output of a running command.
pub(super) struct Output {
    /// All output or, with `rest`, its beginning.
    bytes: Vec<u8>,
    rest: Option<Rest>,
    /// Limit of `bytes`.
    most: usize,
    /// Bytes printed so far.
    total: u64,
}

/// A file being written.
struct Spill {
    stream: Stream,
    /// The same file, opened by the writer's thread.
    file: Arc<OnceLock<File>>,
}

/// Output beyond the limit.
struct Rest {
    /// The file with all output, or why there is none; `None` if not wanted.
    file: Option<io::Result<Spill>>,
    /// Size of the beginning and of the end.
    ends: usize,
    /// The last `ends` bytes at least, and twice as many at most.
    end: Vec<u8>,
    /// Bytes neither in the beginning nor in the end.
    left_out: u64,
}

impl Output {
    /// `most`: output limit; beyond it, the middle is left out.
    pub(super) fn new(most: Option<u64>) -> Output {
        let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(MOST_IN_MEMORY);
        Output { bytes: Vec::new(), rest: None, most: most.min(MOST_IN_MEMORY), total: 0 }
    }

    /// Appends output.
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

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns all output so far, or its beginning and end with a line between that tells how much is missing.
    pub(super) fn so_far(&self) -> Vec<u8> {
        let mut shown = self.bytes.clone();
        if let Some(rest) = &self.rest {
            shown.extend_from_slice(format!("\n[... {} bytes are not shown ...]\n", rest.left_out).as_bytes());
            shown.extend_from_slice(&rest.end);
        }
        shown
    }

    /// Returns at most `most` bytes from the end of the output so far.
    pub(super) fn last(&self, most: usize) -> &[u8] {
        let end = self.rest.as_ref().map_or(&self.bytes, |rest| &rest.end);
        &end[end.len().saturating_sub(most)..]
    }

    /// Returns all output or its beginning and end, and which it is. Waits until the file is written.
    pub(super) fn into_kept(self) -> (Vec<u8>, job::Capture) {
        let Some(rest) = self.rest else { return (self.bytes, job::Capture::Complete) };
        let from = rest.end.len().saturating_sub(rest.ends);
        let left_out = rest.left_out + from as u64;
        let (kept, place) = match rest.file.map(|file| file.and_then(Spill::end)) {
            Some(Ok(spilled)) => (job::Capture::Spilled(spilled), b"not shown".to_vec()),
            Some(Err(why)) => (job::Capture::Truncated, [b"lost: ", &tanto_sys::error::text(&why)[..]].concat()),
            None => (job::Capture::Truncated, b"left out".to_vec()),
        };
        let between = [format!("\n[... {left_out} bytes are ").as_bytes(), &place, b" ...]\n"].concat();
        ([&self.bytes, &between[..], &rest.end[from..]].concat(), kept)
    }
}

impl Rest {
    /// Spills the output, and leaves its beginning in `bytes`.
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

    /// Waits until the file is complete.
    fn end(self) -> io::Result<Spilled> {
        self.stream.end(Vec::new())?;
        let file = self.file.get().ok_or(io::ErrorKind::NotFound)?;
        Spilled::new(file.try_clone()?)
    }
}

#[cfg(test)]
mod tests;
