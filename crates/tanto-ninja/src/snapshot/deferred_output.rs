//! Defers the output of a tool until the snapshot that it was made from is known to be valid.

use std::cell::Cell;
use std::io::{self, Write};

use crate::flat::Blocks;

/// The maximum number of bytes to defer; beyond, the whole snapshot is verified. A smaller limit delays medium outputs
/// until all of the snapshot was read; a larger one prints them all at once.
const MAX_DEFERRED: usize = 64 << 10;

/// Decides whether output may be written, depending on the snapshot.
pub struct OutputGate<'b> {
    blocks: Option<&'b Blocks>,
    threads: usize,
    open: Cell<bool>,
}

impl<'b> OutputGate<'b> {
    /// `blocks` is the mapped snapshot, if there is one. Verified by this many threads.
    pub fn new(blocks: Option<&'b Blocks>, threads: usize) -> Self {
        OutputGate { blocks, threads, open: Cell::new(blocks.is_none()) }
    }

    /// Verifies the whole snapshot. Returns whether output may be written.
    pub fn verify(&self) -> bool {
        let open = self.open.get() || self.blocks.is_none_or(|blocks| blocks.check_all(self.threads));
        self.open.set(open);
        open
    }

    /// Returns whether no damage was found in the parts of the snapshot used so far.
    fn is_undamaged(&self) -> bool {
        self.blocks.is_none_or(|blocks| !blocks.is_damaged())
    }
}

/// A stream of deferred output.
pub struct DeferredOutput<'g, W> {
    gate: &'g OutputGate<'g>,
    deferred: Vec<u8>,
    out: W,
}

impl<'g, W: Write> DeferredOutput<'g, W> {
    pub fn new(gate: &'g OutputGate<'g>, out: W) -> Self {
        DeferredOutput { gate, deferred: Vec::new(), out }
    }

    /// Writes the deferred output. Fails if the snapshot was damaged.
    pub fn end(mut self) -> io::Result<()> {
        if !self.gate.is_undamaged() {
            return Err(damaged());
        }
        self.out.write_all(&self.deferred)?;
        self.out.flush()
    }
}

impl<W: Write> Write for DeferredOutput<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.deferred.len() + bytes.len() > MAX_DEFERRED || self.gate.open.get() {
            if !self.gate.verify() {
                return Err(damaged());
            }
            self.out.write_all(&std::mem::take(&mut self.deferred))?;
            return self.out.write(bytes);
        }
        self.deferred.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Deferred output is written at the end.
    fn flush(&mut self) -> io::Result<()> {
        if self.gate.open.get() { self.out.flush() } else { Ok(()) }
    }
}

fn damaged() -> io::Error {
    io::Error::other("the snapshot is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::rapidhash;
    use std::fs::File;
    use tanto_sys::memory::map::Map;
    use tanto_testing::Scratch;

    fn blocks(sound: bool) -> Blocks {
        let scratch = Scratch::new("deferred");
        scratch.write("file", "text");
        let map = Map::new(&File::open(scratch.at("file")).unwrap(), 4).unwrap();
        Blocks::new(map, 0..4, vec![rapidhash(if sound { b"text" } else { b"test" })])
    }

    #[test]
    fn short_output_is_deferred_to_its_end() {
        for (sound, touched) in [(true, true), (true, false), (false, false), (false, true)] {
            let blocks = blocks(sound);
            let gate = OutputGate::new(Some(&blocks), 1);
            let mut out = Vec::new();
            let mut deferred = DeferredOutput::new(&gate, &mut out);
            deferred.write_all(b"answer").unwrap();
            deferred.flush().unwrap();
            if touched {
                blocks.bytes(0..1);
            }
            assert_eq!(deferred.end().is_ok(), sound || !touched);
            assert_eq!(out.is_empty(), !sound && touched);
        }
    }

    #[test]
    fn long_output_is_written_if_the_snapshot_is_valid() {
        for sound in [true, false] {
            let blocks = blocks(sound);
            let gate = OutputGate::new(Some(&blocks), 1);
            let mut out = Vec::new();
            let mut deferred = DeferredOutput::new(&gate, &mut out);
            deferred.write_all(b"answer").unwrap();
            assert_eq!(deferred.write_all(&[b'.'; MAX_DEFERRED]).is_ok(), sound);
            assert_eq!(out.len(), if sound { MAX_DEFERRED + 6 } else { 0 });
        }
    }

    #[test]
    fn output_without_a_snapshot_is_not_deferred() {
        let gate = OutputGate::new(None, 1);
        let mut out = Vec::new();
        let mut deferred = DeferredOutput::new(&gate, &mut out);
        deferred.write_all(b"answer").unwrap();
        assert_eq!(deferred.out, b"answer");
    }
}
