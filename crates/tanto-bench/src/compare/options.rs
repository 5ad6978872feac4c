//! Options of `tanto bench compare`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::measure::controls::Controls;
use crate::output::OutputFile;
use crate::{Error, InvalidValue};

/// Commands are named by letters.
const MAX_COMMANDS: usize = 26;

#[derive(Clone, Default, PartialEq, Debug)]
pub struct CompareOptions {
    /// The time limit of the experiment.
    pub time: Option<Duration>,
    /// Runs of each command; `None` for as many as the time limit allows.
    pub runs: Option<usize>,
    /// Stops when the interval is at most this wide to either side, as a fraction.
    pub until: Option<f64>,
    /// Uncounted runs of each command.
    pub warmup: usize,
    pub seed: Option<u64>,
    /// Lines run before each run.
    pub prepare: Vec<Vec<u8>>,
    /// Lines run before each run of the first and of the second command.
    pub prepare_ab: [Vec<Vec<u8>>; 2],
    /// Files or directories that must be the same after each run.
    pub same: Vec<PathBuf>,
    /// Whether the first command is measured twice, to estimate the noise.
    pub control: bool,
    /// Fails if a command is slower than the first one by more than this fraction.
    pub fail_if_slower: Option<f64>,
    pub outputs: Vec<OutputFile>,
    pub controls: Controls,
    /// Shell command lines.
    pub commands: Vec<Vec<u8>>,
}

impl CompareOptions {
    pub fn check(&self) -> Result<(), Error> {
        if self.until.is_some() && self.time.is_none() && self.runs.is_none() {
            return Err(Error::Usage("--until requires --for or --runs"));
        }
        if self.commands.len() < if self.control { 1 } else { 2 } {
            return Err(Error::Usage("two commands are required, such as 'make CC=gcc' 'make CC=clang'"));
        }
        if self.commands.len() > MAX_COMMANDS {
            return Err(Error::Usage("at most 26 commands can be compared"));
        }
        if self.commands.iter().any(|line| line.trim_ascii().is_empty()) {
            return Err(Error::Usage("a command is empty"));
        }
        self.outputs.iter().try_for_each(OutputFile::check)
    }
}

/// A fraction, parsed from `3%`, `3 %` or `3`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Percentage(pub f64);

impl FromStr for Percentage {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Percentage, InvalidValue> {
        let percent: Option<f64> = text.trim_end_matches('%').trim().parse().ok();
        let valid = percent.filter(|&percent| percent > 0.0 && percent <= 1000.0);
        valid.map(|percent| Percentage(percent / 100.0)).ok_or_else(|| InvalidValue("a percentage such as 1%".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_parsed() {
        assert_eq!("1.5%".parse(), Ok(Percentage(0.015)));
        assert_eq!(("3".parse(), "3 %".parse()), (Ok(Percentage(0.03)), Ok(Percentage(0.03))));
        for text in ["-1%", "0", "", "1001", "x"] {
            assert!(text.parse::<Percentage>().is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_combinations_are_errors() {
        let options = |commands: &[&str]| CompareOptions {
            commands: commands.iter().map(|&line| line.into()).collect(),
            ..CompareOptions::default()
        };
        let error = |options: CompareOptions| options.check().expect_err("refused").to_string();
        assert!(error(options(&["a"])).starts_with("two commands are required"));
        assert_eq!(error(options(&["a", " "])), "a command is empty");
        assert_eq!(error(options(&["a"; 27])), "at most 26 commands can be compared");
        let until = CompareOptions { until: Some(0.01), ..options(&["a", "b"]) };
        assert_eq!(error(until.clone()), "--until requires --for or --runs");
        assert_eq!(CompareOptions { runs: Some(9), ..until }.check(), Ok(()));
        assert_eq!(CompareOptions { control: true, ..options(&["a"]) }.check(), Ok(()));
    }
}
