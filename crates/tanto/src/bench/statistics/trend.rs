//! Whether numbers that were measured one after the other go up or down with time. Does not know why they would.
//!
//! Mann and Kendall's test: of all pairs of moments, how many more rise than fall? Outliers count no more than others.

use super::quantile::{median, scatter};

/// How far from nothing, in standard deviations, what rises and falls at random hardly ever comes: in one of 200 runs.
const RARE: f64 = 2.807;
/// With fewer, no order of them is rare.
const FEWEST: usize = 6;
/// So many at most are compared with each other, evenly taken from all: a day of short runs must not take minutes.
const MOST: usize = 1000;
/// So many times the scatter of single runs is much.
const MUCH: f64 = 3.0;

/// A trend that chance does not explain.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trend {
    /// From the first number to the last, by the median of all slopes.
    pub change: f64,
}

/// The trend of these, if there is one.
pub fn trend(series: &[f64]) -> Option<Trend> {
    let series = thinned(series);
    if series.len() < FEWEST {
        return None;
    }
    let moments = series.len() as f64;
    let deviation = (moments * (moments - 1.0) * (2.0 * moments + 5.0) / 18.0).sqrt();
    let balance: f64 = steps(&series).map(|(_, rise)| sign(rise)).sum();
    if balance.abs() < RARE * deviation {
        return None;
    }
    let slopes: Vec<f64> = steps(&series).map(|(apart, rise)| rise / apart).collect();
    let change = median(&slopes)? * (series.len() - 1) as f64;
    Some(Trend { change })
}

/// The trend of single runs, if it is much larger than what lies between one run and the next anyway. What is not hardly
/// touches pairs, each of which is done with in a small part of the time; and where the machine is busy in long spells, most
/// series seem to rise or to fall.
pub fn of_runs(series: &[f64]) -> Option<Trend> {
    let trend = trend(series)?;
    let last = series.len().saturating_sub(1).max(1) as f64;
    let level: Vec<f64> =
        series.iter().enumerate().map(|(at, value)| value - trend.change * at as f64 / last).collect();
    (trend.change.abs() > MUCH * scatter(&level)?).then_some(trend)
}

fn thinned(series: &[f64]) -> Vec<f64> {
    let count = series.len().min(MOST);
    (0..count).map(|nth| series[nth * series.len() / count]).collect()
}

/// Each later number against each earlier one: how many places apart, and how much higher.
fn steps(series: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    let from =
        move |at: usize| series[at + 1..].iter().enumerate().map(move |(more, later)| (more, later - series[at]));
    (0..series.len()).flat_map(from).map(|(more, rise)| (more as f64 + 1.0, rise))
}

fn sign(number: f64) -> f64 {
    if number == 0.0 { 0.0 } else { number.signum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rises_or_falls_all_the_time_drifts() {
        let up: Vec<f64> = (0..6).map(f64::from).collect();
        assert_eq!(trend(&up), Some(Trend { change: 5.0 }));
        let down: Vec<f64> = up.iter().rev().copied().collect();
        assert_eq!(trend(&down), Some(Trend { change: -5.0 }));
        assert_eq!(trend(&up[..5]), None);
        assert_eq!(trend(&[0.0, 1.0, 2.0, 3.0, 5.0, 4.0]), None);
    }

    #[test]
    fn what_goes_up_and_down_or_stands_still_does_not() {
        assert_eq!(trend(&[1.0; 50]), None);
        let waves: Vec<f64> = (0..50).map(|at| f64::from(at % 5)).collect();
        assert_eq!(trend(&waves), None);
        assert_eq!(trend(&[]), None);
    }

    #[test]
    fn a_trend_within_the_scatter_of_runs_is_none_of_theirs() {
        let jumps = |at: i32| f64::from((at * 37) % 101) / 101.0;
        let slight: Vec<f64> = (0..1000).map(|at| jumps(at) + f64::from(at) / 1000.0).collect();
        assert!(trend(&slight).is_some());
        assert_eq!(of_runs(&slight), None);
        let strong: Vec<f64> = (0..1000).map(|at| jumps(at) + f64::from(at) / 500.0).collect();
        assert!((of_runs(&strong).unwrap().change - 2.0).abs() < 0.1);
    }

    #[test]
    fn a_long_series_is_thinned() {
        let series: Vec<f64> = (0..100_000).map(f64::from).collect();
        assert!((trend(&series).unwrap().change / 1e5 - 1.0).abs() < 0.01);
    }
}
