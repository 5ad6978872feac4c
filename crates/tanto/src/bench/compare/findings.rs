//! What an experiment has found. Does not know how it is shown.

use crate::bench::statistics::outliers::outliers;
use crate::bench::statistics::pairs::{Estimate, Finding, Verdict, pairs};
use crate::bench::statistics::quantile::median;

use super::record::{Record, Side};

/// The time by which commands are compared first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lead {
    /// From start to end.
    Wall,
    /// Processor time.
    Cpu,
}

/// Other programs that used a larger share of the processors make the clock a bad judge of commands that compute.
const BUSY: f64 = 0.05;
/// A command computes if it used at least this share of one processor, or of what others left of it.
const COMPUTES: f64 = 0.5;

/// A command beside the first one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Comparison {
    /// Which.
    pub side: usize,
    /// By the time from start to end.
    pub wall: Verdict,
    /// By the processor time.
    pub cpu: Verdict,
    /// Which of both says more.
    pub lead: Lead,
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

/// The number of comparisons, which share the confidence: each command but the first. The control is none.
pub fn comparisons(sides: &[Side]) -> usize {
    sides.iter().filter(|side| !side.control).count().saturating_sub(1).max(1)
}

impl Comparison {
    /// Each command but the first.
    pub fn all(record: &Record) -> Vec<Comparison> {
        let (wall, cpu) = (record.wall(0), record.cpu(0));
        let of = |side: usize| Comparison {
            side,
            wall: pairs(&wall, &record.wall(side), record.depths),
            cpu: pairs(&cpu, &record.cpu(side), record.depths),
            lead: if [0, side].iter().all(|&side| leads_by_cpu(record, side)) { Lead::Cpu } else { Lead::Wall },
        };
        (1..record.sides.len()).map(of).collect()
    }

    /// Is it slower by more than this share, beyond doubt?
    pub fn is_slower_by(&self, share: f64) -> bool {
        let slower =
            |estimate: &Estimate| estimate.finding() == Finding::Differs && estimate.interval.low > 1.0 + share;
        self.wall.estimate().is_some_and(slower)
    }
}

/// Is the machine busy with other programs, and does this side compute most of its time?
fn leads_by_cpu(record: &Record, side: usize) -> bool {
    let Some(others) = record.others.filter(|others| others.share > BUSY) else { return false };
    let used = record.of(side, |sample| sample.cpu().as_secs_f64() / sample.wall.as_secs_f64());
    median(&used).is_some_and(|used| used >= COMPUTES * others.left.min(1.0))
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
