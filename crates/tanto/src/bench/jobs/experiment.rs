//! An experiment with numbers of jobs: how it was made, and all that was measured. Does not know how it is written down.

use std::collections::BTreeMap;

use tanto_sys::machine::affinity::CpuMask;
use tanto_sys::machine::info::MachineInfo;

use super::args::Args;
use crate::bench::measure::{self, Sample};

/// How it is made: two experiments go together only if this is the same.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// The line for the shell, with `{jobs}` in it.
    pub command: String,
    /// Before each run.
    pub prepare: Vec<String>,
    /// Before the first.
    pub prepare_once: Vec<String>,
    /// What was held still: names and values.
    pub controls: BTreeMap<String, String>,
    /// Where.
    pub machine: MachineInfo,
    /// The processors of it that were used.
    pub cpus: CpuMask,
}

/// One run.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Jobs at a time.
    pub jobs: u32,
    /// What it took.
    pub sample: Sample,
}

/// All of it, the runs in the order in which they were made.
#[derive(Clone, PartialEq, Debug)]
pub struct Experiment {
    /// How.
    pub setup: Setup,
    /// What.
    pub runs: Vec<Run>,
}

impl Setup {
    /// That of a command line, on this machine. An error is a text for the user.
    pub fn of(args: &Args) -> Result<Setup, Vec<u8>> {
        let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
        let lines = |lines: &[Vec<u8>]| lines.iter().map(|line| text(line)).collect();
        let own = CpuMask::current().map_err(|error| tanto_sys::error::text(&error))?;
        Ok(Setup {
            command: text(&line(args)),
            prepare: lines(&args.prepare),
            prepare_once: lines(&args.prepare_once),
            controls: args.controls.told().into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            machine: MachineInfo::query(),
            cpus: args.controls.cpus.clone().unwrap_or(own),
        })
    }

    /// What is not the same in another one: a line each.
    pub fn differences(&self, other: &Setup) -> Vec<String> {
        let (ours, others) = (self.told(), other.told());
        let absent = || "not set".to_owned();
        let of = |told: &[(String, String)], name: &str| {
            told.iter().find(|(it, _)| it == name).map_or_else(absent, |(_, value)| value.clone())
        };
        let lacking = others.iter().filter(|(name, _)| !ours.iter().any(|(it, _)| it == name));
        let names = ours.iter().chain(lacking).map(|(name, _)| name);
        let both = names.map(|name| (name, of(&ours, name), of(&others, name)));
        both.filter(|(_, ours, others)| ours != others)
            .map(|(name, ours, others)| format!("{name}: {others}, now {ours}"))
            .collect()
    }

    fn told(&self) -> Vec<(String, String)> {
        let MachineInfo { model, processors, memory_kib, kernel, is_virtual: _ } = &self.machine;
        let machine = format!("{model}, {processors} processors, {memory_kib} KiB, {kernel}");
        let lists = |lines: &[String]| if lines.is_empty() { "nothing".to_owned() } else { lines.join("; ") };
        let mut told = vec![
            ("command".to_owned(), self.command.clone()),
            ("prepare".into(), lists(&self.prepare)),
            ("prepare-once".into(), lists(&self.prepare_once)),
            ("machine".into(), machine),
            ("affinity".into(), self.cpus.to_string()),
        ];
        told.extend(self.controls.clone());
        told
    }
}

impl Experiment {
    /// Wall times in seconds by number of jobs.
    pub fn walls(&self) -> BTreeMap<u32, Vec<f64>> {
        let mut walls: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for run in &self.runs {
            walls.entry(run.jobs).or_default().push(run.sample.wall.as_secs_f64());
        }
        walls
    }

    /// What was measured with so many jobs.
    pub fn of(&self, jobs: u32) -> impl Iterator<Item = &Sample> {
        self.runs.iter().filter(move |run| run.jobs == jobs).map(|run| &run.sample)
    }
}

/// The command's line, with `{jobs}` in it.
pub fn line(args: &Args) -> Vec<u8> {
    // The braces are no more than letters to a shell, but would be quoted as a part of a word.
    const STAND_IN: &[u8] = b"__TANTO_JOBS__";
    let words: Vec<Vec<u8>> = args.words.iter().map(|word| with(word, super::args::PLACE, STAND_IN)).collect();
    with(&measure::line(&words), STAND_IN, super::args::PLACE)
}

/// The text with one part in another's place, wherever it is.
pub fn with(text: &[u8], part: &[u8], other: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(part.len()).position(|window| window == part) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(other);
        rest = &rest[at + part.len()..];
    }
    result.extend_from_slice(rest);
    result
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::bench::measure::fake;

    /// An experiment with these runs, on a machine of 16 processors.
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
        let run = |&(jobs, seconds)| Run { jobs, sample: fake::sample(seconds) };
        Experiment { setup, runs: runs.iter().map(run).collect() }
    }

    #[test]
    fn braces_survive_the_quoting() {
        let words = ["make", "-j{jobs}", "A=b c{jobs}"].map(|word| word.as_bytes().to_vec()).to_vec();
        let args =
            Args::read(&[vec![b"-j2".to_vec(), b"--".to_vec()], words].concat()).expect("sound").expect("no help");
        assert_eq!(line(&args), b"make -j{jobs} 'A=b c{jobs}'");
        assert_eq!(with(b"-j{jobs} {jobs}{jobs}", b"{jobs}", b"16"), b"-j16 1616");
    }

    #[test]
    fn differences_are_named() {
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
