//! Looking at the numbers again and again, and stopping when they please: how wide the interval must then be. Does not
//! know the numbers.
//!
//! Each look is a chance to be wrong. Whether the median lies outside of the k-th smallest and the k-th largest so far is
//! known from on which side of it each number fell, which are coins: so the chance that any look up to now was wrong can be
//! computed exactly, and each look gets as deep a k as keeps it within what may be spent by then. That holds for any law of
//! the numbers, and for any reason to stop.

use super::interval::{Depth, Depths, among};

/// The confidence of the interval over all looks, and that of the verdict. These chances are exact.
const EXACT: f64 = 0.95;
const EXACT_SURE: f64 = 0.99;

/// The next look comes when there are so many times as many numbers.
const GROWTH: f64 = 1.25;
/// At the n-th look, n / (n + PATIENCE) of all there is to spend may be gone.
const PATIENCE: f64 = 6.0;

/// What has been looked at so far.
pub struct Looks {
    /// What may go wrong at all: 1 less the level.
    misses: f64,
    /// How likely it is that so many of the numbers lie below the median, and that no look was wrong.
    below: Vec<f64>,
    /// How likely it is that a look was wrong.
    spent: f64,
    looks: usize,
    next: usize,
}

impl Looks {
    /// None yet. All intervals together hold the median with the chance `level`.
    pub fn new(level: f64) -> Looks {
        Looks { misses: 1.0 - level, below: vec![1.0], spent: 0.0, looks: 0, next: super::interval::fewest(level) }
    }

    /// There is one more number. Whether it is time to look.
    pub fn one_more(&mut self) -> bool {
        let mut from = 0.0;
        for chance in &mut self.below {
            let here = std::mem::replace(chance, (from + *chance) / 2.0);
            from = here;
        }
        self.below.push(from / 2.0);
        self.count() >= self.next
    }

    /// A look: between which numbers the median lies. None if it may lie anywhere.
    pub fn look(&mut self) -> Option<Depth> {
        self.looks += 1;
        self.next = (self.count() as f64 * GROWTH).ceil() as usize;
        let looks = self.looks as f64;
        self.spend(self.misses * looks / (looks + PATIENCE))
    }

    /// The last look, whatever it says: it may spend all that is left.
    pub fn last(mut self) -> Option<Depth> {
        self.spend(self.misses)
    }

    fn count(&self) -> usize {
        self.below.len() - 1
    }

    /// As deep as keeps the chance that any look was wrong within this.
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

/// Looks for the printed interval and, at the same moments, for the stricter one that a verdict rests on.
pub struct PairOfLooks {
    interval: Looks,
    sure: Looks,
}

impl PairOfLooks {
    /// None yet, for each of so many comparisons.
    pub fn new(comparisons: usize) -> PairOfLooks {
        let looks = |level| Looks::new(among(level, comparisons));
        PairOfLooks { interval: looks(EXACT), sure: looks(EXACT_SURE) }
    }

    /// Counts one more number. Returns whether it is time to look.
    pub fn one_more(&mut self) -> bool {
        self.sure.one_more();
        self.interval.one_more()
    }

    /// A look; `None` if the median may lie anywhere.
    pub fn look(&mut self) -> Option<Depths> {
        let sure = self.sure.look();
        self.interval.look().map(|interval| Depths { interval, sure })
    }

    /// The last look, which may spend all that is left.
    pub fn last(self) -> Option<Depths> {
        let sure = self.sure.last();
        self.interval.last().map(|interval| Depths { interval, sure })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each look may say, for so many numbers.
    fn looks(count: usize) -> (Looks, Vec<(usize, Option<Depth>)>) {
        let mut looks = Looks::new(0.95);
        let mut found = Vec::new();
        for nth in 1..=count {
            if looks.one_more() {
                found.push((nth, looks.look()));
            }
        }
        (looks, found)
    }

    #[test]
    fn the_chances_of_all_looks_are_within_the_level() {
        let (looks, found) = looks(500);
        let left: f64 = looks.below.iter().sum();
        assert!((left + looks.spent - 1.0).abs() < 1e-9);
        assert!(looks.spent < 0.05 && looks.spent > 0.03, "{}", looks.spent);
        assert_eq!(found[..3], [(6, None), (8, Some(Depth(1.0))), (10, Some(Depth(1.0)))]);
    }

    #[test]
    fn a_look_among_many_is_never_deeper_than_a_single_one() {
        for (count, depth) in looks(2000).1 {
            let single = Depth::of(count, 0.95).map_or(0.0, |depth| depth.0);
            assert!(depth.map_or(0.0, |depth| depth.0) <= single, "{count}");
        }
    }

    #[test]
    fn the_last_look_may_spend_what_is_left() {
        let (looks, found) = looks(500);
        let (_, before) = found[found.len() - 1];
        assert!(looks.last().unwrap().0 > before.unwrap().0);
        assert_eq!(Looks::new(0.95).last(), None);
    }

    #[test]
    fn all_paths_of_ten_coins_give_the_same_chances() {
        let mut looks = Looks::new(0.95);
        (0..10).for_each(|_| _ = looks.one_more());
        assert_eq!(looks.look(), Some(Depth(1.0)));
        // All on one side or the other, of 1024.
        assert!((looks.spent - 2.0 / 1024.0).abs() < 1e-12);
    }
}
