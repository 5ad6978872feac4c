//! An answer that is held back until it is known to be right. Does not know what it says.

use std::cell::Cell;
use std::io::{self, Write};

use tanto_ninja::flat::Blocks;

/// So much of an answer is held back until it is whole, in bytes. Smaller, middling answers wait until all of a snapshot
/// has been looked at; larger, they come all at once.
const MOST: usize = 64 << 10;

/// Whether answers may go out: they may if what they were made from is good.
pub struct Gate<'b> {
    blocks: Option<&'b Blocks>,
    threads: usize,
    open: Cell<bool>,
}

impl<'b> Gate<'b> {
    /// Answers that are made from this file, if they are made from one; looked through on so many threads.
    pub fn new(blocks: Option<&'b Blocks>, threads: usize) -> Self {
        Gate { blocks, threads, open: Cell::new(blocks.is_none()) }
    }

    /// Looks at the whole file: may all answers go out?
    pub fn opens(&self) -> bool {
        let open = self.open.get() || self.blocks.is_none_or(|blocks| blocks.check_all(self.threads));
        self.open.set(open);
        open
    }

    /// The answer is whole: was all that it was made from good?
    fn closes(&self) -> bool {
        self.blocks.is_none_or(|blocks| !blocks.is_damaged())
    }
}

/// One stream of an answer.
pub struct Held<'g, W> {
    gate: &'g Gate<'g>,
    held: Vec<u8>,
    out: W,
}

impl<'g, W: Write> Held<'g, W> {
    /// A stream that goes to `out`.
    pub fn new(gate: &'g Gate<'g>, out: W) -> Self {
        Held { gate, held: Vec::new(), out }
    }

    /// Lets out what is held, if it is right.
    pub fn end(mut self) -> io::Result<()> {
        if !self.gate.closes() {
            return Err(wrong());
        }
        self.out.write_all(&self.held)?;
        self.out.flush()
    }
}

impl<W: Write> Write for Held<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.held.len() + bytes.len() > MOST || self.gate.open.get() {
            if !self.gate.opens() {
                return Err(wrong());
            }
            self.out.write_all(&std::mem::take(&mut self.held))?;
            return self.out.write(bytes);
        }
        self.held.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Nobody waits for what is held: it goes out with the rest.
    fn flush(&mut self) -> io::Result<()> {
        if self.gate.open.get() { self.out.flush() } else { Ok(()) }
    }
}

fn wrong() -> io::Error {
    io::Error::other("the snapshot is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use tanto_ninja::hash::rapidhash;
    use tanto_sys::memory::map::Map;
    use tanto_testing::Scratch;

    /// A file, sound or not.
    fn blocks(sound: bool) -> Blocks {
        let scratch = Scratch::new("held");
        scratch.write("file", "text");
        let map = Map::new(&File::open(scratch.at("file")).unwrap(), 4).unwrap();
        Blocks::new(map, 0..4, vec![rapidhash(if sound { b"text" } else { b"test" })])
    }

    #[test]
    fn a_short_answer_waits_for_its_end() {
        for (sound, touched) in [(true, true), (true, false), (false, false), (false, true)] {
            let blocks = blocks(sound);
            let gate = Gate::new(Some(&blocks), 1);
            let mut out = Vec::new();
            let mut held = Held::new(&gate, &mut out);
            held.write_all(b"answer").unwrap();
            held.flush().unwrap();
            if touched {
                blocks.bytes(0..1);
            }
            assert_eq!(held.end().is_ok(), sound || !touched);
            assert_eq!(out.is_empty(), !sound && touched);
        }
    }

    #[test]
    fn a_long_one_goes_out_if_all_is_good() {
        for sound in [true, false] {
            let blocks = blocks(sound);
            let gate = Gate::new(Some(&blocks), 1);
            let mut out = Vec::new();
            let mut held = Held::new(&gate, &mut out);
            held.write_all(b"answer").unwrap();
            assert_eq!(held.write_all(&[b'.'; MOST]).is_ok(), sound);
            assert_eq!(out.len(), if sound { MOST + 6 } else { 0 });
        }
    }

    #[test]
    fn what_is_made_from_no_file_is_not_held() {
        let gate = Gate::new(None, 1);
        let mut out = Vec::new();
        let mut held = Held::new(&gate, &mut out);
        held.write_all(b"answer").unwrap();
        assert_eq!(held.out, b"answer");
    }
}
