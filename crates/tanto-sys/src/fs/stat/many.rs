//! Stats many files on several threads.

use std::iter::Enumerate;
use std::slice::ChunksMut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};

use super::{StatCall, subtree};
use crate::fs::fingerprint::{FileState, FileSystems};
use crate::machine::cpu;
use crate::threads::ThreadLimit;

/// Paths per piece of work: under 0.2 ms with a warm cache, so that all threads end together and the lock costs
/// nothing. With larger pieces, more threads start later on a cold cache.
const PIECE_SIZE: usize = 128;

/// Paths per initial thread, so that there are two from 1,024 paths on. With fewer, threads cost more than they save;
/// with more, medium builds have one thread.
const PATHS_PER_THREAD: usize = 512;

/// Another thread is started if this many calls of a piece blocked (on a disk or server). One blocking call takes as
/// long as a piece with a warm cache. With a higher number a cold cache is noticed later; with 1, unrelated context
/// switches start threads.
const BLOCKED_CALLS: i64 = 4;

/// Limit of threads started because of blocking calls. On a cold disk (ext4, 22,000 files, 2 processors) 1 thread took
/// 4.5 to 6.2 s, 4 took 1.4 to 1.7 s, 16 took 0.8 to 1.0 s, 32 and 64 between 0.7 and 1.1 s.
const MAX_BLOCKED_THREADS: usize = 32;

/// Determines the state of each path; `UNKNOWN_MTIME` for an error. `path` returns NUL-terminated paths (anything else is
/// an error). Uses as many threads as processors, and more while calls block. Sorted lists are
/// faster, since neighbours share directories.
pub fn observe<'p>(
    path: impl Fn(usize) -> &'p [u8] + Sync,
    systems: &FileSystems,
    found: &mut [FileState],
    threads: ThreadLimit,
) {
    let first = match threads.limit(found.len() / PATHS_PER_THREAD) {
        0 | 1 => 1,
        worth => worth.min(cpu::count()).max(1),
    };
    let ask = |first: usize, found: &mut [FileState]| subtree::observe(|index| path(first + index), systems, found);
    WorkQueue::new(found, PIECE_SIZE, ask).run(first, threads.limit(first.max(MAX_BLOCKED_THREADS)));
}

/// Determines the mtimes with the given call and number of threads (at least one); `None` for an error.
pub fn mtimes_by(call: StatCall, paths: &[&[u8]], threads: usize) -> Vec<Option<i64>> {
    let mut found = vec![None; paths.len()];
    let piece = (paths.len() / threads.max(1)).clamp(1, PIECE_SIZE);
    WorkQueue::new(&mut found, piece, each(call, paths)).run(threads, threads);
    found
}

fn each(call: StatCall, paths: &[&[u8]]) -> impl Fn(usize, &mut [Option<i64>]) {
    move |first, found| {
        for (path, found) in paths[first..].iter().zip(found) {
            *found = call.stat(path).ok().map(|stat| stat.map_or(0, |stat| stat.mtime));
        }
    }
}

/// Threads that take pieces of the output from a shared queue.
struct WorkQueue<'p, T, F> {
    pieces: Mutex<Enumerate<ChunksMut<'p, T>>>,
    /// Entries per piece.
    piece: usize,
    /// Called with the index of the piece's first entry.
    ask: F,
    size: AtomicUsize,
}

impl<'p, T: Send, F: Fn(usize, &mut [T]) + Sync> WorkQueue<'p, T, F> {
    fn new(found: &'p mut [T], piece: usize, ask: F) -> Self {
        WorkQueue { pieces: Mutex::new(found.chunks_mut(piece).enumerate()), piece, ask, size: AtomicUsize::new(1) }
    }

    /// Starts with `first` threads, including this one, and grows to `most` while calls block.
    fn run(&self, first: usize, most: usize) {
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
            if cpu::waits() - before >= BLOCKED_CALLS {
                self.grow(scope, most, most);
            }
        }
    }

    fn next(&self) -> Option<(usize, &'p mut [T])> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    /// Starts a thread unless there are `limit`. If that fails, the others do the work.
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

    /// Returns how many threads take part if each call blocks for `pause`. Calls of later pieces wait until as many
    /// threads have started as expected.
    fn threads(most: usize, pause: Duration, expected: usize) -> usize {
        let (begun, seen, calls) = (Instant::now(), Mutex::new(HashSet::new()), AtomicUsize::new(0));
        let call = || {
            let come = || seen.lock().unwrap().len();
            seen.lock().unwrap().insert(thread::current().id());
            if !pause.is_zero() {
                thread::sleep(pause);
            }
            if calls.fetch_add(1, Ordering::Relaxed) > 5 * PIECE_SIZE {
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
        let mut found = vec![0; 20 * PIECE_SIZE];
        WorkQueue::new(&mut found, PIECE_SIZE, ask).run(1, most);
        assert!(found.iter().enumerate().all(|(index, &found)| found == index));
        seen.into_inner().unwrap().len()
    }

    #[test]
    fn blocking_calls_start_threads_up_to_the_limit() {
        let pause = Duration::from_micros(100);
        assert_eq!(threads(1, pause, 1), 1);
        assert_eq!(threads(3, pause, 3), 3);
    }

    #[test]
    fn without_blocking_calls_there_is_one_thread() {
        assert_eq!(threads(9, Duration::ZERO, 1), 1);
    }
}
