//! The resources that limit a command with some number of jobs, by processor use and stall times.

use serde_json::{Value, json};

use super::experiment::Experiment;
use crate::format::percent;
use crate::measure::Sample;
use crate::statistics::summary::median;

/// A limiting resource with a fraction of the time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bottleneck {
    /// The processors were busy.
    Cpu(f64),
    /// Processes stalled on memory.
    Memory(f64),
    /// Processes stalled on I/O, or processors were idle while I/O was outstanding.
    Io(f64),
    /// Other programs and the hypervisor used the processors.
    OtherPrograms(f64),
    /// No resource: the command has too little parallelism to keep the processors busy. The fraction is their use.
    Parallelism(f64),
}

/// Fractions of the time from which a resource is a bottleneck.
const CPU_BUSY: f64 = 0.85;
const MEMORY_STALL: f64 = 0.10;
const IO_STALL: f64 = 0.20;
const IO_IDLE: f64 = 0.10;

/// Finds the bottlenecks with this number of jobs, by the medians of its runs.
pub fn find(experiment: &Experiment, jobs: u32) -> Vec<Bottleneck> {
    let processors = experiment.setup.cpus.count() as f64;
    let median_of = |of: &dyn Fn(&Sample) -> Option<f64>| {
        let samples = experiment.runs.iter().filter(|run| run.jobs == jobs).map(|run| &run.sample);
        median(&samples.filter_map(of).collect::<Vec<f64>>()).unwrap_or(0.0)
    };
    let of_machine = processors / experiment.setup.machine.processors.max(1) as f64;
    let wall = |sample: &Sample| sample.wall.as_secs_f64();
    let busy = median_of(&|sample| Some(sample.cpu().as_secs_f64() / wall(sample) / processors));
    let memory = median_of(&|sample| Some(sample.pressure.memory?.as_secs_f64() / wall(sample)));
    let io = median_of(&|sample| Some(sample.pressure.io?.as_secs_f64() / wall(sample)));
    let idle = median_of(&|sample| Some(sample.io_wait.as_secs_f64() / wall(sample) / processors));
    let mut bottlenecks = Vec::new();
    let others = median_of(&|sample| Some(sample.conditions.background? + sample.conditions.steal.unwrap_or(0.0)));
    bottlenecks.extend((busy >= CPU_BUSY).then_some(Bottleneck::Cpu(busy)));
    let with_others = busy * of_machine + others;
    bottlenecks.extend((busy < CPU_BUSY && with_others >= CPU_BUSY).then_some(Bottleneck::OtherPrograms(others)));
    bottlenecks.extend((memory >= MEMORY_STALL).then_some(Bottleneck::Memory(memory)));
    bottlenecks.extend((io >= IO_STALL || idle >= IO_IDLE).then_some(Bottleneck::Io(io.max(idle))));
    if bottlenecks.is_empty() {
        bottlenecks.push(Bottleneck::Parallelism(busy));
    }
    bottlenecks
}

/// Lists the bottlenecks in one line.
pub fn text(bottlenecks: &[Bottleneck]) -> String {
    bottlenecks.iter().map(Bottleneck::text).collect::<Vec<_>>().join("; ")
}

impl Bottleneck {
    fn text(&self) -> String {
        match *self {
            Bottleneck::Cpu(fraction) => format!("CPUs (busy {} of the time)", percent(Some(fraction))),
            Bottleneck::OtherPrograms(fraction) => {
                format!("other programs (used {} of the CPUs)", percent(Some(fraction)))
            }
            Bottleneck::Memory(fraction) => format!("memory (stalled {} of the time)", percent(Some(fraction))),
            Bottleneck::Io(fraction) => format!("I/O (stalled {} of the time)", percent(Some(fraction))),
            Bottleneck::Parallelism(fraction) => {
                format!("parallelism of the command (CPUs busy {} of the time)", percent(Some(fraction)))
            }
        }
    }

    pub fn json(&self) -> Value {
        let (resource, fraction) = match *self {
            Bottleneck::Cpu(fraction) => ("cpu", fraction),
            Bottleneck::OtherPrograms(fraction) => ("other programs", fraction),
            Bottleneck::Memory(fraction) => ("memory", fraction),
            Bottleneck::Io(fraction) => ("io", fraction),
            Bottleneck::Parallelism(fraction) => ("parallelism", fraction),
        };
        json!({"resource": resource, "fraction": fraction})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::experiment::tests::experiment;
    use std::time::Duration;

    fn bottlenecks(change: fn(&mut Sample)) -> Vec<Bottleneck> {
        let mut it = experiment(&[(4, 10.0), (4, 10.0), (8, 10.0)]);
        it.runs.iter_mut().filter(|run| run.jobs == 4).for_each(|run| change(&mut run.sample));
        find(&it, 4)
    }

    #[test]
    fn bottlenecks_are_found() {
        assert_eq!(bottlenecks(|_| ()), [Bottleneck::Parallelism(1.0 / 16.0)]);
        assert_eq!(bottlenecks(|sample| sample.user = Duration::from_secs(150)), [Bottleneck::Cpu(15.25 / 16.0)]);
        assert_eq!(
            bottlenecks(|sample| sample.pressure.memory = Some(Duration::from_secs(2))),
            [Bottleneck::Memory(0.2)]
        );
        assert_eq!(bottlenecks(|sample| sample.io_wait = Duration::from_secs(40)), [Bottleneck::Io(0.25)]);
        assert_eq!(bottlenecks(|sample| sample.conditions.background = Some(0.8)), [Bottleneck::OtherPrograms(0.8)]);
        let both = bottlenecks(|sample| {
            sample.user = Duration::from_secs(150);
            sample.pressure.io = Some(Duration::from_secs(5));
        });
        assert_eq!(both, [Bottleneck::Cpu(15.25 / 16.0), Bottleneck::Io(0.5)]);
        assert_eq!(text(&both), "CPUs (busy 95 % of the time); I/O (stalled 50 % of the time)");
    }
}
