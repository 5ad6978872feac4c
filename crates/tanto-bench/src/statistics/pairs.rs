//! Compares paired measurements of two commands.

use super::interval::{Depths, Interval};
use super::summary::{median, sorted};
use super::trend::{Trend, trend, trend_of_runs};

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PairResult {
    /// Too few pairs for an interval, with the median ratio if there are any.
    TooFew(Option<f64>),
    /// A time was below the resolution of the clock.
    TooShort,
    Estimated(Estimate),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The median of second divided by first: 1.02 is 2 % slower.
    pub ratio: f64,
    pub interval_95: Interval,
    /// Decides whether there is a difference; `None` with too few pairs.
    pub interval_99: Option<Interval>,
    /// The difference that 80 % of such experiments would detect, as a ratio above 1.
    pub detectable: Option<f64>,
    pub drifts: Drifts,
}

/// Significant changes from the first pair to the last, as ratios.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Drifts {
    /// Of second divided by first.
    pub ratio: Option<f64>,
    pub first: Option<f64>,
    pub second: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Finding {
    /// The 99 % interval excludes equality.
    Differs,
    /// Only the 95 % interval excludes equality.
    MayDiffer,
    /// Both intervals include equality.
    NoDifference,
    /// The ratio drifted by more than the difference.
    Drifts(f64),
}

impl PairResult {
    pub fn estimate(&self) -> Option<&Estimate> {
        match self {
            PairResult::Estimated(estimate) => Some(estimate),
            _ => None,
        }
    }
}

impl Estimate {
    /// Classifies the estimate. Drifts of both commands cancel out, because their runs alternate; only a drift of the ratio
    /// matters.
    pub fn finding(&self) -> Finding {
        let larger = |change: &f64| change.ln().abs() > self.ratio.ln().abs();
        match self.drifts.ratio.filter(larger) {
            Some(change) => Finding::Drifts(change),
            None if self.interval_99.is_some_and(|interval| !interval.contains(1.0)) => Finding::Differs,
            None if !self.interval_95.contains(1.0) => Finding::MayDiffer,
            None => Finding::NoDifference,
        }
    }

    /// Returns half the relative width of the 95 % interval: 0.01 is 1 %.
    pub fn half_width(&self) -> f64 {
        (self.interval_95.high / self.interval_95.low).sqrt() - 1.0
    }
}

/// Compares pairs of times in the order of measurement. `depths` is `None` for too few pairs.
pub fn compare_pairs(first: &[f64], second: &[f64], depths: Option<Depths>) -> PairResult {
    if first.iter().chain(second).any(|&time| time <= 0.0) {
        return PairResult::TooShort;
    }
    let logs = |times: &[f64]| times.iter().map(|time| time.ln()).collect::<Vec<_>>();
    let (first, second) = (logs(first), logs(second));
    let ratios: Vec<f64> = second.iter().zip(&first).map(|(second, first)| second - first).collect();
    let middle = median(&ratios);
    let Some((depths, middle)) = depths.zip(middle) else { return PairResult::TooFew(middle.map(f64::exp)) };
    let sorted = sorted(&ratios);
    let (interval_95, interval_99) = (depths.depth_95.limits(&sorted), depths.depth_99.map(|it| it.limits(&sorted)));
    let detectable = interval_99.map(|it| (detectable_factor(ratios.len()) * (it.high - it.low) / 2.0).exp());
    let change = |trend: Trend| trend.change.exp();
    PairResult::Estimated(Estimate {
        ratio: middle.exp(),
        interval_95: interval_95.map(f64::exp),
        interval_99: interval_99.map(|interval| interval.map(f64::exp)),
        detectable,
        drifts: Drifts {
            ratio: trend(&ratios).map(change),
            first: trend_of_runs(&first).map(change),
            second: trend_of_runs(&second).map(change),
        },
    })
}

/// Returns the detectable difference as a multiple of half the 99 % interval. The constants come from simulated
/// experiments; intervals of few pairs vary more.
fn detectable_factor(count: usize) -> f64 {
    1.4 + 9.5 / count as f64
}

