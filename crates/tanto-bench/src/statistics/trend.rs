//! The Mann-Kendall test for trends, with the Theil-Sen slope. Both are robust against outliers.

use super::summary::{median, scatter};

/// The critical value for a two-sided significance of 0.5 %.
const CRITICAL: f64 = 2.807;
/// Shorter series cannot be significant.
const MIN_COUNT: usize = 6;
/// Longer series are thinned out, because the time is quadratic.
const MAX_COUNT: usize = 1000;
/// A trend of runs must exceed this multiple of their scatter.
const MIN_RELATIVE_CHANGE: f64 = 3.0;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trend {
    /// From the first number to the last.
    pub change: f64,
}

/// Returns the trend if it is significant.
pub fn trend(series: &[f64]) -> Option<Trend> {
    let series = thinned(series);
    if series.len() < MIN_COUNT {
        return None;
    }
    let moments = series.len() as f64;
    let deviation = (moments * (moments - 1.0) * (2.0 * moments + 5.0) / 18.0).sqrt();
    let balance: f64 = steps(&series).map(|(_, rise)| sign(rise)).sum();
    if balance.abs() < CRITICAL * deviation {
        return None;
    }
    let slopes: Vec<f64> = steps(&series).map(|(apart, rise)| rise / apart).collect();
    let change = median(&slopes)? * (series.len() - 1) as f64;
    Some(Trend { change })
}

/// Returns the trend of single runs if it is also large compared with their scatter. Smaller trends hardly affect pairs,
/// and autocorrelated background load makes them appear significant.
pub fn trend_of_runs(series: &[f64]) -> Option<Trend> {
    let trend = trend(series)?;
    let last = series.len().saturating_sub(1).max(1) as f64;
    let level: Vec<f64> =
        series.iter().enumerate().map(|(at, value)| value - trend.change * at as f64 / last).collect();
    (trend.change.abs() > MIN_RELATIVE_CHANGE * scatter(&level)?).then_some(trend)
}

fn thinned(series: &[f64]) -> Vec<f64> {
    let count = series.len().min(MAX_COUNT);
    (0..count).map(|nth| series[nth * series.len() / count]).collect()
}

/// Returns the distance and the difference of each pair of numbers.
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
    fn monotonic_series_have_a_trend() {
        let up: Vec<f64> = (0..6).map(f64::from).collect();
        assert_eq!(trend(&up), Some(Trend { change: 5.0 }));
        let down: Vec<f64> = up.iter().rev().copied().collect();
        assert_eq!(trend(&down), Some(Trend { change: -5.0 }));
        assert_eq!(trend(&up[..5]), None);
        assert_eq!(trend(&[0.0, 1.0, 2.0, 3.0, 5.0, 4.0]), None);
    }

    #[test]
    fn constant_and_periodic_series_have_no_trend() {
        assert_eq!(trend(&[1.0; 50]), None);
        let waves: Vec<f64> = (0..50).map(|at| f64::from(at % 5)).collect();
        assert_eq!(trend(&waves), None);
        assert_eq!(trend(&[]), None);
    }

    #[test]
    fn trends_of_runs_must_exceed_their_scatter() {
        let jumps = |at: i32| f64::from((at * 37) % 101) / 101.0;
        let slight: Vec<f64> = (0..1000).map(|at| jumps(at) + f64::from(at) / 1000.0).collect();
        assert!(trend(&slight).is_some());
        assert_eq!(trend_of_runs(&slight), None);
        let strong: Vec<f64> = (0..1000).map(|at| jumps(at) + f64::from(at) / 500.0).collect();
        assert!((trend_of_runs(&strong).unwrap().change - 2.0).abs() < 0.1);
    }

    #[test]
    fn long_series_are_thinned_out() {
        let series: Vec<f64> = (0..100_000).map(f64::from).collect();
        assert!((trend(&series).unwrap().change / 1e5 - 1.0).abs() < 0.01);
    }
}
