//! The setup and the runs of an experiment with several numbers of jobs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tanto_sys::machine::affinity::CpuMask;
use tanto_sys::machine::info::MachineInfo;

use super::options::JobsOptions;
use crate::Error;
use crate::measure::Sample;

/// Only experiments with equal setups can be combined.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// The shell command line, with `{jobs}` in it.
    pub command: String,
    pub prepare: Vec<String>,
    pub prepare_once: Vec<String>,
    /// Names and values of controls.
    pub controls: BTreeMap<String, String>,
    pub machine: MachineInfo,
    /// The processors that were used.
    pub cpus: CpuMask,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobsRun {
    pub jobs: u32,
    #[serde(flatten)]
    pub sample: Sample,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Experiment {
    pub setup: Setup,
    /// In the order of measurement.
    pub runs: Vec<JobsRun>,
}

impl Setup {
    /// Returns the setup of these options on this machine.
    pub fn new(options: &JobsOptions) -> Result<Setup, Error> {
        let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
        let lines = |lines: &[Vec<u8>]| lines.iter().map(|line| text(line)).collect();
        let own = CpuMask::current()?;
        Ok(Setup {
            command: text(&options.line()),
            prepare: lines(&options.prepare),
            prepare_once: lines(&options.prepare_once),
            controls: options.controls.describe().into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            machine: MachineInfo::query(),
            cpus: options.controls.cpus.clone().unwrap_or(own),
        })
    }

    /// Describes each difference from another setup.
    pub fn differences(&self, other: &Setup) -> Vec<String> {
        let (ours, others) = (self.fields(), other.fields());
        let of = |fields: &[(String, String)], name: &str| {
            let field = fields.iter().find(|(it, _)| it == name);
            field.map_or_else(|| "not set".to_owned(), |(_, value)| value.clone())
        };
        let only_theirs = others.iter().filter(|(name, _)| !ours.iter().any(|(it, _)| it == name));
        let names = ours.iter().chain(only_theirs).map(|(name, _)| name);
        let both = names.map(|name| (name, of(&ours, name), of(&others, name)));
        both.filter(|(_, ours, others)| ours != others)
            .map(|(name, ours, others)| format!("{name}: {others}, now {ours}"))
            .collect()
    }

    fn fields(&self) -> Vec<(String, String)> {
        let MachineInfo { model, processors, memory_kib, kernel, is_virtual: _ } = &self.machine;
        let machine = format!("{model}, {processors} processors, {memory_kib} KiB, {kernel}");
        let list = |lines: &[String]| if lines.is_empty() { "nothing".to_owned() } else { lines.join("; ") };
        let mut fields = vec![
            ("command".to_owned(), self.command.clone()),
            ("prepare".into(), list(&self.prepare)),
            ("prepare-once".into(), list(&self.prepare_once)),
            ("machine".into(), machine),
            ("affinity".into(), self.cpus.to_string()),
        ];
        fields.extend(self.controls.clone());
        fields
    }
}

impl Experiment {
    /// Returns wall times in seconds by number of jobs.
    pub fn wall_times(&self) -> BTreeMap<u32, Vec<f64>> {
        let mut times: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for run in &self.runs {
            times.entry(run.jobs).or_default().push(run.sample.wall.as_secs_f64());
        }
        times
    }

    /// Describes the machine and the processors used.
    pub fn place(&self) -> String {
        let (machine, used) = (&self.setup.machine, self.setup.cpus.count());
        let of = if used == machine.processors { String::new() } else { format!(" of {}", machine.processors) };
        let plural = if machine.processors == 1 { "" } else { "s" };
        format!("{}, {used}{of} processor{plural}", machine.model)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::measure::fake;

    /// Returns an experiment with these numbers of jobs and seconds, on a machine with 16 processors.
    pub fn experiment(runs: &[(u32, f64)]) -> Experiment {
        let machine = MachineInfo {
            model: "Some CPU".into(),
            processors: 16,
            memory_kib: 8 << 20,
            kernel: "Linux 6.1".into(),
            is_virtual: false,
        };
        let setup = Setup {
            command: "make -j{jobs}".into(),
            prepare: vec!["make clean".into()],
            prepare_once: Vec::new(),
            controls: BTreeMap::from([("settle".into(), "0 ms".into())]),
            machine,
            cpus: CpuMask::parse(b"0-15").expect("a mask"),
        };
        let run = |&(jobs, seconds)| JobsRun { jobs, sample: fake::sample(seconds) };
        Experiment { setup, runs: runs.iter().map(run).collect() }
    }

    #[test]
    fn differences_are_described() {
        let one = experiment(&[]).setup;
        let mut other = one.clone();
        assert_eq!(one.differences(&other), [""; 0]);
        other.prepare.clear();
        other.controls.insert("settle".into(), "10000 ms".into());
        assert_eq!(one.differences(&other), ["prepare: nothing, now make clean", "settle: 10000 ms, now 0 ms"]);
        let mut ahead = one.clone();
        ahead.controls.insert("read-ahead".into(), "4096 KiB".into());
        assert_eq!(one.differences(&ahead), ["read-ahead: 4096 KiB, now not set"]);
        assert_eq!(ahead.differences(&one), ["read-ahead: not set, now 4096 KiB"]);
    }
}
