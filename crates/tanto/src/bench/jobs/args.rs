//! What `tanto bench jobs` is asked for. Does not know how it is measured.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::bench::args::{self, Flag, HELP, wrong};
use crate::bench::measure::controls::{self, Controls};
use crate::bench::output::{Form, OUTPUT, Output};

/// What stands for the number of jobs in a command.
pub const PLACE: &[u8] = b"{jobs}";

/// All flags.
pub static FLAGS: [Flag; 18] = [
    HELP,
    JOBS,
    RUNS,
    PREPARE,
    PREPARE_ONCE,
    ORDER,
    SEED,
    controls::CPUS,
    controls::DROP_CACHES,
    controls::WRITE_THROUGH,
    controls::READ_AHEAD,
    controls::MEMORY,
    controls::SETTLE,
    controls::COUNT_SYNC,
    OUTPUT,
    APPEND,
    RESUME,
    SAVE,
];

const JOBS: Flag = Flag {
    letter: Some(b'j'),
    name: "jobs",
    value: Some("LIST"),
    doc: "the numbers of jobs to measure, such as 1..16 or 1,2,4",
};
/// `--runs`
pub const RUNS: Flag = Flag::new("runs", Some("N"), "measure each so many times (3)");
/// `--prepare`
pub const PREPARE: Flag =
    Flag::new("prepare", Some("CMD"), "run this before each run, not measured; may be given several times");
const PREPARE_ONCE: Flag =
    Flag::new("prepare-once", Some("CMD"), "run this before the first run; may be given several times");
const ORDER: Flag = Flag::new("order", Some("ORDER"), "`shuffled` (the default), or `swept` as the list has it");
const SEED: Flag = Flag::new("seed", Some("N"), "shuffle as the experiment did that printed this seed");
const APPEND: Flag =
    Flag::new("append", Some("FILE"), "add each run to FILE, as text that 'tanto bench plot' and gnuplot read");
const RESUME: Flag = Flag::new("resume", None, "go on with an experiment that was interrupted");
const SAVE: Flag =
    Flag::new("save", None, "make the recommended number the default of `tanto build` in this directory");

/// More at a time are no machine's.
const MOST_JOBS: u32 = 1 << 16;
/// More numbers are a mistake.
const MOST_COUNTS: usize = 1000;
/// More runs of each are a mistake.
const MOST_RUNS: usize = 10_000;

/// A command line.
#[derive(Clone, PartialEq, Debug)]
pub struct Args {
    /// Each number of jobs once, as they were given.
    pub counts: Vec<u32>,
    /// Runs of each.
    pub runs: usize,
    /// Before each run.
    pub prepare: Vec<Vec<u8>>,
    /// Before the first.
    pub prepare_once: Vec<Vec<u8>>,
    /// In a random order.
    pub shuffled: bool,
    /// What the order follows from.
    pub seed: Option<u64>,
    /// What is held still.
    pub controls: Controls,
    /// Where results go.
    pub outputs: Vec<Output>,
    /// Text to which each run is added.
    pub append: Option<PathBuf>,
    /// Goes on.
    pub resume: bool,
    /// The recommendation becomes the tree's default.
    pub save: bool,
    /// The command.
    pub words: Vec<Vec<u8>>,
}

impl Args {
    /// Reads the words after `jobs`; none if help is wanted. An error is a text for the user.
    pub fn read(words: &[Vec<u8>]) -> Result<Option<Args>, Vec<u8>> {
        let mut args = Args {
            counts: Vec::new(),
            runs: 3,
            prepare: Vec::new(),
            prepare_once: Vec::new(),
            shuffled: true,
            seed: None,
            controls: Controls::default(),
            outputs: Vec::new(),
            append: None,
            resume: false,
            save: false,
            words: Vec::new(),
        };
        let Some(rest) = args::read(&FLAGS, words, |flag, value| args.take(flag, value))? else { return Ok(None) };
        args.words = rest;
        args.check()?;
        Ok(Some(args))
    }

