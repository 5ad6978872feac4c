//! Into which pieces a log is cut, and how many threads read them. Does not know what is in it.

use tanto_sys::machine::cpu;
use tanto_sys::threads::ThreadLimit;

/// The length of a piece of a log, in bytes. Larger, threads end at different times; smaller, the memory for what is
/// found in a piece is asked for more often.
const PIECE: usize = 1 << 20;

/// A log has one thread for so many bytes of it, which take it 0.7 ms (`.ninja_log`) or 0.3 ms (`.ninja_deps`). Smaller,
/// there are threads that save no more than their start costs; larger, middling logs have one.
const WORTH_A_THREAD: usize = 1 << 20;

/// How a log is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shares {
    /// In pieces of so many bytes.
    pub(super) piece: usize,
    /// By so many threads, the caller's among them.
    pub(super) crew: usize,
}

impl Shares {
    /// The caller reads it all.
    pub(super) const ONE: Shares = Shares { piece: PIECE, crew: 1 };

    /// What fits a log of so many bytes.
    pub(super) fn of(bytes: usize, threads: ThreadLimit) -> Shares {
        match threads.limit(bytes / WORTH_A_THREAD) {
            0 | 1 => Shares::ONE,
            worth => Shares { crew: worth.min(cpu::count()).max(1), ..Shares::ONE },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_log_has_no_crew() {
        assert_eq!(Shares::of(2 * WORTH_A_THREAD - 1, ThreadLimit::Auto), Shares::ONE);
        assert_eq!(Shares::of(1 << 40, ThreadLimit::ONE), Shares::ONE);
        assert!((1..=2).contains(&Shares::of(2 * WORTH_A_THREAD, ThreadLimit::Auto).crew));
    }
}
