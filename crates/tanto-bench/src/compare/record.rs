//! The measurements of a comparison.

use std::time::Duration;

use super::options::CompareOptions;
use crate::measure::{BackgroundLoad, RunError, Sample};
use crate::statistics::interval::Depths;

/// One of the commands.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// `A`, `B` and so on.
    pub name: String,
    pub line: Vec<u8>,
    /// Lines run before each run.
    pub prepare: Vec<Vec<u8>>,
    /// Whether this is the first command again.
    pub is_control: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct PairedRun {
    /// Index of the variant.
    pub variant: usize,
    /// Each round runs each variant once.
    pub round: usize,
    /// Relative to the start of the experiment.
    pub started: Duration,
    pub sample: Sample,
}

#[derive(Clone, PartialEq, Debug)]
pub enum StopReason {
    /// All runs are done.
    Complete,
    /// `--until` is reached.
    NarrowInterval,
    /// Another run would exceed the time limit.
    TimeLimit,
    /// The named run failed or was interrupted.
    Failed(String, RunError),
    /// A file of `--same` differs; with the message.
    OutputsDiffer(String),
}

#[derive(Clone, PartialEq, Debug)]
pub struct CompareRecord {
    /// The first one is the reference.
    pub variants: Vec<Variant>,
    /// In the order of measurement.
    pub runs: Vec<PairedRun>,
    /// `None` during the experiment.
    pub stopped: Option<StopReason>,
    /// Of the confidence intervals; `None` for too few runs.
    pub depths: Option<Depths>,
    /// The seed of the order of runs.
    pub seed: u64,
    pub background: Option<BackgroundLoad>,
}

impl Variant {
    pub fn all(options: &CompareOptions) -> Vec<Variant> {
        let variant = |(nth, line): (usize, &Vec<u8>)| {
            let own = options.prepare_ab.get(nth).into_iter().flatten();
            let prepare = options.prepare.iter().chain(own).cloned().collect();
            Variant { name: char::from(b'A' + nth as u8).into(), line: line.clone(), prepare, is_control: false }
        };
        let mut variants: Vec<Variant> = options.commands.iter().enumerate().map(variant).collect();
        if options.control {
            variants.push(Variant { name: "A again".into(), is_control: true, ..variants[0].clone() });
        }
        variants
    }
}

impl CompareRecord {
    pub fn new(variants: Vec<Variant>, seed: u64) -> CompareRecord {
        CompareRecord { variants, runs: Vec::new(), stopped: None, depths: None, seed, background: None }
    }

    /// Returns the number of complete rounds.
    pub fn rounds(&self) -> usize {
        self.runs.len() / self.variants.len()
    }

    /// Returns a value of each run of a variant in complete rounds.
    pub fn values<T>(&self, variant: usize, value: impl Fn(&Sample) -> T) -> Vec<T> {
        let rounds = self.rounds();
        let runs = self.runs.iter().filter(|run| run.variant == variant && run.round < rounds);
        runs.map(|run| value(&run.sample)).collect()
    }

    /// Returns wall times in seconds.
    pub fn wall(&self, variant: usize) -> Vec<f64> {
        self.values(variant, |sample| sample.wall.as_secs_f64())
    }

    /// Returns user plus system times in seconds.
    pub fn cpu(&self, variant: usize) -> Vec<f64> {
        self.values(variant, |sample| sample.cpu().as_secs_f64())
    }

    /// Returns `run 3 of B`.
    pub fn run_name(&self, variant: usize, round: usize) -> String {
        format!("run {} of {}", round + 1, self.variants[variant].name)
    }
}
