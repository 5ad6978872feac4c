//! The experiment itself: rounds of runs, until there are enough or no more can be done. Does not know where commands
//! run, nor what the numbers mean.

use std::time::Duration;

use crate::bench::measure::{Bench, Halt};
use crate::bench::shuffle::new_seed;
use crate::bench::statistics::interval::Depths;
use crate::bench::statistics::looks::PairOfLooks;
use crate::bench::statistics::pairs::Estimate;

use super::args::Args;
use super::findings::{Comparison, comparisons};
use super::order::Order;
use super::outputs::Outputs;
use super::record::{End, Record, Run, Side};

/// Who looks on while it is measured.
pub trait Audience {
    /// There is one more run.
    fn progress(&mut self, record: &Record);
}

/// An experiment under way.
pub struct Measuring<'m> {
    args: &'m Args,
    bench: &'m mut dyn Bench,
    record: Record,
    outputs: Outputs,
    /// Where there is a reason to look before the end.
    looks: Option<PairOfLooks>,
    order: Order,
    begun: Duration,
    /// What a step of each side took at most, with all that belongs to it.
    longest: Vec<Duration>,
}

impl<'m> Measuring<'m> {
    /// One that has not begun.
    pub fn new(args: &'m Args, bench: &'m mut dyn Bench) -> Measuring<'m> {
        let sides = Side::all(args);
        let looks = args.until.map(|_| PairOfLooks::new(comparisons(&sides)));
        let seed = args.seed.unwrap_or_else(new_seed);
        let order = Order::new(seed, sides.len());
        let longest = vec![Duration::ZERO; sides.len()];
        let begun = bench.now();
        let record = Record { seed, ..Record::new(sides) };
        Measuring { args, bench, record, outputs: Outputs::new(&args.same), looks, order, begun, longest }
    }

    /// Measures all there is to measure.
    pub fn run(mut self, audience: &mut dyn Audience) -> Record {
        let end = self.warm_up().unwrap_or_else(|| self.rounds(audience));
        self.record.depths = match (self.looks.take(), &end) {
            (Some(_), End::Narrow) => self.record.depths,
            (Some(looks), _) => looks.last(),
            (None, _) => Depths::of(self.record.rounds(), comparisons(&self.record.sides)),
        };
        self.record.others = self.bench.others();
        self.record.end = Some(end);
        self.record
    }

    fn warm_up(&mut self) -> Option<End> {
        for nth in 0..self.args.warmup {
            for side in 0..self.record.sides.len() {
                let ended = if self.fits(&[side]) { self.step(side, nth, true).err() } else { Some(End::Time) };
                if ended.is_some() {
                    return ended;
                }
            }
        }
        None
    }

    fn rounds(&mut self, audience: &mut dyn Audience) -> End {
        for round in 0.. {
            if self.args.runs == Some(round) {
                break;
            }
            let order = self.order.next();
            if !self.fits(&order) {
                return End::Time;
            }
            for (nth, &side) in order.iter().enumerate() {
                // The first ones may have taken longer than any before.
                if nth > 0 && !self.fits(&order[nth..]) {
                    return End::Time;
                }
                if let Err(end) = self.step(side, round, false) {
                    return end;
                }
                audience.progress(&self.record);
            }
            if self.is_narrow() {
                return End::Narrow;
            }
        }
        End::All
    }

    /// Will these end in time, if they take as long as ever?
    fn fits(&self, sides: &[usize]) -> bool {
        let wanted: Duration = sides.iter().map(|&side| self.longest[side]).sum();
        self.args.time.is_none_or(|time| self.bench.now().saturating_sub(self.begun) + wanted <= time)
    }

    /// Prepares and runs a side.
    fn step(&mut self, side: usize, round: usize, warmup: bool) -> Result<(), End> {
        let begun = self.bench.now();
        let halted = |halt: Halt, what: &str, record: &Record| {
            let run = if warmup {
                format!("warm-up {} of {}", round + 1, record.sides[side].name)
            } else {
                record.name(side, round)
            };
            End::Halted(format!("{what}{run}"), halt)
        };
        for line in &self.record.sides[side].prepare {
            self.bench.prepare(line).map_err(|halt| halted(halt, "preparing ", &self.record))?;
        }
        let at = self.bench.now().saturating_sub(self.begun);
        let sample = self.bench.run(&self.record.sides[side].line).map_err(|halt| halted(halt, "", &self.record))?;
        if !warmup {
            self.outputs.check(&self.record.name(side, round)).map_err(End::Unlike)?;
            self.record.runs.push(Run { side, round, at, sample });
        }
        self.longest[side] = self.longest[side].max(self.bench.now().saturating_sub(begun));
        Ok(())
    }

    /// After a round: is that enough?
    fn is_narrow(&mut self) -> bool {
        let (Some(until), Some(looks)) = (self.args.until, &mut self.looks) else { return false };
        if !looks.one_more() {
            return false;
        }
        self.record.depths = looks.look();
        let compared = Comparison::all(&self.record);
        let reached = |comparison: &Comparison| comparison.wall.estimate().map(Estimate::half_width);
        compared.iter().all(|comparison| reached(comparison).is_some_and(|reached| reached <= until))
    }
}
