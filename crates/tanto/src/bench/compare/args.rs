//! What `tanto bench compare` is asked for. Does not know how it is done.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::bench::args::{Flag, HELP, read, wrong};
use crate::bench::measure::controls::{self, Controls};
use crate::bench::output::{Form, OUTPUT, Output};
use crate::flags::number;

const FOR: Flag = Flag::new("for", Some("TIME"), "begin nothing that would not end within TIME, such as 5h");
const RUNS: Flag = Flag::new("runs", Some("N"), "run each command N times (10, unless --for says how long)");
const UNTIL: Flag =
    Flag::new("until", Some("P%"), "stop earlier, once the interval reaches no more than P % to either side");
const WARMUP: Flag = Flag::new("warmup", Some("N"), "run each command N times before that, uncounted (1)");
const PREPARE: Flag = Flag::new("prepare", Some("CMD"), "run CMD before each run; may be given several times");
const PREPARE_A: Flag = Flag::new("prepare-a", Some("CMD"), "the same, before runs of the first command only");
const PREPARE_B: Flag = Flag::new("prepare-b", Some("CMD"), "the same, before runs of the second command only");
const SEED: Flag = Flag::new("seed", Some("N"), "shuffle the runs as the experiment did that has this seed");
const SAME: Flag = Flag::new(
    "same",
    Some("PATH"),
    "stop if this file or directory is not the same after each run; may be given several times",
);
const CONTROL: Flag =
    Flag::new("control", None, "run the first command once more beside the others: the noise of the machine");
const FAIL: Flag =
    Flag::new("fail-if-slower", Some("P%"), "exit with 1 if a command is slower than the first by more than P %");

/// All of them.
pub static FLAGS: [Flag; 20] = [
    FOR,
    RUNS,
    UNTIL,
    PREPARE,
    PREPARE_A,
    PREPARE_B,
    WARMUP,
    SEED,
    SAME,
    CONTROL,
    FAIL,
    controls::CPUS,
    controls::SETTLE,
    controls::COUNT_SYNC,
    controls::DROP_CACHES,
    controls::WRITE_THROUGH,
    controls::READ_AHEAD,
    controls::MEMORY,
    OUTPUT,
    HELP,
];

/// Pairs, where nobody says how many.
const USUAL: usize = 10;
/// There are so many letters to call commands by.
const MOST_LINES: usize = 26;
/// More runs are nobody's.
const MOST_RUNS: i64 = 1_000_000;

/// A command line.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Args {
    /// `--for`
    pub time: Option<Duration>,
    /// `--runs`; none: as many as there is time for.
    pub runs: Option<usize>,
    /// `--until`, as a share: 0.01 is 1 %.
    pub until: Option<f64>,
    /// `--warmup`
    pub warmup: usize,
    /// `--seed`
    pub seed: Option<u64>,
    /// `--prepare`
    pub prepare: Vec<Vec<u8>>,
    /// `--prepare-a` and `--prepare-b`
    pub prepare_own: [Vec<Vec<u8>>; 2],
    /// `--same`
    pub same: Vec<PathBuf>,
    /// `--control`
    pub control: bool,
    /// `--fail-if-slower`, as a share.
    pub fail_if_slower: Option<f64>,
    /// `-o`
    pub outputs: Vec<Output>,
    /// What is to be held still.
    pub controls: Controls,
    /// The commands, each a line of the shell.
    pub lines: Vec<Vec<u8>>,
}

impl Args {
    /// Reads the words after `compare`; none if help is wanted. An error is a text for the user.
    pub fn read(words: &[Vec<u8>]) -> Result<Option<Args>, Vec<u8>> {
        let mut args = Args { warmup: 1, ..Args::default() };
        match read(&FLAGS, words, |flag, value| args.take(flag, value))? {
            Some(lines) => args.lines = lines,
            None => return Ok(None),
        }
        if args.time.is_none() && args.runs.is_none() {
            if args.until.is_some() {
                return Err(b"--until wants a limit beside it: --for or --runs".into());
            }
            args.runs = Some(USUAL);
        }
        args.fits().map(|()| Some(args))
    }

