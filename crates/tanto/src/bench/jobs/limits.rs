//! What limits a build with some number of jobs: by how busy the processors were, and for how long something waited.
//! Does not know what other numbers brought.

use serde_json::{Value, json};

use super::experiment::Experiment;
use crate::bench::measure::Sample;
use crate::bench::show::percent;
use crate::bench::statistics::quantile::median;

/// One thing that was short.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Limit {
    /// Processors: they were busy for this share of the time.
    Processors(f64),
    /// Memory: something waited for it for this share of the time.
    Memory(f64),
    /// The disk: something waited for it for this share of the time.
    Disk(f64),
    /// Processors, of which other programs and the machine around this one used this share.
    Others(f64),
    /// Nothing: the work itself has no more that can be done at once. So busy the processors were.
    Itself(f64),
}

/// Processors that were busier have nothing left for more.
const BUSY: f64 = 0.85;
/// Memory that was waited for longer was short.
const MEMORY: f64 = 0.10;
/// A disk that was waited for longer was slow.
const DISK: f64 = 0.20;
/// Of all processors, so many stood still because of the disk.
const IDLE_FOR_DISK: f64 = 0.10;

/// What was short with so many jobs, by the medians of its runs.
pub fn at(experiment: &Experiment, jobs: u32) -> Vec<Limit> {
    let processors = experiment.setup.cpus.count() as f64;
    let middle = |of: &dyn Fn(&Sample) -> Option<f64>| {
        median(&experiment.of(jobs).filter_map(of).collect::<Vec<f64>>()).unwrap_or(0.0)
    };
    let of_machine = processors / experiment.setup.machine.processors.max(1) as f64;
    let wall = |sample: &Sample| sample.wall.as_secs_f64();
    let busy = middle(&|sample| Some(sample.cpu().as_secs_f64() / wall(sample) / processors));
    let memory = middle(&|sample| Some(sample.pressure.memory?.as_secs_f64() / wall(sample)));
    let disk = middle(&|sample| Some(sample.pressure.io?.as_secs_f64() / wall(sample)));
    let idle = middle(&|sample| Some(sample.io_wait.as_secs_f64() / wall(sample) / processors));
    let mut limits = Vec::new();
    let others = middle(&|sample| Some(sample.conditions.background? + sample.conditions.stolen.unwrap_or(0.0)));
    limits.extend((busy >= BUSY).then_some(Limit::Processors(busy)));
    limits.extend((busy < BUSY && busy * of_machine + others >= BUSY).then_some(Limit::Others(others)));
    limits.extend((memory >= MEMORY).then_some(Limit::Memory(memory)));
    limits.extend((disk >= DISK || idle >= IDLE_FOR_DISK).then_some(Limit::Disk(disk.max(idle))));
    if limits.is_empty() {
        limits.push(Limit::Itself(busy));
    }
    limits
}

/// As a sentence without its beginning.
pub fn text(limits: &[Limit]) -> String {
    let one = |limit: &Limit| match *limit {
        Limit::Processors(share) => format!("the processors, which were busy {} of the time", percent(Some(share))),
        Limit::Others(share) => {
            format!("other programs, which used {} of the processors", percent(Some(share)))
        }
        Limit::Memory(share) => format!("memory, for which something waited {} of the time", percent(Some(share))),
        Limit::Disk(share) => format!("the disk, for which something waited {} of the time", percent(Some(share))),
        Limit::Itself(share) => {
            format!(
                "nothing of the machine, whose processors were busy {} of the time; the command itself waits",
                percent(Some(share))
            )
        }
    };
    limits.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl Limit {
    /// For other programs.
    pub fn json(&self) -> Value {
        let (what, share) = match *self {
            Limit::Processors(share) => ("processors", share),
            Limit::Others(share) => ("others", share),
            Limit::Memory(share) => ("memory", share),
            Limit::Disk(share) => ("disk", share),
            Limit::Itself(share) => ("itself", share),
        };
        json!({"what": what, "share": share})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::jobs::experiment::tests::experiment;
    use std::time::Duration;

    fn limits(change: fn(&mut Sample)) -> Vec<Limit> {
        let mut it = experiment(&[(4, 10.0), (4, 10.0), (8, 10.0)]);
        it.runs.iter_mut().filter(|run| run.jobs == 4).for_each(|run| change(&mut run.sample));
        at(&it, 4)
    }

    #[test]
    fn what_was_short_is_found() {
        assert_eq!(limits(|_| ()), [Limit::Itself(1.0 / 16.0)]);
        assert_eq!(limits(|sample| sample.user = Duration::from_secs(150)), [Limit::Processors(15.25 / 16.0)]);
        assert_eq!(limits(|sample| sample.pressure.memory = Some(Duration::from_secs(2))), [Limit::Memory(0.2)]);
        assert_eq!(limits(|sample| sample.io_wait = Duration::from_secs(40)), [Limit::Disk(0.25)]);
        assert_eq!(limits(|sample| sample.conditions.background = Some(0.8)), [Limit::Others(0.8)]);
        let both = limits(|sample| {
            sample.user = Duration::from_secs(150);
            sample.pressure.io = Some(Duration::from_secs(5));
        });
        assert_eq!(both, [Limit::Processors(15.25 / 16.0), Limit::Disk(0.5)]);
        assert_eq!(
            text(&both),
            "the processors, which were busy 95 % of the time; the disk, for which something waited 50 % of the time"
        );
    }
}
