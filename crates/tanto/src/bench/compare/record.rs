//! What an experiment has measured so far. Does not know how, nor what it means.

use std::time::Duration;

use crate::bench::measure::{Halt, Others, Sample};
use crate::bench::statistics::interval::Depths;

use super::args::Args;

/// One of the commands.
#[derive(Clone, PartialEq, Debug)]
pub struct Side {
    /// What it is called.
    pub name: String,
    /// The line of the shell.
    pub line: Vec<u8>,
    /// What goes before each run.
    pub prepare: Vec<Vec<u8>>,
    /// It is the first one once more.
    pub control: bool,
}

/// One run that counts.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Of which side.
    pub side: usize,
    /// Each side has one run in each.
    pub round: usize,
    /// When it began, from the experiment's beginning on.
    pub at: Duration,
    /// What it took.
    pub sample: Sample,
}

/// Why there are no more runs.
#[derive(Clone, PartialEq, Debug)]
pub enum End {
    /// There are as many as were wanted.
    All,
    /// The interval is narrow enough.
    Narrow,
    /// Another one would not have ended in time.
    Time,
    /// Something went wrong; a text says when.
    Halted(String, Halt),
    /// What was to be the same was not.
    Unlike(String),
}

/// All that was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// The commands; the first is what the others are compared with.
    pub sides: Vec<Side>,
    /// In the order in which they were done.
    pub runs: Vec<Run>,
    /// Why no more; none while it goes on.
    pub end: Option<End>,
    /// Where the limits of the intervals lie; `None` if there are too few runs.
    pub depths: Option<Depths>,
    /// The seed of the order of runs.
    pub seed: u64,
    /// What other programs used of the processors; `None` if unknown.
    pub others: Option<Others>,
}

impl Side {
    /// The sides of an experiment.
    pub fn all(args: &Args) -> Vec<Side> {
        let side = |(nth, line): (usize, &Vec<u8>)| {
            let own = args.prepare_own.get(nth).into_iter().flatten();
            let prepare = args.prepare.iter().chain(own).cloned().collect();
            Side { name: char::from(b'A' + nth as u8).into(), line: line.clone(), prepare, control: false }
        };
        let mut sides: Vec<Side> = args.lines.iter().enumerate().map(side).collect();
        if args.control {
            sides.push(Side { name: "A again".into(), control: true, ..sides[0].clone() });
        }
        sides
    }
}

impl Record {
    /// Nothing yet.
    pub fn new(sides: Vec<Side>) -> Record {
        Record { sides, runs: Vec::new(), end: None, depths: None, seed: 0, others: None }
    }

    /// Rounds in which every side has run.
    pub fn rounds(&self) -> usize {
        self.runs.len() / self.sides.len()
    }

    /// What a side's runs took, in the order of rounds: of whole rounds only.
    pub fn of<T>(&self, side: usize, what: impl Fn(&Sample) -> T) -> Vec<T> {
        let rounds = self.rounds();
        let runs = self.runs.iter().filter(|run| run.side == side && run.round < rounds);
        runs.map(|run| what(&run.sample)).collect()
    }

    /// Seconds that a side's runs took.
    pub fn wall(&self, side: usize) -> Vec<f64> {
        self.of(side, |sample| sample.wall.as_secs_f64())
    }

    /// Seconds of processor time that a side's runs took.
    pub fn cpu(&self, side: usize) -> Vec<f64> {
        self.of(side, |sample| sample.cpu().as_secs_f64())
    }

    /// `run 3 of B`
    pub fn name(&self, side: usize, round: usize) -> String {
        format!("run {} of {}", round + 1, self.sides[side].name)
    }
}
