//! Two things measured by turns: how much longer does the second take? Does not know what they are.

use super::interval::{Depths, Interval};
use super::quantile::{median, sorted};
use super::trend::{Trend, of_runs, trend};

/// What pairs of times say.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verdict {
    /// They are too few for an interval; the median ratio, if there is any pair.
    TooFew(Option<f64>),
    /// Some took no time that the clock could tell from none.
    TooShort,
    /// An estimate with its interval.
    Seen(Estimate),
}

/// How much longer the second takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The median of the second by the first: 1.02 is 2 % slower.
    pub ratio: f64,
    /// The interval of 95 %.
    pub interval: Interval,
    /// The interval of 99 %, which decides whether there is a difference; `None` with too few pairs.
    pub sure: Option<Interval>,
    /// The smallest difference that four of five such experiments would find, as a ratio above 1.
    pub smallest: Option<f64>,
    /// Changes with time.
    pub drifts: Drifts,
}

/// Changes from the first pair to the last that chance does not explain, as ratios; `None` where there is none.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Drifts {
    /// Of the second by the first: the difference itself changes.
    pub ratio: Option<f64>,
    /// Of the first.
    pub first: Option<f64>,
    /// Of the second.
    pub second: Option<f64>,
}

/// The answer that an estimate gives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Finding {
    /// They differ: the interval of 99 % excludes "no difference".
    Differs,
    /// They may differ: only the interval of 95 % excludes it.
    MayDiffer,
    /// Both intervals hold "no difference".
    NoDifference,
    /// The ratio drifts by more than the difference, so there is no one answer.
    Drifts(f64),
}

impl Verdict {
    /// The estimate, if there are enough pairs for one.
    pub fn estimate(&self) -> Option<&Estimate> {
        match self {
            Verdict::Seen(estimate) => Some(estimate),
            _ => None,
        }
    }
}

impl Estimate {
    /// The answer. Only a drift of the ratio can withhold it: runs of both sides alternate, so that what slows down
    /// both cancels out.
    pub fn finding(&self) -> Finding {
        let larger = |change: &f64| change.ln().abs() > self.ratio.ln().abs();
        match self.drifts.ratio.filter(larger) {
            Some(change) => Finding::Drifts(change),
            None if self.sure.is_some_and(|sure| !sure.holds(1.0)) => Finding::Differs,
            None if !self.interval.holds(1.0) => Finding::MayDiffer,
            None => Finding::NoDifference,
        }
    }

    /// How far the interval reaches to either side, as a share: 0.01 is 1 %.
    pub fn half_width(&self) -> f64 {
        (self.interval.high / self.interval.low).sqrt() - 1.0
    }
}

/// Compares times of which those at the same place are a pair, in the order in which they were measured. `depths` says
/// where the limits of the intervals lie; `None` if the pairs are too few.
pub fn pairs(first: &[f64], second: &[f64], depths: Option<Depths>) -> Verdict {
    if first.iter().chain(second).any(|&time| time <= 0.0) {
        return Verdict::TooShort;
    }
    let logs = |times: &[f64]| times.iter().map(|time| time.ln()).collect::<Vec<_>>();
    let (first, second) = (logs(first), logs(second));
    let ratios: Vec<f64> = second.iter().zip(&first).map(|(second, first)| second - first).collect();
    let middle = median(&ratios);
    let Some((depths, middle)) = depths.zip(middle) else { return Verdict::TooFew(middle.map(f64::exp)) };
    let sorted = sorted(&ratios);
    let (interval, sure) = (depths.interval.limits(&sorted), depths.sure.map(|depth| depth.limits(&sorted)));
    let smallest = sure.map(|sure| (reach(ratios.len()) * (sure.high - sure.low) / 2.0).exp());
    let change = |trend: Trend| trend.change.exp();
    Verdict::Seen(Estimate {
        ratio: middle.exp(),
        interval: interval.map(f64::exp),
        sure: sure.map(|sure| sure.map(f64::exp)),
        smallest,
        drifts: Drifts {
            ratio: trend(&ratios).map(change),
            first: of_runs(&first).map(change),
            second: of_runs(&second).map(change),
        },
    })
}

