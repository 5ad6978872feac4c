//! Text that is found by where it begins: in pieces that were made elsewhere and are not copied, or in a snapshot. Does
//! not know what it says.

use std::ops::Range;
use std::sync::Arc;

use crate::flat::{Blocks, Slab};

/// Where pieces seem to begin as long as it is not known how much lies before them.
const FAR: u64 = 1 << 48;

/// Text, one piece behind the other.
pub(crate) struct Texts(Kind);

enum Kind {
    Pieces(Pieces),
    Mapped(Slab<u8>),
}

/// Pieces, and where each begins.
#[derive(Default)]
struct Pieces {
    pieces: Vec<Arc<Vec<u8>>>,
    starts: Vec<u64>,
    end: u64,
}

impl Pieces {
    /// Where the piece begins from now on.
    fn add(&mut self, piece: Arc<Vec<u8>>) -> u64 {
        let start = self.end;
        self.end += piece.len() as u64;
        self.pieces.push(piece);
        self.starts.push(start);
        start
    }

    /// What lies in one piece.
    fn get(&self, at: u64, length: usize) -> &[u8] {
        // The last that begins there or before: empty ones, which begin where the next one does, come before it.
        let Some(number) = self.starts.partition_point(|start| *start <= at).checked_sub(1) else { return &[] };
        let at = (at - self.starts[number]) as usize;
        &self.pieces[number][at..at + length]
    }
}

impl Texts {
    /// Text in a file.
    pub(crate) fn mapped(blocks: &Arc<Blocks>, range: Range<usize>) -> Self {
        Texts(Kind::Mapped(Slab::mapped(blocks, range)))
    }

    /// What begins at a place and has this length; nothing if a damaged file has it not.
    pub(crate) fn get(&self, at: u64, length: usize) -> &[u8] {
        match &self.0 {
            Kind::Pieces(pieces) => pieces.get(at, length),
            Kind::Mapped(text) => text.slice(at as usize..(at as usize).saturating_add(length)),
        }
    }

    /// All of it, in order.
    pub(crate) fn all(&self) -> Vec<&[u8]> {
        match &self.0 {
            Kind::Pieces(pieces) => pieces.pieces.iter().map(|piece| piece.as_slice()).collect(),
            Kind::Mapped(text) => vec![text.all()],
        }
    }
}

/// Text that is being put together.
#[derive(Default)]
pub(crate) struct Builder {
    /// What was copied. It will come first.
    own: Vec<u8>,
    pieces: Pieces,
}

impl Builder {
    /// Copies a text; where it lies for now.
    pub(crate) fn copy(&mut self, text: &[u8]) -> u64 {
        let at = self.own.len() as u64;
        self.own.extend_from_slice(text);
        at
    }

    /// Takes a piece; where it begins for now.
    pub(crate) fn add(&mut self, piece: &Arc<Vec<u8>>) -> u64 {
        FAR + self.pieces.add(Arc::clone(piece))
    }

    pub(crate) fn get(&self, at: u64, length: usize) -> &[u8] {
        match at.checked_sub(FAR) {
            None => &self.own[at as usize..at as usize + length],
            Some(at) => self.pieces.get(at, length),
        }
    }

    /// Where in the end something lies that lies here now.
    pub(crate) fn settled(&self, at: u64) -> u64 {
        if at < FAR { at } else { at - FAR + self.own.len() as u64 }
    }

    /// The text, in which all have their places in the end.
    pub(crate) fn finish(self) -> Texts {
        let mut all = Pieces::default();
        for piece in [Arc::new(self.own)].into_iter().chain(self.pieces.pieces) {
            all.add(piece);
        }
        Texts(Kind::Pieces(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_found_before_and_after() {
        let mut builder = Builder::default();
        let empty = builder.add(&Arc::default());
        let one = builder.add(&Arc::new(b"one".to_vec()));
        let a = builder.copy(b"a");
        let two = builder.add(&Arc::new(b"two".to_vec()));
        let bc = builder.copy(b"bc");
        let all = [(one, &b"one"[..]), (two, b"two"), (two + 1, b"wo"), (a, b"a"), (bc, b"bc"), (empty, b""), (a, b"")];
        assert!(all.iter().all(|(at, text)| builder.get(*at, text.len()) == *text));
        let settled = all.map(|(at, text)| (builder.settled(at), text));
        let texts = builder.finish();
        assert!(settled.iter().all(|(at, text)| texts.get(*at, text.len()) == *text));
        assert_eq!(texts.all().concat(), b"abconetwo");
        assert!(Builder::default().finish().get(0, 0).is_empty());
    }
}
