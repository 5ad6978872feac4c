//! Data-parallel work on a limited number of threads.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The user's limit of threads.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum ThreadLimit {
    /// Depends on machine and work; no additional thread for little work.
    #[default]
    Auto,
    /// At most this many, including the caller's.
    AtMost(NonZeroUsize),
}

impl ThreadLimit {
    /// Only the caller's thread.
    pub const ONE: ThreadLimit = ThreadLimit::AtMost(NonZeroUsize::MIN);

    /// Returns the smaller of the limit and `fitting`.
    pub fn limit(self, fitting: usize) -> usize {
        match self {
            ThreadLimit::Auto => fitting,
            ThreadLimit::AtMost(most) => fitting.min(most.get()),
        }
    }
}

/// Calls `work` with each item on at most `threads` threads, including the caller's. Returns the results in the order
/// of the items. If a thread cannot be started, the others do its share.
pub fn map_parallel<I: Send, R: Send>(threads: usize, items: Vec<I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
    if threads <= 1 || items.len() <= 1 {
        return items.into_iter().map(work).collect();
    }
    let others = threads.min(items.len()) - 1;
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let items = Mutex::new(items.into_iter().enumerate());
    let share = || {
        loop {
            let next = items.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, item)) = next else { return };
            let result = work(item);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..others {
            let _ = thread::Builder::new().spawn_scoped(scope, share);
        }
        share();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for threads in [0, 1, 2, 5] {
            let squares = map_parallel(threads, (0..100).collect(), |number: u32| number * number);
            assert!(squares.into_iter().eq((0..100).map(|number| number * number)), "{threads}");
        }
    }

    #[test]
    fn the_limit_applies() {
        let three = ThreadLimit::AtMost(NonZeroUsize::new(3).unwrap());
        assert_eq!([ThreadLimit::Auto, three, ThreadLimit::ONE].map(|threads| threads.limit(8)), [8, 3, 1]);
        assert_eq!([ThreadLimit::Auto, three, ThreadLimit::ONE].map(|threads| threads.limit(1)), [1, 1, 1]);
    }
}
