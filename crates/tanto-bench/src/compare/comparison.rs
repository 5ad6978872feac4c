//! Compares each command of a record with the first one.

use super::record::{CompareRecord, Variant};
use crate::statistics::pairs::{Estimate, Finding, PairResult, compare_pairs};
use crate::statistics::summary::{median, outliers};

/// The time that is more reliable for a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrimaryMetric {
    WallTime,
    CpuTime,
}

/// With a higher background load, CPU time is the primary metric of commands that compute.
const MAX_BACKGROUND: f64 = 0.05;
/// A command computes if it uses at least this fraction of a processor, or of the free part of one.
const MIN_CPU_USE: f64 = 0.5;

/// A command compared with the first one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Comparison {
    /// Index of the variant.
    pub variant: usize,
    pub wall: PairResult,
    pub cpu: PairResult,
    pub primary: PrimaryMetric,
}

/// A run with a time far from the others of its command.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outlier {
    /// Index of the variant.
    pub variant: usize,
    pub round: usize,
    pub seconds: f64,
    /// Relative to the median.
    pub ratio: f64,
}

/// Returns the number of comparisons that share the error probability. The control is not one of them.
pub fn comparison_count(variants: &[Variant]) -> usize {
    variants.iter().filter(|variant| !variant.is_control).count().saturating_sub(1).max(1)
}

impl Comparison {
    pub fn all(record: &CompareRecord) -> Vec<Comparison> {
        let (wall, cpu) = (record.wall(0), record.cpu(0));
        let of = |variant: usize| Comparison {
            variant,
            wall: compare_pairs(&wall, &record.wall(variant), record.depths),
            cpu: compare_pairs(&cpu, &record.cpu(variant), record.depths),
            primary: if computes_on_busy_machine(record, 0) && computes_on_busy_machine(record, variant) {
                PrimaryMetric::CpuTime
            } else {
                PrimaryMetric::WallTime
            },
        };
        (1..record.variants.len()).map(of).collect()
    }

    /// Returns whether the command is significantly slower by more than this fraction.
    pub fn is_slower_by(&self, fraction: f64) -> bool {
        let slower =
            |estimate: &Estimate| estimate.finding() == Finding::Differs && estimate.interval_95.low > 1.0 + fraction;
        self.wall.estimate().is_some_and(slower)
    }
}

fn computes_on_busy_machine(record: &CompareRecord, variant: usize) -> bool {
    let Some(load) = record.background.filter(|load| load.fraction > MAX_BACKGROUND) else { return false };
    let used = record.values(variant, |sample| sample.cpu().as_secs_f64() / sample.wall.as_secs_f64());
    median(&used).is_some_and(|used| used >= MIN_CPU_USE * load.free_cpus.min(1.0))
}

impl Outlier {
    pub fn all(record: &CompareRecord) -> Vec<Outlier> {
        (0..record.variants.len()).flat_map(|variant| Outlier::of(record, variant)).collect()
    }

    fn of(record: &CompareRecord, variant: usize) -> Vec<Outlier> {
        let wall = record.wall(variant);
        let Some(middle) = median(&wall).filter(|&middle| middle > 0.0) else { return Vec::new() };
        let logs: Vec<f64> = wall.iter().map(|seconds| seconds.ln()).collect();
        let outlier = |round: usize| Outlier { variant, round, seconds: wall[round], ratio: wall[round] / middle };
        outliers(&logs).into_iter().map(outlier).collect()
    }
}
