//! How many threads may share a piece of work. Does not know the work.

use std::num::NonZeroUsize;

/// What the user allows.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Threads {
    /// As many as fit the machine and the work; none beside the caller's for little work.
    #[default]
    Fitting,
    /// No more than these, the caller's among them.
    AtMost(NonZeroUsize),
}

impl Threads {
    /// The caller's alone.
    pub const ONE: Threads = Threads::AtMost(NonZeroUsize::MIN);

    /// The number, where `fitting` would be good.
    pub fn limit(self, fitting: usize) -> usize {
        match self {
            Threads::Fitting => fitting,
            Threads::AtMost(most) => fitting.min(most.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_needs_more_than_fit() {
        let three = Threads::AtMost(NonZeroUsize::new(3).unwrap());
        assert_eq!([Threads::Fitting, three, Threads::ONE].map(|threads| threads.limit(8)), [8, 3, 1]);
        assert_eq!([Threads::Fitting, three, Threads::ONE].map(|threads| threads.limit(1)), [1, 1, 1]);
    }
}
