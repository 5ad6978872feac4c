//! Distribution-free confidence intervals of a median.
//!
//! Half of a distribution is below its median. So the probability that the median is between the k-th smallest and the
//! k-th largest of n numbers is binomial and exact. For small n the possible levels are far apart (n = 10: 97.9 % and
//! 89.1 %); limits for levels between them are interpolated with the weights of Hettmansperger and Sheather (1986), whose
//! error is a few tenths of a percent.

/// The confidence level of the interval printed as 95 %, with an allowance for the error of the weights.
pub const LEVEL_95: f64 = 0.958;
/// The level that decides whether there is a difference: 99 % with the same allowance.
pub const LEVEL_99: f64 = 0.992;

/// Returns the level that each of several comparisons needs so that all of them together have `level`.
pub fn bonferroni(level: f64, comparisons: usize) -> f64 {
    1.0 - (1.0 - level) / comparisons.max(1) as f64
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Applies an increasing function to both limits.
    pub fn map(self, function: impl Fn(f64) -> f64) -> Interval {
        Interval { low: function(self.low), high: function(self.high) }
    }
}

/// The rank of the limits, counted from both ends; 1 is the outermost number. May be fractional.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Depth(pub f64);

impl Depth {
    /// Returns the depth for `count` numbers and a confidence level from 0.5 to 1; `None` for too few numbers.
    pub fn of(count: usize, level: f64) -> Option<Depth> {
        let tails = Tails::of(count);
        let misses = 1.0 - level;
        let at = tails.deepest(misses / 2.0)?;
        let (here, deeper) = (2.0 * tails.0[at], 2.0 * tails.0[at + 1]);
        // At most the middle; no interpolation if a pair of limits has exactly this level.
        let share = ((misses - here) / (deeper - here)).clamp(0.0, 1.0);
        let (count, at) = (count as f64, at as f64);
        let weight = (count - at) * share / (at + (count - 2.0 * at) * share);
        Some(Depth(at + weight))
    }

    /// Returns the limits among ascending numbers, at least twice as many as the depth.
    pub fn limits(self, sorted: &[f64]) -> Interval {
        let (at, weight) = (self.0 as usize, self.0.fract());
        let from = |nth: &dyn Fn(usize) -> f64| {
            let (outer, inner) = (nth(at), if weight > 0.0 { nth(at + 1) } else { nth(at) });
            outer + (inner - outer) * weight
        };
        Interval { low: from(&|nth| sorted[nth - 1]), high: from(&|nth| sorted[sorted.len() - nth]) }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Depths {
    /// Of the 95 % interval.
    pub depth_95: Depth,
    /// Of the 99 % interval; `None` for too few numbers.
    pub depth_99: Option<Depth>,
}

impl Depths {
    /// Returns the depths for `count` numbers in each comparison; `None` for too few numbers.
    pub fn of(count: usize, comparisons: usize) -> Option<Depths> {
        let depth_95 = Depth::of(count, bonferroni(LEVEL_95, comparisons))?;
        Some(Depths { depth_95, depth_99: Depth::of(count, bonferroni(LEVEL_99, comparisons)) })
    }
}

/// Returns the smallest count with an interval.
pub fn min_count(level: f64) -> usize {
    (1..).find(|&count| Depth::of(count, level).is_some()).unwrap_or(usize::MAX)
}

/// The probabilities that a binomial number (n, 1/2) is below k, for k = 0 to one beyond the middle.
struct Tails(Vec<f64>);

impl Tails {
    fn of(count: usize) -> Tails {
        // Logarithms, because 2^-n underflows from n = 1,075 on.
        let mut log = -(count as f64) * std::f64::consts::LN_2;
        let mut sums = vec![0.0];
        for nth in 0..=count / 2 {
            sums.push(sums[nth] + log.exp());
            log += ((count - nth) as f64 / (nth + 1) as f64).ln();
        }
        Tails(sums)
    }

    /// Returns the largest k, at least 1, with at most this probability.
    fn deepest(&self, chance: f64) -> Option<usize> {
        let last = self.0.len() - 2;
        (1..=last).rev().find(|&depth| self.0[depth] <= chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(values: &[f64], level: f64) -> Option<Interval> {
        Some(Depth::of(values.len(), level)?.limits(values))
    }

    #[test]
    fn tails_are_binomial() {
        let exact = [0.0, 1.0, 11.0, 56.0, 176.0, 386.0];
        assert!(Tails::of(10).0.iter().zip(exact).all(|(chance, exact)| (chance * 1024.0 - exact).abs() < 1e-9));
        let middle = Tails::of(3000).0[1501];
        assert!((middle - 0.5).abs() < 0.01, "{middle}");
    }

    #[test]
    fn six_numbers_are_necessary() {
        assert_eq!(min_count(LEVEL_95), 6);
        assert_eq!(interval(&[1.0, 2.0, 3.0, 4.0, 5.0], LEVEL_95), None);
        assert_eq!(interval(&[], LEVEL_95), None);
        let six = interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], LEVEL_95).unwrap();
        assert!(six.low > 1.0 && six.low < 1.3 && six.high < 6.0 && six.high > 5.7, "{six:?}");
    }

    #[test]
    fn limits_move_inwards_with_the_count() {
        let mut last = 0.0;
        for count in 6..2000 {
            let Depth(depth) = Depth::of(count, LEVEL_95).unwrap();
            assert!(depth >= last && depth <= count as f64 / 2.0, "{count}: {depth} after {last}");
            last = depth;
            // The level is between those of the two nearest pairs of limits.
            let tails = Tails::of(count);
            assert!(2.0 * tails.0[depth as usize] <= 1.0 - LEVEL_95);
            assert!(2.0 * tails.0[depth as usize + 1] > 1.0 - LEVEL_95);
        }
    }

    #[test]
    fn limits_at_an_exact_level_are_not_interpolated() {
        let level = 1.0 - 2.0 * 11.0 / 1024.0;
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(interval(&values, level), Some(Interval { low: 2.0, high: 9.0 }));
    }
}
