//! The mtimes of many files at once, on several threads. Does not know whose files they are.

use std::iter::Enumerate;
use std::slice::ChunksMut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};

use super::{StatCall, subtree};
use crate::machine::cpu;
use crate::threads::ThreadLimit;

/// Paths that a thread takes at a time: under 0.2 ms where the answers are in memory, so that all end together and
/// the lock costs nothing. Larger, threads that wait for a disk are joined by others later.
const PIECE: usize = 128;

/// For so many paths a thread is started while nothing is known of their cost, so that there are two from 1,024 on.
/// Smaller, there are threads that save no more than their start costs; larger, middling builds have one thread.
const WORTH_A_THREAD: usize = 512;

/// If so many calls of a piece waited (for a disk, or a server), another thread is started, in whose calls the
/// processor can do something else. One wait takes as long as a whole piece does out of memory. Larger, a cold cache
/// is noticed later; at 1, whatever else makes a thread wait is taken for a cold cache.
const WAITS_OF_A_PIECE: i64 = 4;

/// There are no more threads than these because of waits. On a cold disk (ext4, 22,000 files, 2 processors) 1 thread
/// took 4.5 to 6.2 s, 4 took 1.4 to 1.7 s, 16 took 0.8 to 1.0 s, 32 and 64 between 0.7 and 1.1 s.
const MOST_THAT_WAIT: usize = 32;

/// The mtime of each path, as `mtime` gives it; `UNKNOWN_MTIME` where that is an error. `path` gives each path with a NUL at
/// its end (or its answer is an error). There are as many threads as processors, and more for as long as calls wait for
/// something else than a processor. It costs less where neighbours in the list lie in the same directory or below it:
/// where it is sorted.
pub fn mtimes<'p>(path: impl Fn(usize) -> &'p [u8] + Sync, found: &mut [i64], threads: ThreadLimit) {
    let first = match threads.limit(found.len() / WORTH_A_THREAD) {
        0 | 1 => 1,
        worth => worth.min(cpu::count()).max(1),
    };
    let ask = |first: usize, found: &mut [i64]| subtree::ask(|index| path(first + index), found);
    Crew::new(found, PIECE, ask).work_off(first, threads.limit(first.max(MOST_THAT_WAIT)));
}

/// As `mtimes`, but this way, where `None` is an error, and with so many threads (or one, for 0) whatever it costs;
/// each has something to do where there is that much.
pub fn mtimes_by(way: StatCall, paths: &[&[u8]], threads: usize) -> Vec<Option<i64>> {
    let mut found = vec![None; paths.len()];
    let piece = (paths.len() / threads.max(1)).clamp(1, PIECE);
    Crew::new(&mut found, piece, each(way, paths)).work_off(threads, threads);
    found
}

/// Asks for the paths of a piece.
fn each(way: StatCall, paths: &[&[u8]]) -> impl Fn(usize, &mut [Option<i64>]) {
    move |first, found| {
        for (path, found) in paths[first..].iter().zip(found) {
            *found = way.stat(path).ok().map(|stat| stat.map_or(0, |stat| stat.mtime));
        }
    }
}

/// Places for answers, and threads that take piece after piece of them.
struct Crew<'p, T, F> {
    pieces: Mutex<Enumerate<ChunksMut<'p, T>>>,
    /// Answers of a piece.
    piece: usize,
    /// Is given the number of the piece's first answer.
    ask: F,
    size: AtomicUsize,
}

impl<'p, T: Send, F: Fn(usize, &mut [T]) + Sync> Crew<'p, T, F> {
    fn new(found: &'p mut [T], piece: usize, ask: F) -> Self {
        Crew { pieces: Mutex::new(found.chunks_mut(piece).enumerate()), piece, ask, size: AtomicUsize::new(1) }
    }

    /// Begins with `first` threads, this one among them; where calls wait there will be up to `most`.
    fn work_off(&self, first: usize, most: usize) {
        thread::scope(|scope| {
            for _ in 1..first {
                self.grow(scope, first, most);
            }
            self.work(scope, most);
        });
    }

    fn work<'s>(&'s self, scope: &'s Scope<'s, '_>, most: usize) {
        while let Some((number, found)) = self.next() {
            let before = cpu::waits();
            (self.ask)(number * self.piece, found);
            if cpu::waits() - before >= WAITS_OF_A_PIECE {
                self.grow(scope, most, most);
            }
        }
    }

    fn next(&self) -> Option<(usize, &'p mut [T])> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    /// Starts a thread, unless there are `limit`. Without it the others go on: it may be one too many for the user.
    fn grow<'s>(&'s self, scope: &'s Scope<'s, '_>, limit: usize, most: usize) {
        if self.size.fetch_add(1, Ordering::Relaxed) >= limit {
            self.size.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let _ = thread::Builder::new().spawn_scoped(scope, move || self.work(scope, most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::time::{Duration, Instant};

    /// How many threads ask for 20 pieces, if each call waits so long. The calls of the later pieces wait, too, until
    /// as many threads have come as are expected.
    fn threads(most: usize, pause: Duration, expected: usize) -> usize {
        let (begun, seen, calls) = (Instant::now(), Mutex::new(HashSet::new()), AtomicUsize::new(0));
        let call = || {
            let come = || seen.lock().unwrap().len();
            seen.lock().unwrap().insert(thread::current().id());
            if !pause.is_zero() {
                thread::sleep(pause);
            }
            if calls.fetch_add(1, Ordering::Relaxed) > 5 * PIECE {
                while come() < expected && begun.elapsed() < Duration::from_secs(20) {
                    thread::sleep(pause);
                }
            }
        };
        let ask = |first: usize, found: &mut [usize]| {
            for (index, found) in found.iter_mut().enumerate() {
                call();
                *found = first + index;
            }
        };
        let mut found = vec![0; 20 * PIECE];
        Crew::new(&mut found, PIECE, ask).work_off(1, most);
        assert!(found.iter().enumerate().all(|(index, &found)| found == index));
        seen.into_inner().unwrap().len()
    }

    #[test]
    fn where_calls_wait_there_are_more_threads_up_to_the_limit() {
        let pause = Duration::from_micros(100);
        assert_eq!(threads(1, pause, 1), 1);
        assert_eq!(threads(3, pause, 3), 3);
    }

    #[test]
    fn where_no_call_waits_there_is_one() {
        assert_eq!(threads(9, Duration::ZERO, 1), 1);
    }
}