#[cfg(test)]
mod tests {
    use super::super::interval::Depth;
    use super::*;

    fn of(first: &[f64], second: &[f64]) -> PairResult {
        compare_pairs(first, second, Depths::of(first.len(), 1))
    }

    fn estimate(first: &[f64], second: &[f64]) -> Estimate {
        *of(first, second).estimate().expect("enough pairs")
    }

    #[test]
    fn six_pairs_have_an_interval_and_eight_a_finding() {
        assert_eq!(of(&[], &[]), PairResult::TooFew(None));
        let few = of(&[1.0; 5], &[2.0; 5]);
        assert!(matches!(few, PairResult::TooFew(Some(ratio)) if (ratio - 2.0).abs() < 1e-12), "{few:?}");
        for (count, finding) in [(6, Finding::MayDiffer), (7, Finding::MayDiffer), (8, Finding::Differs)] {
            let estimate = estimate(&vec![1.0; count], &vec![2.0; count]);
            assert!((estimate.ratio - 2.0).abs() < 1e-12);
            assert_eq!(estimate.finding(), finding, "{count} pairs");
        }
    }

    #[test]
    fn zero_times_have_no_ratio() {
        assert_eq!(of(&[0.0; 6], &[1.0; 6]), PairResult::TooShort);
    }

    #[test]
    fn a_common_drift_changes_no_finding() {
        // `sleep 0.20` and `sleep 0.22`; both become faster by 0.15 %.
        let falling =
            |seconds: f64| -> Vec<f64> { (0..12).map(|at| seconds * (1.0 - 0.0015 * f64::from(at) / 11.0)).collect() };
        let estimate = estimate(&falling(0.2), &falling(0.22));
        assert_eq!(estimate.finding(), Finding::Differs);
        assert!((estimate.ratio - 1.1).abs() < 1e-9 && estimate.interval_95.low > 1.09, "{estimate:?}");
        let change = estimate.drifts.first.expect("it drifts");
        assert!((change - 0.9985).abs() < 1e-4 && estimate.drifts.ratio.is_none(), "{estimate:?}");
    }

    #[test]
    fn a_drift_of_the_ratio_hides_smaller_differences() {
        let jitter = [0.0, 1.0, -1.0, 2.0, 0.0, -2.0, 1.0, -1.0, 0.0, 1.0, 2.0, -1.0];
        let level: Vec<f64> = jitter.iter().map(|jitter| 1.0 + jitter / 1e4).collect();
        let rising = |by: f64| -> Vec<f64> {
            level.iter().enumerate().map(|(at, time)| by * time * (1.0 + at as f64 / 100.0)).collect()
        };
        let small = estimate(&level, &rising(0.96));
        assert!(matches!(small.finding(), Finding::Drifts(change) if (change - 1.11).abs() < 0.01), "{small:?}");
        let large = estimate(&level, &rising(1.2));
        assert!(large.drifts.ratio.is_some() && large.finding() == Finding::Differs, "{large:?}");
    }

    #[test]
    fn intervals_are_those_of_the_ratios() {
        let first = [1.0; 10];
        let second: Vec<f64> =
            [2, 5, 3, 9, 1, 7, 10, 4, 8, 6].iter().map(|&nth| 1.0 + f64::from(nth) / 100.0).collect();
        let depths = Depths { depth_95: Depth(2.0), depth_99: Some(Depth(1.0)) };
        let PairResult::Estimated(estimate) = compare_pairs(&first, &second, Some(depths)) else {
            panic!("enough pairs")
        };
        let near = |one: f64, other: f64| (one - other).abs() < 1e-4;
        assert!(near(estimate.interval_95.low, 1.02) && near(estimate.interval_95.high, 1.09), "{estimate:?}");
        assert!(estimate.interval_99.is_some_and(|it| near(it.low, 1.01) && near(it.high, 1.1)), "{estimate:?}");
        assert!(near(estimate.ratio, 1.055) && near(estimate.half_width(), 0.0337), "{estimate:?}");
    }
}