    fn take(&mut self, flag: &Flag, value: &[u8]) -> Result<(), Vec<u8>> {
        let share = || share(value).ok_or_else(|| wrong(flag, "a percentage such as 1%"));
        match flag {
            flag if *flag == FOR => {
                let ms = number::milliseconds(value).filter(|&ms| ms > 0);
                let ms = ms.ok_or_else(|| wrong(flag, "a time such as 90s or 5h"))?;
                self.time = Some(Duration::from_millis(ms.unsigned_abs()));
            }
            flag if *flag == RUNS => self.runs = Some(count(flag, value, 1)?),
            flag if *flag == WARMUP => self.warmup = count(flag, value, 0)?,
            flag if *flag == SEED => {
                let seed = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.seed = Some(seed.ok_or_else(|| wrong(flag, "a number"))?);
            }
            flag if *flag == UNTIL => self.until = Some(share()?),
            flag if *flag == FAIL => self.fail_if_slower = Some(share()?),
            flag if *flag == PREPARE => self.prepare.push(value.to_vec()),
            flag if *flag == PREPARE_A => self.prepare_own[0].push(value.to_vec()),
            flag if *flag == PREPARE_B => self.prepare_own[1].push(value.to_vec()),
            flag if *flag == SAME => self.same.push(PathBuf::from(OsStr::from_bytes(value))),
            flag if *flag == CONTROL => self.control = true,
            flag if *flag == OUTPUT => {
                self.outputs.push(Output::new(value, &[Form::Text, Form::Json, Form::Csv, Form::Svg, Form::Png])?)
            }
            flag => _ = self.controls.take(flag, value)?,
        }
        Ok(())
    }

    fn fits(&self) -> Result<(), Vec<u8>> {
        let fewest = if self.control { 1 } else { 2 };
        if self.lines.len() < fewest {
            return Err(
                b"compare what? Two commands are needed, each a line of the shell: 'make CC=a' 'make CC=b'".into()
            );
        }
        if self.lines.len() > MOST_LINES {
            return Err(format!("no more than {MOST_LINES} commands at a time").into());
        }
        if self.lines.iter().any(|line| line.trim_ascii().is_empty()) {
            return Err(b"one of the commands is empty".into());
        }
        Ok(())
    }
}

fn count(flag: &Flag, value: &[u8], least: i64) -> Result<usize, Vec<u8>> {
    let count = number::integer(value).filter(|count| !value.is_empty() && (least..=MOST_RUNS).contains(count));
    count.map(|count| count as usize).ok_or_else(|| wrong(flag, &format!("a number from {least} on")))
}

/// `3%`, `3 %` or `3` as 0.03.
fn share(value: &[u8]) -> Option<f64> {
    let number = std::str::from_utf8(value).ok()?.trim_end_matches('%').trim();
    let percent: f64 = number.parse().ok()?;
    (percent > 0.0 && percent <= 1000.0).then_some(percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|&word| word.into()).collect()
    }

    fn args(line: &[&str]) -> Args {
        Args::read(&words(line)).expect("it makes sense").expect("no help")
    }

    #[test]
    fn flags_end_where_commands_begin() {
        let line = ["--for=1h30m", "--runs", "50", "--until", "1.5%", "--prepare-b", "x", "--prepare-b", "y"];
        let read =
            args(&[&line[..], &["--same", "out", "--control", "--fail-if-slower", "3", "--", "a -b", "c"]].concat());
        assert_eq!((read.time, read.runs), (Some(Duration::from_secs(5400)), Some(50)));
        assert_eq!((read.until, read.fail_if_slower), (Some(0.015), Some(0.03)));
        assert_eq!(read.prepare_own, [vec![], words(&["x", "y"])]);
        assert_eq!(read.lines, words(&["a -b", "c"]));
        assert!(read.control && read.same == [PathBuf::from("out")] && read.warmup == 1);
    }

    #[test]
    fn somebody_has_to_say_when_to_stop() {
        assert_eq!(args(&["a", "b"]).runs, Some(USUAL));
        assert_eq!(args(&["--for", "1s", "a", "b"]).runs, None);
        assert_eq!(args(&["--control", "a"]).lines.len(), 1);
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (line, expected) in [
            (&["a"][..], "compare what? Two commands are needed"),
            (&["a", " "], "one of the commands is empty"),
            (&["--until", "1%", "a", "b"], "--until wants a limit beside it"),
            (&["--runs", "0", "a", "b"], "invalid --runs parameter: expected a number from 1 on"),
            (&["--for", "0", "a", "b"], "invalid --for parameter: expected a time such as 90s or 5h"),
            (&["--until", "-1%", "a", "b"], "invalid --until parameter: expected a percentage such as 1%"),
            (&["-o", "x.pdf", "a", "b"], "--output x.pdf: the form is not known"),
            (&["--what", "a", "b"], "unrecognized option '--what'"),
        ] {
            let error = Args::read(&words(line)).expect_err("it makes none");
            assert!(error.starts_with(expected.as_bytes()), "{}", String::from_utf8_lossy(&error));
        }
        assert_eq!(Args::read(&words(&["-h"])), Ok(None));
    }
}