/// How many times half the interval of 99 % a difference must be, that four of five experiments would find it. Between
/// experiments of few pairs intervals differ much; the simulated experiments say by how much to allow for that.
fn reach(count: usize) -> f64 {
    1.4 + 9.5 / count as f64
}

#[cfg(test)]
mod tests {
    use super::super::interval::Depth;
    use super::*;

    fn of(first: &[f64], second: &[f64]) -> Verdict {
        pairs(first, second, Depths::of(first.len(), 1))
    }

    fn seen(first: &[f64], second: &[f64]) -> Estimate {
        *of(first, second).estimate().expect("enough pairs")
    }

    #[test]
    fn six_pairs_have_an_interval_and_eight_a_verdict() {
        assert_eq!(of(&[], &[]), Verdict::TooFew(None));
        let few = of(&[1.0; 5], &[2.0; 5]);
        assert!(matches!(few, Verdict::TooFew(Some(ratio)) if (ratio - 2.0).abs() < 1e-12), "{few:?}");
        for (count, finding) in [(6, Finding::MayDiffer), (7, Finding::MayDiffer), (8, Finding::Differs)] {
            let estimate = seen(&vec![1.0; count], &vec![2.0; count]);
            assert!((estimate.ratio - 2.0).abs() < 1e-12);
            assert_eq!(estimate.finding(), finding, "{count} pairs");
        }
    }

    #[test]
    fn what_takes_no_time_has_no_ratio() {
        assert_eq!(of(&[0.0; 6], &[1.0; 6]), Verdict::TooShort);
    }

    #[test]
    fn a_drift_of_one_side_is_noted_and_withholds_nothing() {
        // `sleep 0.20` and `sleep 0.22` where both become faster by 0.15 %.
        let falling =
            |seconds: f64| -> Vec<f64> { (0..12).map(|at| seconds * (1.0 - 0.0015 * f64::from(at) / 11.0)).collect() };
        let estimate = seen(&falling(0.2), &falling(0.22));
        assert_eq!(estimate.finding(), Finding::Differs);
        assert!((estimate.ratio - 1.1).abs() < 1e-9 && estimate.interval.low > 1.09, "{estimate:?}");
        let change = estimate.drifts.first.expect("it drifts");
        assert!((change - 0.9985).abs() < 1e-4 && estimate.drifts.ratio.is_none(), "{estimate:?}");
    }

    #[test]
    fn a_drift_of_the_ratio_withholds_a_smaller_difference_only() {
        let jitter = [0.0, 1.0, -1.0, 2.0, 0.0, -2.0, 1.0, -1.0, 0.0, 1.0, 2.0, -1.0];
        let level: Vec<f64> = jitter.iter().map(|jitter| 1.0 + jitter / 1e4).collect();
        let rising = |by: f64| -> Vec<f64> {
            level.iter().enumerate().map(|(at, time)| by * time * (1.0 + at as f64 / 100.0)).collect()
        };
        let small = seen(&level, &rising(0.96));
        assert!(matches!(small.finding(), Finding::Drifts(change) if (change - 1.11).abs() < 0.01), "{small:?}");
        let large = seen(&level, &rising(1.2));
        assert!(large.drifts.ratio.is_some() && large.finding() == Finding::Differs, "{large:?}");
    }

    #[test]
    fn the_interval_is_the_ratios() {
        let first = [1.0; 10];
        let second: Vec<f64> =
            [2, 5, 3, 9, 1, 7, 10, 4, 8, 6].iter().map(|&nth| 1.0 + f64::from(nth) / 100.0).collect();
        let depths = Depths { interval: Depth(2.0), sure: Some(Depth(1.0)) };
        let Verdict::Seen(estimate) = pairs(&first, &second, Some(depths)) else { panic!("they are enough") };
        let near = |one: f64, other: f64| (one - other).abs() < 1e-4;
        assert!(near(estimate.interval.low, 1.02) && near(estimate.interval.high, 1.09), "{estimate:?}");
        assert!(estimate.sure.is_some_and(|sure| near(sure.low, 1.01) && near(sure.high, 1.1)), "{estimate:?}");
        assert!(near(estimate.ratio, 1.055) && near(estimate.half_width(), 0.0337), "{estimate:?}");
    }
}
