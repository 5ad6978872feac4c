//! Where a median lies, from so and so many below and above. Does not know how numbers are spread.
//!
//! Half of all numbers lie below their median, whatever law they follow. So the chance that it lies between the k-th
//! smallest and the k-th largest of n is that of coins, and known exactly; it is also what resampling would come to,
//! without its dice. With few numbers the chances are far apart (n = 10: 97.9 % and 89.1 %): between two of them the
//! limits lie between two numbers, by the weights of Hettmansperger and Sheather (1986), which miss the level by a few
//! tenths of a percent at most.

/// The confidence of the interval that is printed as 95 %: a little more, for the error of the weights.
pub const LEVEL: f64 = 0.958;
/// The confidence that a verdict needs, 99 % with the same allowance.
pub const SURE: f64 = 0.992;

/// The confidence that each of several comparisons needs, so that all of them together have `level` (Bonferroni).
pub fn among(level: f64, comparisons: usize) -> f64 {
    1.0 - (1.0 - level) / comparisons.max(1) as f64
}

/// Two limits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The lower one.
    pub low: f64,
    /// The upper one.
    pub high: f64,
}

impl Interval {
    /// Is it between the limits?
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Both limits through a function that keeps their order.
    pub fn map(self, function: impl Fn(f64) -> f64) -> Interval {
        Interval { low: function(self.low), high: function(self.high) }
    }
}

/// How many numbers, from each end, the limits lie inside of: 1 is the outermost one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Depth(pub f64);

impl Depth {
    /// Between which of `count` numbers their median lies with this chance (0.5 to 1); none if they are too few.
    pub fn of(count: usize, level: f64) -> Option<Depth> {
        let tails = Tails::of(count);
        let misses = 1.0 - level;
        let at = tails.deepest(misses / 2.0)?;
        let (here, deeper) = (2.0 * tails.0[at], 2.0 * tails.0[at + 1]);
        // No deeper than the middle, and there is nothing to weigh where a pair of limits fits exactly.
        let share = ((misses - here) / (deeper - here)).clamp(0.0, 1.0);
        let (count, at) = (count as f64, at as f64);
        let weight = (count - at) * share / (at + (count - 2.0 * at) * share);
        Some(Depth(at + weight))
    }

    /// The limits among numbers in ascending order, of which there are at least twice the depth.
    pub fn limits(self, sorted: &[f64]) -> Interval {
        let (at, weight) = (self.0 as usize, self.0.fract());
        let from = |nth: &dyn Fn(usize) -> f64| {
            let (outer, inner) = (nth(at), if weight > 0.0 { nth(at + 1) } else { nth(at) });
            outer + (inner - outer) * weight
        };
        Interval { low: from(&|nth| sorted[nth - 1]), high: from(&|nth| sorted[sorted.len() - nth]) }
    }
}

/// Where the limits of the printed interval lie, and those of the stricter one that a verdict rests on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Depths {
    /// Of the interval of 95 %.
    pub interval: Depth,
    /// Of the interval of 99 %; `None` if the numbers are too few for it.
    pub sure: Option<Depth>,
}

impl Depths {
    /// For `count` numbers in each of so many comparisons; `None` if they are too few for an interval.
    pub fn of(count: usize, comparisons: usize) -> Option<Depths> {
        let interval = Depth::of(count, among(LEVEL, comparisons))?;
        Some(Depths { interval, sure: Depth::of(count, among(SURE, comparisons)) })
    }
}

/// The fewest numbers whose median has an interval.
pub fn fewest(level: f64) -> usize {
    (1..).find(|&count| Depth::of(count, level).is_some()).unwrap_or(usize::MAX)
}

/// The chance that fewer than k of n coins fall on one side, for k = 0, 1 ... up to the middle and one beyond.
struct Tails(Vec<f64>);

impl Tails {
    fn of(count: usize) -> Tails {
        // By logarithms: the chance of no coin at all is no number from 1,075 coins on.
        let mut log = -(count as f64) * std::f64::consts::LN_2;
        let mut sums = vec![0.0];
        for nth in 0..=count / 2 {
            sums.push(sums[nth] + log.exp());
            log += ((count - nth) as f64 / (nth + 1) as f64).ln();
        }
        Tails(sums)
    }

    /// The largest k, at least 1, whose chance is no more than this.
    fn deepest(&self, chance: f64) -> Option<usize> {
        let last = self.0.len() - 2;
        (1..=last).rev().find(|&depth| self.0[depth] <= chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interval of these, in ascending order.
    fn interval(values: &[f64], level: f64) -> Option<Interval> {
        Some(Depth::of(values.len(), level)?.limits(values))
    }

    #[test]
    fn the_chances_are_those_of_coins() {
        let exact = [0.0, 1.0, 11.0, 56.0, 176.0, 386.0];
        assert!(Tails::of(10).0.iter().zip(exact).all(|(chance, exact)| (chance * 1024.0 - exact).abs() < 1e-9));
        let middle = Tails::of(3000).0[1501];
        assert!((middle - 0.5).abs() < 0.01, "{middle}");
    }

    #[test]
    fn six_are_the_fewest() {
        assert_eq!(fewest(LEVEL), 6);
        assert_eq!(interval(&[1.0, 2.0, 3.0, 4.0, 5.0], LEVEL), None);
        assert_eq!(interval(&[], LEVEL), None);
        let six = interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], LEVEL).unwrap();
        assert!(six.low > 1.0 && six.low < 1.3 && six.high < 6.0 && six.high > 5.7, "{six:?}");
    }

    #[test]
    fn limits_move_inwards_with_the_number() {
        let mut last = 0.0;
        for count in 6..2000 {
            let Depth(depth) = Depth::of(count, LEVEL).unwrap();
            assert!(depth >= last && depth <= count as f64 / 2.0, "{count}: {depth} after {last}");
            last = depth;
            // The level that is asked for lies between those of the two pairs of limits.
            let tails = Tails::of(count);
            assert!(2.0 * tails.0[depth as usize] <= 1.0 - LEVEL);
            assert!(2.0 * tails.0[depth as usize + 1] > 1.0 - LEVEL);
        }
    }

    #[test]
    fn at_an_exact_chance_limits_are_numbers_that_were_measured() {
        let level = 1.0 - 2.0 * 11.0 / 1024.0;
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(interval(&values, level), Some(Interval { low: 2.0, high: 9.0 }));
    }
}
