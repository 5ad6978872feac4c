//! Maps a function over index ranges with several threads, which end before the call returns.

use tanto_sys::machine::cpu;
use tanto_sys::threads::{ThreadLimit, map_parallel};

/// Returns the results for `0..count` in order. Uses a thread for each `per_thread` items, in chunks of at most that many.
pub(super) fn map_indices<A: Default + Clone + Send>(
    threads: ThreadLimit,
    per_thread: usize,
    count: usize,
    work: impl Fn(usize) -> A + Sync,
) -> Vec<A> {
    map_chunks(threads, per_thread, count, |first, results| {
        results.iter_mut().zip(first..).for_each(|(result, index)| *result = work(index));
    })
}

/// Like `map_indices`, but passes whole chunks: the first index and the slots for the results.
pub(super) fn map_chunks<A: Default + Clone + Send>(
    threads: ThreadLimit,
    per_thread: usize,
    count: usize,
    work: impl Fn(usize, &mut [A]) + Sync,
) -> Vec<A> {
    let workers = match threads {
        ThreadLimit::Auto => cpu::count(),
        ThreadLimit::AtMost(most) => most.get(),
    };
    let workers = workers.min(count / per_thread).max(1);
    let chunk = (count / workers).clamp(1, per_thread);
    let mut results = vec![A::default(); count];
    let chunks: Vec<_> = results.chunks_mut(chunk).enumerate().collect();
    map_parallel(workers, chunks, |(number, results)| work(number * chunk, results));
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::thread;
    use std::time::Duration;

    fn at_most(threads: usize) -> ThreadLimit {
        ThreadLimit::AtMost(threads.try_into().unwrap())
    }

    #[test]
    fn results_are_in_order() {
        for count in [0, 1, 511, 512, 513, 10_000] {
            for threads in [ThreadLimit::ONE, at_most(3), at_most(40), ThreadLimit::Auto] {
                assert!(
                    map_indices(threads, 512, count, |index| index * 2)
                        .into_iter()
                        .eq((0..count).map(|index| index * 2))
                );
            }
        }
    }

    #[test]
    fn threads_run_concurrently() {
        for (threads, count, expected) in [(2, 1023, 1), (2, 1024, 2), (3, 4000, 3), (9, 2048, 4)] {
            let seen = Mutex::new(HashSet::new());
            map_indices(at_most(threads), 512, count, |_| {
                let mut come = seen.lock().unwrap();
                come.insert(thread::current().id());
                while come.len() < expected {
                    drop(come);
                    thread::sleep(Duration::from_millis(1));
                    come = seen.lock().unwrap();
                }
            });
            assert_eq!(seen.into_inner().unwrap().len(), expected);
        }
    }
}
