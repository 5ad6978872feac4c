//! What an experiment has found. Does not know how it is shown.

use crate::bench::statistics::outliers::outliers;
use crate::bench::statistics::pairs::{Verdict, pairs};
use crate::bench::statistics::quantile::median;

use super::record::{Record, Side};

/// A command beside the first one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Comparison {
    /// Which.
    pub side: usize,
    /// By the time from start to end.
    pub wall: Verdict,
    /// By the processor time.
    pub cpu: Verdict,
}

/// A run that took much longer or shorter than others of its side.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outlier {
    /// Of which side.
    pub side: usize,
    /// In which round.
    pub round: usize,
    /// What it took, in seconds.
    pub seconds: f64,
    /// By the median of its side.
    pub ratio: f64,
}

/// How sure each of several comparisons has to be, so that all together are as sure as `level`.
pub fn level(level: f64, sides: &[Side]) -> f64 {
    let others = sides.iter().filter(|side| !side.control).count().saturating_sub(1);
    1.0 - (1.0 - level) / others.max(1) as f64
}

impl Comparison {
    /// Each command but the first.
    pub fn all(record: &Record) -> Vec<Comparison> {
        let (wall, cpu) = (record.wall(0), record.cpu(0));
        let of = |side: usize| Comparison {
            side,
            wall: pairs(&wall, &record.wall(side), record.depth),
            cpu: pairs(&cpu, &record.cpu(side), record.depth),
        };
        (1..record.sides.len()).map(of).collect()
    }

    /// Is it slower by more than this share, beyond doubt?
    pub fn is_slower_by(&self, share: f64) -> bool {
        self.wall.estimate().is_some_and(|estimate| estimate.interval.low > 1.0 + share)
    }
}

impl Outlier {
    /// Of all sides.
    pub fn all(record: &Record) -> Vec<Outlier> {
        (0..record.sides.len()).flat_map(|side| Outlier::of(record, side)).collect()
    }

    fn of(record: &Record, side: usize) -> Vec<Outlier> {
        let wall = record.wall(side);
        let Some(middle) = median(&wall).filter(|&middle| middle > 0.0) else { return Vec::new() };
        let logs: Vec<f64> = wall.iter().map(|seconds| seconds.ln()).collect();
        let outlier = |round: usize| Outlier { side, round, seconds: wall[round], ratio: wall[round] / middle };
        outliers(&logs).into_iter().map(outlier).collect()
    }
}
