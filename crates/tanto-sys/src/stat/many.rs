//! The mtimes of many files at once, on several threads. Does not know whose files they are.

use std::iter::Zip;
use std::slice::{Chunks, ChunksMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};

use super::Way;
use crate::cpu;
use crate::threads::Threads;

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

/// The mtime of each path, as `mtime` gives it; `None` where that is an error. There are as many threads as
/// processors, and more for as long as calls wait for something else than a processor.
pub fn mtimes(paths: &[&[u8]], threads: Threads) -> Vec<Option<i64>> {
    let first = match threads.limit(paths.len() / WORTH_A_THREAD) {
        0 | 1 => 1,
        worth => worth.min(cpu::count()).max(1),
    };
    let mut found = vec![None; paths.len()];
    let crew = Crew::new(paths, &mut found, PIECE, |path| ask(Way::BEST, path));
    crew.work_off(first, threads.limit(first.max(MOST_THAT_WAIT)));
    found
}

/// As `mtimes`, this way, and with so many threads (or one, for 0) whatever it costs; each has something to do where
/// there is that much.
pub fn mtimes_by(way: Way, paths: &[&[u8]], threads: usize) -> Vec<Option<i64>> {
    let mut found = vec![None; paths.len()];
    let piece = (paths.len() / threads.max(1)).clamp(1, PIECE);
    Crew::new(paths, &mut found, piece, |path| ask(way, path)).work_off(threads, threads);
    found
}

fn ask(way: Way, path: &[u8]) -> Option<i64> {
    way.stat(path).ok().map(|stat| stat.map_or(0, |stat| stat.mtime))
}

/// Paths, and places for their mtimes.
type Piece<'p> = (&'p [&'p [u8]], &'p mut [Option<i64>]);
type Pieces<'p> = Zip<Chunks<'p, &'p [u8]>, ChunksMut<'p, Option<i64>>>;

/// Paths, places for their mtimes, and threads that take piece after piece of both.
struct Crew<'p, F> {
    pieces: Mutex<Pieces<'p>>,
    ask: F,
    size: AtomicUsize,
}

impl<'p, F: Fn(&[u8]) -> Option<i64> + Sync> Crew<'p, F> {
    fn new(paths: &'p [&'p [u8]], found: &'p mut [Option<i64>], piece: usize, ask: F) -> Self {
        let pieces = Mutex::new(paths.chunks(piece).zip(found.chunks_mut(piece)));
        Crew { pieces, ask, size: AtomicUsize::new(1) }
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
        while let Some((paths, found)) = self.piece() {
            let before = cpu::waits();
            for (path, found) in paths.iter().zip(found) {
                *found = (self.ask)(path);
            }
            if cpu::waits() - before >= WAITS_OF_A_PIECE {
                self.grow(scope, most, most);
            }
        }
    }

    fn piece(&self) -> Option<Piece<'p>> {
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
        let ask = |_: &[u8]| {
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
            Some(7)
        };
        let paths = vec![&b"path"[..]; 20 * PIECE];
        let mut found = vec![None; paths.len()];
        Crew::new(&paths, &mut found, PIECE, ask).work_off(1, most);
        assert!(found.iter().all(|&found| found == Some(7)));
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
