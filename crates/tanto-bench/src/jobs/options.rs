//! Options of `tanto bench jobs`.

use std::path::PathBuf;
use std::str::FromStr;

use crate::measure::command_line;
use crate::measure::controls::Controls;
use crate::output::OutputFile;
use crate::{Error, InvalidValue};

/// Stands for the number of jobs in commands.
pub const PLACEHOLDER: &[u8] = b"{jobs}";

const MAX_JOBS: u32 = 1 << 16;
const MAX_COUNTS: usize = 1000;

#[derive(Clone, PartialEq, Debug)]
pub struct JobsOptions {
    pub counts: JobCounts,
    /// Runs of each number of jobs.
    pub runs: usize,
    /// Lines run before each run.
    pub prepare: Vec<Vec<u8>>,
    /// Lines run before the first run.
    pub prepare_once: Vec<Vec<u8>>,
    /// Whether each round has a random order.
    pub shuffled: bool,
    pub seed: Option<u64>,
    pub controls: Controls,
    pub outputs: Vec<OutputFile>,
    /// Text file to which each run is appended.
    pub append: Option<PathBuf>,
    pub resume: bool,
    /// Config file to which the recommended number is saved.
    pub save_to: Option<PathBuf>,
    /// The words of the command, or one shell command line.
    pub command: Vec<Vec<u8>>,
}

impl JobsOptions {
    /// Returns the shell command line, which contains the placeholder.
    pub fn line(&self) -> Vec<u8> {
        // Quoting would treat the braces as special characters.
        const UNQUOTED: &[u8] = b"__TANTO_JOBS__";
        let words: Vec<Vec<u8>> = self.command.iter().map(|word| replace_all(word, PLACEHOLDER, UNQUOTED)).collect();
        replace_all(&command_line(&words), UNQUOTED, PLACEHOLDER)
    }

    pub fn check(&self) -> Result<(), Error> {
        let has_placeholder = |word: &Vec<u8>| word.windows(PLACEHOLDER.len()).any(|part| part == PLACEHOLDER);
        if self.command.iter().any(has_placeholder) { Ok(()) } else { Err(Error::NoPlaceholder) }
    }
}

/// Replaces all occurrences of `part`.
pub fn replace_all(text: &[u8], part: &[u8], replacement: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(part.len()).position(|window| window == part) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(replacement);
        rest = &rest[at + part.len()..];
    }
    result.extend_from_slice(rest);
    result
}

/// Distinct numbers of jobs, in the order given. Parsed from `1..16`, `1,2,4` or both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobCounts(pub Vec<u32>);

impl FromStr for JobCounts {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<JobCounts, InvalidValue> {
        let mut counts = Vec::new();
        for part in text.split(',') {
            let (first, last) = range(part).ok_or_else(|| InvalidValue("numbers such as 1..16 or 1,2,4".into()))?;
            if first == 0 {
                return Err(InvalidValue("numbers above 0".into()));
            }
            if last > MAX_JOBS || counts.len() + (last - first) as usize >= MAX_COUNTS {
                return Err(InvalidValue(format!("at most {MAX_COUNTS} numbers up to {MAX_JOBS}")));
            }
            counts.extend((first..=last).filter(|count| !counts.contains(count)).collect::<Vec<_>>());
        }
        Ok(JobCounts(counts))
    }
}

fn range(part: &str) -> Option<(u32, u32)> {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let (first, last) = part.split_once("..").unwrap_or((part, part));
    Some((number(first)?, number(last)?)).filter(|(first, last)| first <= last)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns options for a command, with one run of each number of jobs in the order given.
    pub fn options(counts: &[u32], command: &[&str]) -> JobsOptions {
        JobsOptions {
            counts: JobCounts(counts.to_vec()),
            runs: 1,
            prepare: Vec::new(),
            prepare_once: Vec::new(),
            shuffled: false,
            seed: None,
            controls: Controls::default(),
            outputs: Vec::new(),
            append: None,
            resume: false,
            save_to: None,
            command: command.iter().map(|&word| word.into()).collect(),
        }
    }

    #[test]
    fn braces_are_not_quoted() {
        assert_eq!(options(&[2], &["make", "-j{jobs}", "A=b c{jobs}"]).line(), b"make -j{jobs} 'A=b c{jobs}'");
        assert_eq!(replace_all(b"-j{jobs} {jobs}{jobs}", b"{jobs}", b"16"), b"-j16 1616");
    }

    #[test]
    fn a_command_needs_the_placeholder() {
        assert_eq!(options(&[2], &["make -j{jobs} | cat"]).check(), Ok(()));
        assert_eq!(options(&[2], &["make", "-j4"]).check(), Err(Error::NoPlaceholder));
    }

    #[test]
    fn job_counts_are_parsed() {
        assert_eq!("1..3,8,2".parse(), Ok(JobCounts(vec![1, 2, 3, 8])));
        for (text, expected) in [
            ("0..4", "numbers above 0"),
            ("0", "numbers above 0"),
            ("4..1", "numbers such as 1..16 or 1,2,4"),
            ("1...4", "numbers such as 1..16 or 1,2,4"),
            ("1,", "numbers such as 1..16 or 1,2,4"),
            ("-1", "numbers such as 1..16 or 1,2,4"),
            ("1..99999", "at most 1000 numbers up to 65536"),
        ] {
            assert_eq!(text.parse::<JobCounts>(), Err(InvalidValue(expected.into())), "{text}");
        }
    }
}