    fn take(&mut self, flag: &'static Flag, value: &[u8]) -> Result<(), Vec<u8>> {
        match flag {
            flag if *flag == JOBS => self.counts = counts(value)?,
            flag if *flag == RUNS => self.runs = runs(flag, value)?,
            flag if *flag == PREPARE => self.prepare.push(value.to_vec()),
            flag if *flag == PREPARE_ONCE => self.prepare_once.push(value.to_vec()),
            flag if *flag == ORDER => {
                self.shuffled = match value {
                    b"shuffled" => true,
                    b"swept" => false,
                    _ => return Err(wrong(flag, "shuffled or swept")),
                };
            }
            flag if *flag == SEED => self.seed = Some(number(value).ok_or_else(|| wrong(flag, "a number"))?),
            flag if *flag == OUTPUT => {
                self.outputs.push(Output::new(value, &[Form::Text, Form::Json, Form::Csv, Form::Svg, Form::Png])?);
            }
            flag if *flag == APPEND => self.append = Some(PathBuf::from(OsStr::from_bytes(value))),
            flag if *flag == RESUME => self.resume = true,
            flag if *flag == SAVE => self.save = true,
            flag => {
                self.controls.take(flag, value)?;
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Vec<u8>> {
        if self.words.is_empty() {
            return Err(b"measure which command? such as: tanto bench jobs --jobs 1..8 -- make -j{jobs}".into());
        }
        if !self.words.iter().any(|word| word.windows(PLACE.len()).any(|part| part == PLACE)) {
            return Err(b"the command has no {jobs} in it, so that each run would be the same".into());
        }
        if self.counts.is_empty() {
            return Err(b"how many jobs? such as --jobs 1..8".into());
        }
        Ok(())
    }
}

/// `--runs`: how often.
pub fn runs(flag: &Flag, value: &[u8]) -> Result<usize, Vec<u8>> {
    let runs = number(value).and_then(|runs: u64| usize::try_from(runs).ok());
    runs.filter(|runs| (1..=MOST_RUNS).contains(runs)).ok_or_else(|| wrong(flag, "a number above 0"))
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

/// From `1..16`, `1,2,4` or both, each once.
fn counts(value: &[u8]) -> Result<Vec<u32>, Vec<u8>> {
    let mut counts = Vec::new();
    for part in value.split(|&byte| byte == b',') {
        let (first, last) = range(part).ok_or_else(|| wrong(&JOBS, "numbers such as 1..16 or 1,2,4"))?;
        if first == 0 {
            return Err(wrong(&JOBS, "numbers above 0: with no job nothing would run"));
        }
        if last > MOST_JOBS || counts.len() + (last - first) as usize >= MOST_COUNTS {
            return Err(wrong(&JOBS, &format!("at most {MOST_COUNTS} numbers up to {MOST_JOBS}")));
        }
        counts.extend((first..=last).filter(|count| !counts.contains(count)).collect::<Vec<_>>());
    }
    Ok(counts)
}

fn range(part: &[u8]) -> Option<(u32, u32)> {
    let dots = part.windows(2).position(|two| two == b"..");
    let (first, last) = dots.map_or((part, part), |at| (&part[..at], &part[at + 2..]));
    Some((number(first)?, number(last)?)).filter(|(first, last)| first <= last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Option<Args>, String> {
        let words: Vec<Vec<u8>> = words.iter().map(|&word| word.into()).collect();
        Args::read(&words).map_err(|why| String::from_utf8(why).expect("text"))
    }

    fn complaint(line: &str) -> String {
        read(&line.split(' ').collect::<Vec<_>>()).expect_err(line)
    }

    #[test]
    fn a_line_is_read() {
        let line = "-j 1..3,8,2 --runs 5 --prepare-once ./configure --order swept --seed 7 --cpus 0 -o a.svg -o b.json \
                    --resume --save -- make -j{jobs} all";
        let args = read(&line.split_whitespace().collect::<Vec<_>>()).expect("sound").expect("no help");
        assert_eq!((args.counts, args.runs, args.shuffled, args.seed), (vec![1, 2, 3, 8], 5, false, Some(7)));
        assert_eq!((args.outputs.len(), args.resume, args.save), (2, true, true));
        assert_eq!(args.words, [&b"make"[..], b"-j{jobs}", b"all"]);
        assert!(args.controls.cpus.is_some());
        let args =
            read(&["--jobs=2", "--prepare", "make clean", "make -j{jobs} | cat"]).expect("sound").expect("no help");
        assert_eq!((args.prepare, args.runs, args.shuffled), (vec![b"make clean".to_vec()], 3, true));
        assert_eq!(read(&["-h"]), Ok(None));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let table = [
            ("--jobs 1..4", "measure which command? such as: tanto bench jobs --jobs 1..8 -- make -j{jobs}"),
            ("--jobs 1..4 -- make -j4", "the command has no {jobs} in it, so that each run would be the same"),
            ("make -j{jobs}", "how many jobs? such as --jobs 1..8"),
            ("-j 0..4 x", "invalid --jobs parameter: expected numbers above 0: with no job nothing would run"),
            ("-j 0 x", "invalid --jobs parameter: expected numbers above 0: with no job nothing would run"),
            ("-j 4..1 x", "invalid --jobs parameter: expected numbers such as 1..16 or 1,2,4"),
            ("-j 1...4 x", "invalid --jobs parameter: expected numbers such as 1..16 or 1,2,4"),
            ("-j 1, x", "invalid --jobs parameter: expected numbers such as 1..16 or 1,2,4"),
            ("-j 1..99999 x", "invalid --jobs parameter: expected at most 1000 numbers up to 65536"),
            ("--runs 0 x", "invalid --runs parameter: expected a number above 0"),
            ("--order odd x", "invalid --order parameter: expected shuffled or swept"),
            ("--seed -1 x", "invalid --seed parameter: expected a number"),
            (
                "-o x.pdf x",
                "--output x.pdf: the form is not known; its name has to end with .txt or .json or .csv or .svg or .png",
            ),
        ];
        for (line, message) in table {
            assert_eq!(complaint(line), message, "{line}");
        }
    }
}
