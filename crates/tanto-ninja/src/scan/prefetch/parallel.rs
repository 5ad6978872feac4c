//! Work shared by several threads, which end before it is done. Does not know the work.

use tanto_sys::machine::cpu;
use tanto_sys::threads::{ThreadLimit, map_parallel};

/// The map_indices to `0..count`, in this order. For each `worth` of them another thread is started; that many at most a
/// thread takes at a time.
pub(super) fn map_indices<A: Default + Clone + Send>(
    threads: ThreadLimit,
    worth: usize,
    count: usize,
    work: impl Fn(usize) -> A + Sync,
) -> Vec<A> {
    map_chunks(threads, worth, count, |first, map_indices| {
        map_indices.iter_mut().zip(first..).for_each(|(answer, index)| *answer = work(index));
    })
}

/// As `map_indices`, for one who does better with several at a time: is given the first one's number, and places for them.
pub(super) fn map_chunks<A: Default + Clone + Send>(
    threads: ThreadLimit,
    worth: usize,
    count: usize,
    work: impl Fn(usize, &mut [A]) + Sync,
) -> Vec<A> {
    let crew = match threads {
        ThreadLimit::Auto => cpu::count(),
        ThreadLimit::AtMost(most) => most.get(),
    };
    let crew = crew.min(count / worth).max(1);
    let piece = (count / crew).clamp(1, worth);
    let mut map_indices = vec![A::default(); count];
    let map_chunks: Vec<_> = map_indices.chunks_mut(piece).enumerate().collect();
    map_parallel(crew, map_chunks, |(number, map_indices)| work(number * piece, map_indices));
    map_indices
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
    fn answers_come_in_order() {
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
    fn as_many_threads_as_are_worth_while_work_at_once() {
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
