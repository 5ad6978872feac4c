//! Words in pieces that are made when they are needed, so that none ever moves. Does not know what they mean.

use std::alloc::{Layout, handle_alloc_error};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tanto_sys::memory::SharedWords;

use crate::flat::Slab;

/// The first piece has 2 to this power words: 1 MiB, of which the kernel gives only what is touched. Each one after it
/// is as large as all before it.
const FIRST: u32 = 17;

/// Pieces for as many words as a `u32` counts: 32 GiB.
const PIECES: usize = (u32::BITS - FIRST) as usize + 1;

/// The piece of a word, and where it begins.
#[inline]
fn piece_of(at: usize) -> (usize, usize) {
    let number = usize::BITS - (at >> FIRST).leading_zeros();
    // One bit lower than its size, and nothing for the first piece.
    let start = (1 << (FIRST + number) >> 1) & !((1 << FIRST) - 1);
    (number as usize, start)
}

/// How many words this piece has.
fn size_of_piece(number: usize) -> usize {
    1 << (FIRST as usize + number.saturating_sub(1))
}

/// There is no memory for so many words; ends the program, as it does when a vector cannot grow.
#[cold]
pub(super) fn no_room(words: usize) -> ! {
    handle_alloc_error(Layout::array::<u64>(words).unwrap_or(Layout::new::<u64>()))
}

/// Words that threads take and fill.
#[derive(Debug)]
pub(super) struct Growing {
    pieces: [OnceLock<SharedWords>; PIECES],
    /// The first word that nobody took.
    next: AtomicU64,
}

impl Growing {
    /// With this many words at the start that nobody gets.
    pub(super) fn new(skipped: u32) -> Growing {
        Growing { pieces: [const { OnceLock::new() }; PIECES], next: AtomicU64::new(skipped.into()) }
    }

    fn piece(&self, number: usize) -> &SharedWords {
        let size = size_of_piece(number);
        self.pieces[number].get_or_init(|| SharedWords::new(size).unwrap_or_else(|_| no_room(size)))
    }

    /// The words from here to the end of their piece.
    #[inline]
    pub(super) fn from(&self, at: u32) -> &[AtomicU64] {
        let (number, start) = piece_of(at as usize);
        match self.pieces[number].get() {
            Some(words) => &words[at as usize - start..],
            None => &[],
        }
    }

    /// Takes so many words, side by side. Nobody else gets them.
    pub(super) fn take(&self, count: usize) -> Range<u32> {
        let mut next = self.next.load(Ordering::Relaxed);
        loop {
            let start = room_for(next as usize, count);
            let (Ok(first), Ok(end)) = (u32::try_from(start), u32::try_from(start + count)) else {
                no_room(start + count);
            };
            match self.next.compare_exchange_weak(next, end.into(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.piece(piece_of(start).0);
                    return first..end;
                }
                Err(now) => next = now,
            }
        }
    }

    /// Gives back what was taken and not used, if nobody took more since.
    pub(super) fn give_back(&self, unused: Range<u32>) {
        let (start, end) = (unused.start.into(), unused.end.into());
        let _ = self.next.compare_exchange(end, start, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// All words up to the last that was taken.
    pub(super) fn freeze(self) -> Pieces {
        let count = self.next.load(Ordering::Relaxed) as usize;
        let used = if count == 0 { 0 } else { piece_of(count - 1).0 + 1 };
        // A long text may have passed over a piece.
        for number in 0..used {
            self.piece(number);
        }
        let pieces = self.pieces.into_iter().map_while(OnceLock::into_inner).map(|words| words.freeze().into());
        Pieces { pieces: pieces.collect(), count }
    }
}

/// The first place from `next` on with room for so many words in one piece.
fn room_for(next: usize, count: usize) -> usize {
    let (mut number, mut start) = piece_of(next);
    let mut at = next;
    while at + count > start + size_of_piece(number) {
        start += size_of_piece(number);
        number += 1;
        at = start;
    }
    at
}

/// Words in pieces, or in one.
#[derive(Debug)]
pub(super) struct Pieces {
    /// One, or each but the first as large as all before it.
    pieces: Vec<Slab<u64>>,
    count: usize,
}

impl From<Slab<u64>> for Pieces {
    fn from(words: Slab<u64>) -> Pieces {
        let count = words.len();
        Pieces { pieces: vec![words], count }
    }
}

impl Pieces {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    fn piece(&self, at: usize) -> (&Slab<u64>, usize) {
        if let [whole] = &self.pieces[..] {
            return (whole, 0);
        }
        let (number, start) = piece_of(at);
        (&self.pieces[number], start)
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> u64 {
        let (piece, start) = self.piece(at);
        piece.get(at - start)
    }

    /// So many words from here; none if a damaged file has them not.
    #[inline]
    pub(super) fn slice(&self, at: usize, count: usize) -> &[u64] {
        let (piece, start) = self.piece(at);
        piece.slice(at - start..at - start + count)
    }

    /// Asks for the memory of so many words from here, as far as there are so many in the piece.
    #[inline]
    pub(super) fn prefetch(&self, at: usize, count: usize) {
        let (piece, start) = self.piece(at);
        let last = (at - start).saturating_add(count.saturating_sub(1));
        (at - start..last).step_by(8).chain([last]).for_each(|at| piece.prefetch(at));
    }

    /// All words, in order.
    pub(super) fn all(&self) -> Vec<&[u64]> {
        let mut rest = self.count;
        let take = |piece: &'_ Slab<u64>| {
            let count = rest.min(piece.len());
            rest -= count;
            count
        };
        let counts: Vec<usize> = self.pieces.iter().map(take).collect();
        self.pieces.iter().zip(counts).map(|(piece, count)| piece.slice(0..count)).collect()
    }
}
