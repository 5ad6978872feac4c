//! Confidence intervals for sequential tests, valid at any of several interim looks.
//!
//! Each look adds a probability of error. Whether the median is outside the k-th smallest and the k-th largest number
//! depends only on the side of the median on which each number fell, which is binomial. So the total probability of error
//! is computed exactly, and each look uses the deepest k that the error spent so far allows. This holds for any
//! distribution and any stopping rule.

use super::interval::{Depth, Depths, bonferroni, min_count};

/// Levels over all looks. They need no allowance, because the probabilities are exact.
const LEVEL_95: f64 = 0.95;
const LEVEL_99: f64 = 0.99;

/// The ratio of the counts of two successive looks.
const GROWTH: f64 = 1.25;
/// Error spending: the first n looks may spend n / (n + RESERVE) of the total error.
const RESERVE: f64 = 6.0;

struct SequentialTest {
    /// The total error: 1 minus the level.
    error: f64,
    /// By count of numbers below the median: the probability of this count without an error so far.
    below: Vec<f64>,
    /// The probability of an error so far.
    spent: f64,
    looks: usize,
    next: usize,
}

impl SequentialTest {
    /// The intervals of all looks together contain the median with the probability `level`.
    fn new(level: f64) -> SequentialTest {
        SequentialTest { error: 1.0 - level, below: vec![1.0], spent: 0.0, looks: 0, next: min_count(level) }
    }

    /// Counts another number. Returns whether a look is due.
    fn add(&mut self) -> bool {
        let mut from = 0.0;
        for chance in &mut self.below {
            let here = std::mem::replace(chance, (from + *chance) / 2.0);
            from = here;
        }
        self.below.push(from / 2.0);
        self.count() >= self.next
    }

    /// Returns the depth of the interval at this look; `None` if there is none.
    fn look(&mut self) -> Option<Depth> {
        self.looks += 1;
        self.next = (self.count() as f64 * GROWTH).ceil() as usize;
        let looks = self.looks as f64;
        self.spend(self.error * looks / (looks + RESERVE))
    }

    /// The final look, which spends the remaining error.
    fn last(mut self) -> Option<Depth> {
        self.spend(self.error)
    }

    fn count(&self) -> usize {
        self.below.len() - 1
    }

    /// Returns the largest depth with a total error of at most `allowed`.
    fn spend(&mut self, allowed: f64) -> Option<Depth> {
        let count = self.count();
        let mut depth = 0;
        while 2 * (depth + 1) <= count && self.spent + self.below[depth] + self.below[count - depth] <= allowed {
            self.spent += self.below[depth] + self.below[count - depth];
            (self.below[depth], self.below[count - depth]) = (0.0, 0.0);
            depth += 1;
        }
        (depth > 0).then_some(Depth(depth as f64))
    }
}

/// Sequential 95 % and 99 % intervals with looks at the same counts.
pub struct SequentialIntervals {
    test_95: SequentialTest,
    test_99: SequentialTest,
}

impl SequentialIntervals {
    pub fn new(comparisons: usize) -> SequentialIntervals {
        let test = |level| SequentialTest::new(bonferroni(level, comparisons));
        SequentialIntervals { test_95: test(LEVEL_95), test_99: test(LEVEL_99) }
    }

    /// Counts another number. Returns whether a look is due.
    pub fn add(&mut self) -> bool {
        self.test_99.add();
        self.test_95.add()
    }

    /// Returns the depths at this look; `None` if there is no interval.
    pub fn look(&mut self) -> Option<Depths> {
        let depth_99 = self.test_99.look();
        self.test_95.look().map(|depth_95| Depths { depth_95, depth_99 })
    }

    /// The final look, which spends the remaining error.
    pub fn last(self) -> Option<Depths> {
        let depth_99 = self.test_99.last();
        self.test_95.last().map(|depth_95| Depths { depth_95, depth_99 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the depth of each look for `count` numbers.
    fn looks(count: usize) -> (SequentialTest, Vec<(usize, Option<Depth>)>) {
        let mut looks = SequentialTest::new(0.95);
        let mut found = Vec::new();
        for nth in 1..=count {
            if looks.add() {
                found.push((nth, looks.look()));
            }
        }
        (looks, found)
    }

    #[test]
    fn the_total_error_is_below_its_limit() {
        let (looks, found) = looks(500);
        let left: f64 = looks.below.iter().sum();
        assert!((left + looks.spent - 1.0).abs() < 1e-9);
        assert!(looks.spent < 0.05 && looks.spent > 0.03, "{}", looks.spent);
        assert_eq!(found[..3], [(6, None), (8, Some(Depth(1.0))), (10, Some(Depth(1.0)))]);
    }

    #[test]
    fn an_interim_look_is_never_deeper_than_a_single_one() {
        for (count, depth) in looks(2000).1 {
            let single = Depth::of(count, 0.95).map_or(0.0, |depth| depth.0);
            assert!(depth.map_or(0.0, |depth| depth.0) <= single, "{count}");
        }
    }

    #[test]
    fn the_last_look_spends_the_remaining_error() {
        let (looks, found) = looks(500);
        let (_, before) = found[found.len() - 1];
        assert!(looks.last().unwrap().0 > before.unwrap().0);
        assert_eq!(SequentialTest::new(0.95).last(), None);
    }

    #[test]
    fn the_error_of_ten_numbers_is_exact() {
        let mut looks = SequentialTest::new(0.95);
        (0..10).for_each(|_| _ = looks.add());
        assert_eq!(looks.look(), Some(Depth(1.0)));
        // All on one side: 2 of 1024 outcomes.
        assert!((looks.spent - 2.0 / 1024.0).abs() < 1e-12);
    }
}
