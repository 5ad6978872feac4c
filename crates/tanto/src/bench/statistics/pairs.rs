//! Two things measured by turns: how much longer does the second take? Does not know what they are.

use super::interval::{Depth, Interval};
use super::quantile::{median, sorted};
use super::trend::{Trend, of_runs, trend};

/// What pairs say.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verdict {
    /// They are too few for an interval.
    TooFew,
    /// Some took no time that the clock could tell from none.
    TooShort,
    /// They change with time, so that there is no one answer.
    Drifts(Drift),
    /// This.
    Seen(Estimate),
}

/// What changes with time, from the first pair to the last.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Drift {
    /// The ratio of the two, by so many times.
    Ratio(f64),
    /// The first, by so many times.
    First(f64),
    /// The second, by so many times.
    Second(f64),
}

/// How much longer the second takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The median of the second by the first: 1.02 is 2 % slower.
    pub ratio: f64,
    /// Where it truly lies.
    pub interval: Interval,
    /// As a ratio above 1: what is less would be seen in fewer than four of five runs like this one.
    pub smallest: f64,
}

impl Verdict {
    /// The ratio, if there is one.
    pub fn estimate(&self) -> Option<&Estimate> {
        match self {
            Verdict::Seen(estimate) => Some(estimate),
            _ => None,
        }
    }
}

impl Estimate {
    /// Do they differ?
    pub fn differs(&self) -> bool {
        !self.interval.holds(1.0)
    }

    /// How far the interval reaches to either side, as a share: 0.01 is 1 %.
    pub fn half_width(&self) -> f64 {
        (self.interval.high / self.interval.low).sqrt() - 1.0
    }
}

/// What these say, of which those at the same place are a pair, in the order in which they were measured. `depth` says how
/// sure the interval has to be; none if they are too few.
pub fn pairs(first: &[f64], second: &[f64], depth: Option<Depth>) -> Verdict {
    if first.iter().chain(second).any(|&time| time <= 0.0) {
        return Verdict::TooShort;
    }
    let logs = |times: &[f64]| times.iter().map(|time| time.ln()).collect::<Vec<_>>();
    let (first, second) = (logs(first), logs(second));
    let ratios: Vec<f64> = second.iter().zip(&first).map(|(second, first)| second - first).collect();
    let Some((depth, middle)) = depth.zip(median(&ratios)) else { return Verdict::TooFew };
    if let Some(drift) = drift(&ratios, &first, &second) {
        return Verdict::Drifts(drift);
    }
    let interval = depth.limits(&sorted(&ratios));
    let smallest = reach(ratios.len()) * (interval.high - interval.low) / 2.0;
    Verdict::Seen(Estimate { ratio: middle.exp(), interval: interval.map(f64::exp), smallest: smallest.exp() })
}

fn drift(ratios: &[f64], first: &[f64], second: &[f64]) -> Option<Drift> {
    let times = |trend: Trend| trend.change.exp();
    let ratio = || trend(ratios).map(times).map(Drift::Ratio);
    let first = || of_runs(first).map(times).map(Drift::First);
    let second = || of_runs(second).map(times).map(Drift::Second);
    ratio().or_else(first).or_else(second)
}

/// How many times half the interval a difference must be, that four of five runs would see. Between runs of few pairs
/// intervals differ much; the simulated experiments say by how much to allow for that.
fn reach(count: usize) -> f64 {
    1.5 + 8.0 / count as f64
}

#[cfg(test)]
mod tests {
    use super::super::interval::LEVEL;
    use super::*;

    fn of(first: &[f64], second: &[f64]) -> Verdict {
        pairs(first, second, Depth::of(first.len(), LEVEL))
    }

    #[test]
    fn under_six_pairs_there_is_no_interval() {
        assert_eq!(of(&[], &[]), Verdict::TooFew);
        assert_eq!(of(&[1.0; 5], &[2.0; 5]), Verdict::TooFew);
        let Verdict::Seen(estimate) = of(&[1.0; 6], &[2.0; 6]) else { panic!("six are enough") };
        assert!((estimate.ratio - 2.0).abs() < 1e-12 && estimate.differs());
    }

    #[test]
    fn what_takes_no_time_has_no_ratio() {
        assert_eq!(of(&[0.0; 6], &[1.0; 6]), Verdict::TooShort);
    }

    #[test]
    fn a_common_change_of_all_runs_is_called_by_its_side() {
        let rising: Vec<f64> = (0..12).map(|at| 1.0 + f64::from(at) / 100.0).collect();
        let level = [1.0, 1.01, 1.0, 1.01, 1.0, 1.01, 1.01, 1.0, 1.01, 1.0, 1.01, 1.0];
        let Verdict::Drifts(Drift::First(times)) = of(&rising, &rising) else { panic!("both rise") };
        assert!((times - 1.11).abs() < 0.01, "{times}");
        assert!(matches!(of(&level, &rising), Verdict::Drifts(Drift::Ratio(_))));
    }

    #[test]
    fn the_interval_is_the_ratios() {
        let first = [1.0; 10];
        let second: Vec<f64> =
            [2, 5, 3, 9, 1, 7, 10, 4, 8, 6].iter().map(|&nth| 1.0 + f64::from(nth) / 100.0).collect();
        let Verdict::Seen(estimate) = pairs(&first, &second, Some(Depth(2.0))) else { panic!("they are enough") };
        let near = |one: f64, other: f64| (one - other).abs() < 1e-4;
        assert!(near(estimate.interval.low, 1.02) && near(estimate.interval.high, 1.09), "{estimate:?}");
        assert!(near(estimate.ratio, 1.055) && near(estimate.half_width(), 0.0337), "{estimate:?}");
        // 1.5 and 0.8 times half the width, by logarithms.
        assert!(near(estimate.smallest, 1.0793), "{estimate:?}");
    }
}
