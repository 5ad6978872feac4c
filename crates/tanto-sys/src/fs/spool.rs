//! A byte queue that spills to an unnamed file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::fs::file;

/// Bytes in the order in which they were added.
#[derive(Debug, Default)]
pub struct Spool {
    bytes: Vec<u8>,
    /// Bytes before those in `bytes`.
    file: Option<File>,
}

/// Bytes that are kept in memory.
const MAX_IN_MEMORY: usize = 16 << 20;

impl Spool {
    /// Appends bytes. They stay in memory if no file can be written.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > MAX_IN_MEMORY {
            // On failure the bytes stay in memory, and the next push tries again.
            let _ = self.spill();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.file.is_none()
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(file::unnamed_temp_file(Path::new("."))?),
        };
        let end = file.seek(SeekFrom::End(0))?;
        let written = file.write_all(&self.bytes);
        if written.is_err() {
            file.set_len(end)?;
        }
        written.map(|()| self.bytes.clear())
    }

    /// Passes everything to `take`, piece by piece.
    pub fn drain(self, mut take: impl FnMut(&[u8])) {
        if let Some(mut file) = self.file
            && file.rewind().is_ok()
        {
            let mut piece = vec![0; 64 << 10];
            while let Ok(length @ 1..) = file.read(&mut piece) {
                take(&piece[..length]);
            }
        }
        take(&self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushed_bytes_come_back_in_order() {
        let mut spool = Spool::default();
        assert!(spool.is_empty());
        let mut pushed = Vec::new();
        for number in 0..40_u8 {
            let piece = vec![number; 1_000_003];
            spool.push(&piece);
            pushed.extend(piece);
        }
        assert!(spool.file.is_some() && spool.bytes.len() <= MAX_IN_MEMORY && !spool.is_empty());
        let mut drained = Vec::new();
        spool.drain(|piece| drained.extend_from_slice(piece));
        assert!(drained == pushed);
    }
}
