//! Runs the rounds of a comparison until a limit is reached.

use std::time::Duration;

use super::comparison::{Comparison, comparison_count};
use super::options::CompareOptions;
use super::order::RandomOrder;
use super::output_check::OutputCheck;
use super::record::{CompareRecord, PairedRun, StopReason, Variant};
use crate::measure::{Executor, RunError};
use crate::random::new_seed;
use crate::statistics::interval::Depths;
use crate::statistics::pairs::Estimate;
use crate::statistics::sequential::SequentialIntervals;

/// Receives the record after each run.
pub trait Observer {
    fn run_completed(&mut self, record: &CompareRecord);
}

pub struct PairedExperiment<'m> {
    options: &'m CompareOptions,
    executor: &'m mut dyn Executor,
    record: CompareRecord,
    outputs: OutputCheck,
    /// With `--until`.
    intervals: Option<SequentialIntervals>,
    order: RandomOrder,
    started: Duration,
    /// The longest time of each variant, including its preparation.
    longest: Vec<Duration>,
}

impl<'m> PairedExperiment<'m> {
    pub fn new(options: &'m CompareOptions, executor: &'m mut dyn Executor) -> PairedExperiment<'m> {
        let variants = Variant::all(options);
        let seed = options.seed.unwrap_or_else(new_seed);
        PairedExperiment {
            options,
            outputs: OutputCheck::new(&options.same),
            intervals: options.until.map(|_| SequentialIntervals::new(comparison_count(&variants))),
            order: RandomOrder::new(seed, variants.len()),
            started: executor.now(),
            longest: vec![Duration::ZERO; variants.len()],
            record: CompareRecord::new(variants, seed),
            executor,
        }
    }

    pub fn run(mut self, observer: &mut dyn Observer) -> CompareRecord {
        let stopped = self.warm_up().unwrap_or_else(|| self.rounds(observer));
        self.record.depths = match (self.intervals.take(), &stopped) {
            (Some(_), StopReason::NarrowInterval) => self.record.depths,
            (Some(intervals), _) => intervals.last(),
            (None, _) => Depths::of(self.record.rounds(), comparison_count(&self.record.variants)),
        };
        self.record.background = self.executor.background_load();
        self.record.stopped = Some(stopped);
        self.record
    }

    fn warm_up(&mut self) -> Option<StopReason> {
        for nth in 0..self.options.warmup {
            for variant in 0..self.record.variants.len() {
                if !self.fits(&[variant]) {
                    return Some(StopReason::TimeLimit);
                }
                if let Err(stopped) = self.step(variant, nth, true) {
                    return Some(stopped);
                }
            }
        }
        None
    }

    fn rounds(&mut self, observer: &mut dyn Observer) -> StopReason {
        for round in 0.. {
            if self.options.runs == Some(round) {
                break;
            }
            let order = self.order.next();
            for (nth, &variant) in order.iter().enumerate() {
                // Checked again after each run, which may have taken longer than earlier ones.
                if !self.fits(&order[nth..]) {
                    return StopReason::TimeLimit;
                }
                if let Err(stopped) = self.step(variant, round, false) {
                    return stopped;
                }
                observer.run_completed(&self.record);
            }
            if self.is_narrow() {
                return StopReason::NarrowInterval;
            }
        }
        StopReason::Complete
    }

    /// Returns whether runs of these variants fit into the time limit if they take as long as the longest so far.
    fn fits(&self, variants: &[usize]) -> bool {
        let needed: Duration = variants.iter().map(|&variant| self.longest[variant]).sum();
        self.options.time.is_none_or(|time| self.executor.now().saturating_sub(self.started) + needed <= time)
    }

    /// Prepares and runs a variant.
    fn step(&mut self, variant: usize, round: usize, is_warmup: bool) -> Result<(), StopReason> {
        let started = self.executor.now();
        let failed = |error: RunError, prefix: &str, record: &CompareRecord| {
            let run = if is_warmup {
                format!("warm-up {} of {}", round + 1, record.variants[variant].name)
            } else {
                record.run_name(variant, round)
            };
            StopReason::Failed(format!("{prefix}{run}"), error)
        };
        for line in &self.record.variants[variant].prepare {
            self.executor.prepare(line).map_err(|error| failed(error, "preparing ", &self.record))?;
        }
        let run_started = self.executor.now().saturating_sub(self.started);
        let line = &self.record.variants[variant].line;
        let sample = self.executor.run(line).map_err(|error| failed(error, "", &self.record))?;
        if !is_warmup {
            self.outputs.check(&self.record.run_name(variant, round)).map_err(StopReason::OutputsDiffer)?;
            self.record.runs.push(PairedRun { variant, round, started: run_started, sample });
        }
        self.longest[variant] = self.longest[variant].max(self.executor.now().saturating_sub(started));
        Ok(())
    }

    /// Checks `--until` after a round.
    fn is_narrow(&mut self) -> bool {
        let (Some(until), Some(intervals)) = (self.options.until, &mut self.intervals) else { return false };
        if !intervals.add() {
            return false;
        }
        self.record.depths = intervals.look();
        let is_narrow = |comparison: &Comparison| {
            comparison.wall.estimate().map(Estimate::half_width).is_some_and(|width| width <= until)
        };
        Comparison::all(&self.record).iter().all(is_narrow)
    }
}
